"""The round loop with clients that are formulas, and once with real ones against plain torch."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rich.console import Console

from tests.closeness import assert_close_in_norm
from training.algorithms.aggregators.base import AggregationWeights
from training.algorithms.aggregators.weighting import FedAuto, FedAvg
from training.algorithms.exchanges import NoExchange
from training.algorithms.exchanges.base import Exchange, Parcel
from training.algorithms.objectives.epochs import epoch_order, in_batches
from training.errors import QuorumError
from training.messages import Failure, Update, reply
from training.models import build_model
from training.models.classifier import float_state
from training.randomness import derive_seed, generator
from training.rounds.server.checkpoint import Checkpoints
from training.rounds.server.loop import mix, run_rounds
from training.rounds.server.metrics import MetricsLog
from training.rounds.server.plan import Plan, Track, TrackState, choose_cohort
from training.tensor_file import Spool

SUMMED = ("weight", "bias")


def update(client, seed):
    rng = np.random.default_rng(seed)
    tensors = {
        name: torch.from_numpy(rng.normal(size=shape).astype(np.float32))
        for name, shape in (("weight", (3, 4)), ("bias", (5,)))
    }
    return Update(client, "0-federate", 1, "fit", tensors=tensors)


UPDATES = [update("a", 1), update("b", 2), update("c", 3)]
PREVIOUS = dict(update("server", 0).tensors) | {"token": torch.tensor([7.0, -1.0])}


def weighted_sum(weights, previous, name):
    """The weighted sum in double precision."""
    total = previous * PREVIOUS[name].numpy().astype(np.float64)
    for member in UPDATES:
        total = total + weights.get(member.client, 0.0) * member.tensors[name].numpy().astype(np.float64)
    return total


@pytest.mark.parametrize("previous", [0.0, 0.4, -1.5])
def test_the_next_model_is_the_weighted_sum_wherever_updates_wait(previous, tmp_path):
    aggregation = AggregationWeights({"a": 0.15, "b": -0.25, "c": 0.6}, previous)
    spool = Spool(tmp_path / "spool", memory=0)
    mixed = mix(aggregation, UPDATES, PREVIOUS, SUMMED)
    stored = mix(aggregation, [spool.stored(member) for member in UPDATES], PREVIOUS, SUMMED)
    for name in SUMMED:
        assert_close_in_norm(mixed[name], weighted_sum(aggregation.clients, previous, name), 1e-6, name)
        assert torch.equal(stored[name], mixed[name])


def test_of_one_client_alone_bytes_are_copied_and_what_does_not_travel_stays_as_it_was():
    mixed = mix(AggregationWeights({"b": 1.0}), UPDATES, PREVIOUS, ("bias",))
    assert mixed["weight"] is PREVIOUS["weight"]
    assert mixed["token"] is PREVIOUS["token"]
    assert torch.equal(mixed["bias"], UPDATES[1].tensors["bias"])


START = {"weight": torch.tensor([1.0, -2.0, 3.0]), "bias": torch.tensor([0.5])}
HELD = {"a": 10, "b": 30, "c": 60}
SHIFT = {"a": 1.0, "b": -2.0, "c": 0.5}


def trained(broadcast):
    """A client whose local training halves what arrives and adds its own shift."""
    tensors = {name: 0.5 * value + SHIFT[broadcast.client] for name, value in broadcast.tensors.items()}
    held = {"light": HELD[broadcast.client]}
    return reply(broadcast, tensors=tensors, num_examples=held, losses={"light": 1.0})


class FormulaEngine:
    """Answers requests by a function and remembers them."""

    def __init__(self, answer=trained):
        self.answer = answer
        self.asked = []

    def run_round(self, broadcasts: Sequence):
        self.asked.extend(broadcasts)
        return [self.answer(broadcast) for broadcast in broadcasts]

    def close(self):
        pass


@pytest.fixture
def make_plan():
    def build(**changes):
        names = tuple(HELD)
        given = {
            "stage": "0-federate",
            "rounds": 2,
            "tracks": (Track("global", names, names, ("light",)),),
            "shared": ("weight", "bias"),
            "local": (),
            "exchange": NoExchange(),
            "aggregator": FedAvg(),
            "participation": 1.0,
            "min_clients": None,
            "average_at_end": True,
            "split": None,
            "seed": 3,
        }
        return Plan(**{**given, **changes})

    return build


@pytest.fixture
def rounds(tmp_path):
    """Run a plan; gives the models, the log's lines and the traffic."""

    def run(plan, engine, after_round=None):
        metrics_log = MetricsLog(tmp_path / "metrics.jsonl", Console(quiet=True))
        checkpoints = Checkpoints(tmp_path / "checkpoints", "job")
        states = {track.name: TrackState(START, plan.aggregator.initial_state()) for track in plan.tracks}
        states, traffic = run_rounds(plan, states, engine, metrics_log, checkpoints, after_round)
        return states, metrics_log.lines(), traffic

    return run


def by_hand(weights, times):
    """`times` rounds of Σ_c w_c (θ/2 + shift_c)."""
    value = {name: tensor.numpy().astype(float) for name, tensor in START.items()}
    for _ in range(times):
        value = {
            name: sum(w * (0.5 * old + SHIFT[client]) for client, w in weights.items())
            for name, old in value.items()
        }
    return value


def assert_model(state, expected):
    assert_close_in_norm({name: state.weights[name] for name in expected}, expected)


def test_two_rounds_are_two_weighted_means(make_plan, rounds):
    states, lines, _ = rounds(make_plan(), FormulaEngine())
    assert_model(states["global"], by_hand({"a": 0.1, "b": 0.3, "c": 0.6}, times=2))
    assert [line["round"] for line in lines] == [1, 2]
    assert lines[0]["models"]["global"]["weights"] == pytest.approx({"a": 0.1, "b": 0.3, "c": 0.6})


def failing(wrong):
    """All train but b, which does `wrong`."""

    def answer(broadcast):
        return wrong(broadcast) if broadcast.client == "b" else trained(broadcast)

    return FormulaEngine(answer)


def sends_nan(broadcast):
    update = trained(broadcast)
    return replace(update, tensors={**update.tensors, "bias": torch.tensor([float("nan")])})


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda broadcast: Failure("b", "global", "its disk is full"), "its disk is full"),
        (sends_nan, "b sent bias with values that are not finite"),
        (lambda b: replace(trained(b), losses={"light": float("inf")}), "not a finite number"),
        (lambda b: replace(trained(b), tensors={}), "missing ['bias', 'weight']"),
        (lambda b: replace(trained(b), num_examples={}), "b reports no pictures behind its update"),
        (lambda b: replace(trained(b), round=7), "asked was"),
    ],
)
def test_a_client_that_fails_is_logged_with_its_reason_and_the_others_share_its_weight(
    make_plan, rounds, wrong, reason
):
    states, lines, _ = rounds(make_plan(min_clients=2), failing(wrong))
    assert_model(states["global"], by_hand({"a": 1 / 7, "c": 6 / 7}, times=2))
    for line in lines:
        assert line["asked"] == ["a", "b", "c"]
        assert line["answered"] == ["a", "c"]
        [failed] = line["failed"]
        assert (failed["client"], failed["model"]) == ("b", "global")
        assert reason in failed["reason"]
        assert line["models"]["global"]["weights"] == pytest.approx({"a": 1 / 7, "c": 6 / 7})


def test_too_few_answers_stop_the_run_with_everybodys_reason(make_plan, rounds):
    def answer(broadcast):
        if broadcast.client == "a":
            return trained(broadcast)
        return Failure(broadcast.client, "global", f"{broadcast.client} is closed today")

    with pytest.raises(
        QuorumError,
        match=r"round 1 of 0-federate \(global\): 1 of 3 clients answered, 2 are needed "
        r"\(engine.min_clients\)\. b: b is closed today; c: c is closed today\. Mend .* --resume",
    ):
        rounds(make_plan(min_clients=2), FormulaEngine(answer))


def test_without_a_minimum_every_client_must_answer(make_plan, rounds):
    with pytest.raises(QuorumError, match="2 of 3 clients answered, 3 are needed"):
        rounds(make_plan(), failing(lambda broadcast: Failure("b", "global", "away")))


def test_a_cohort_is_drawn_by_seed_and_round_in_client_order(make_plan):
    names = tuple(f"clinic {number:02d}" for number in range(10))
    track = Track("global", names, names, ())
    plan = make_plan(participation=0.3)
    cohorts = [choose_cohort(track, plan, round_) for round_ in range(1, 201)]
    assert {len(cohort) for cohort in cohorts} == {3}
    assert all(list(cohort) == sorted(set(cohort)) for cohort in cohorts)
    assert cohorts == [choose_cohort(track, plan, round_) for round_ in range(1, 201)]
    assert cohorts != [choose_cohort(track, replace(plan, seed=4), round_) for round_ in range(1, 201)]
    # 200 rounds of three in ten: 60 each, standard deviation 6.5.
    asked = [sum(name in cohort for cohort in cohorts) for name in names]
    assert asked == pytest.approx([60] * 10, abs=4 * 6.5)


@pytest.mark.parametrize(("participation", "size"), [(1.0, 10), (0.3, 3), (0.31, 4), (0.01, 1), (0.7, 7)])
def test_the_size_of_a_cohort_is_rounded_up(make_plan, participation, size):
    names = tuple("abcdefghij")
    assert (
        len(choose_cohort(Track("global", names, (), ()), make_plan(participation=participation), 1)) == size
    )


def test_only_the_cohort_is_asked_and_weighed(make_plan, rounds):
    engine = FormulaEngine()
    states, lines, _ = rounds(make_plan(participation=0.5, rounds=1), engine)
    asked = [broadcast.client for broadcast in engine.asked]
    assert len(asked) == 2
    assert lines[0]["asked"] == asked
    total = sum(HELD[client] for client in asked)
    assert_model(states["global"], by_hand({client: HELD[client] / total for client in asked}, times=1))


def test_a_client_whose_one_model_fails_still_trains_the_other(make_plan, rounds):
    tracks = (Track("light", ("a", "b"), (), ("light",)), Track("dark", ("b", "c"), (), ("dark",)))

    def answer(broadcast):
        if (broadcast.client, broadcast.track) == ("b", "light"):
            return Failure("b", "light", "no pictures of it")
        return trained(broadcast)

    states, lines, _ = rounds(make_plan(tracks=tracks, min_clients=1), FormulaEngine(answer))
    assert_model(states["light"], by_hand({"a": 1.0}, times=2))
    assert_model(states["dark"], by_hand({"b": 1 / 3, "c": 2 / 3}, times=2))
    assert lines[0]["failed"] == [{"client": "b", "model": "light", "reason": "no pictures of it"}]


class Gather(Exchange):
    """Every client sends one number; the next round every client gets the sum of all before."""

    comes_back = True
    name: Literal["gather"] = "gather"

    def outgoing(self, client, round_, memory, random, server_context):
        return Parcel(dict(memory), {"sum": float(memory.get("sum", 0))} if client == "b" else {})

    def collect(self, update, memory, server_context):
        found = update.tensors["exchange/number"]
        return {"sum": memory.get("sum", torch.zeros(1)) + found}


def test_an_exchange_sends_gathers_and_remembers(make_plan, rounds):
    received = []

    def answer(broadcast):
        weights = {name: value for name, value in broadcast.tensors.items() if name in START}
        received.append(
            {name: float(value) for name, value in broadcast.tensors.items() if name not in START}
        )
        update = trained(replace(broadcast, tensors=weights))
        number = torch.tensor([float(HELD[broadcast.client])])
        return replace(update, tensors={**update.tensors, "exchange/number": number})

    states, lines, _ = rounds(make_plan(exchange=Gather()), FormulaEngine(answer))
    assert [line["models"]["global"]["exchange"] for line in lines] == [
        {"b": {"sum": 0}},
        {"b": {"sum": 100}},
    ]
    beside = [{client: sent["beside"] for client, sent in line["bytes_by_client"].items()} for line in lines]
    assert beside == [dict.fromkeys("abc", 0), dict.fromkeys("abc", 4)]
    assert lines[1]["bytes_by_client"]["a"] == {"down": 16 + 4, "beside": 4, "up": 16 + 4}
    assert received == [{}] * 3 + [{"exchange/sum": 100.0}] * 3
    assert float(states["global"].memory["sum"]) == 200
    assert_model(states["global"], by_hand({"a": 0.1, "b": 0.3, "c": 0.6}, times=2))


def test_an_exchange_from_whose_clients_nothing_comes_back_refuses_what_does(make_plan, rounds):
    def answer(broadcast):
        update = trained(broadcast)
        return replace(update, tensors={**update.tensors, "exchange/number": torch.ones(1)})

    with pytest.raises(QuorumError, match=r"unexpected \['exchange/number'\]"):
        rounds(make_plan(), FormulaEngine(answer))


def test_what_stays_is_collected_once_at_the_end_from_those_who_trained(make_plan, rounds):
    kept = {"a": 4.0, "b": -1.0, "c": 2.0}

    def answer(broadcast):
        if broadcast.ask == "collect":
            tensors = {"bias": torch.tensor([kept[broadcast.client]])}
            return reply(broadcast, tensors=tensors, num_examples={"light": HELD[broadcast.client]})
        update = trained(broadcast)
        return replace(update, tensors={"weight": update.tensors["weight"]})

    engine = FormulaEngine(answer)
    plan = make_plan(shared=("weight",), local=("bias",), rounds=3)
    states, _, _ = rounds(plan, engine)
    sent = [(b.client, b.round, b.ask, sorted(b.tensors)) for b in engine.asked]
    everything, travelling = ["bias", "weight"], ["weight"]
    assert sent == [
        *[(client, 1, "fit", everything) for client in "abc"],
        *[(client, round_, "fit", travelling) for round_ in (2, 3) for client in "abc"],
        *[(client, 3, "collect", []) for client in "abc"],
    ]
    assert float(states["global"].weights["bias"]) == pytest.approx(0.1 * 4 - 0.3 * 1 + 0.6 * 2)


def test_a_judge_that_does_not_answer_is_logged_and_the_round_goes_on(make_plan, rounds):
    def answer(broadcast):
        if broadcast.ask == "evaluate":
            return Failure(broadcast.client, "global", "no time")
        return trained(broadcast)

    states, lines, _ = rounds(make_plan(split="validation"), FormulaEngine(answer))
    assert_model(states["global"], by_hand({"a": 0.1, "b": 0.3, "c": 0.6}, times=2))
    assert [failed["client"] for failed in lines[0]["failed"]] == ["a", "b", "c"]
    assert lines[0]["metrics"] == {}


class KilledError(Exception):
    pass


def test_a_run_that_is_stopped_goes_on_as_if_nothing_had_happened(make_plan, tmp_path):
    """Server state, exchange memory, who has trained, traffic and log are all taken up again."""

    def answer(broadcast):
        weights = {name: value for name, value in broadcast.tensors.items() if name in START}
        update = trained(replace(broadcast, tensors=weights))
        loss = {"a": 1.0, "b": 2.0, "c": 0.7}[broadcast.client] + broadcast.round / 10
        # One subgroup at each client, so that FedAuto tells them apart.
        held = {broadcast.client: HELD[broadcast.client]}
        update = replace(update, losses={broadcast.client: loss}, num_examples=held)
        tensors = {"weight": update.tensors["weight"], "exchange/number": torch.tensor([loss])}
        return replace(update, tensors=tensors)

    def run(folder, engine, rounds_):
        plan = make_plan(
            rounds=5,
            shared=("weight",),
            local=("bias",),
            average_at_end=False,
            exchange=Gather(),
            aggregator=FedAuto(),
            participation=0.6,
        )
        metrics_log = MetricsLog(folder / "metrics.jsonl", Console(quiet=True))
        states = {"global": TrackState(START, plan.aggregator.initial_state())}

        def stop(round_, *_):
            if round_ == rounds_:
                raise KilledError

        return *run_rounds(
            plan, states, engine, metrics_log, Checkpoints(folder / "c", "job"), stop
        ), metrics_log

    whole, traffic, log = run(tmp_path / "whole", FormulaEngine(answer), None)
    # Stopped after its third round was logged, before its checkpoint was written.
    with pytest.raises(KilledError):
        run(tmp_path / "stopped", FormulaEngine(answer), 3)
    engine = FormulaEngine(answer)
    again, again_traffic, again_log = run(tmp_path / "stopped", engine, None)

    assert {broadcast.round for broadcast in engine.asked} == {3, 4, 5}
    first, second = whole["global"], again["global"]
    assert all(torch.equal(first.weights[name], second.weights[name]) for name in START)
    assert torch.equal(first.memory["sum"], second.memory["sum"])
    assert (first.server, first.participants, traffic) == (second.server, second.participants, again_traffic)
    assert first.server == {"m": 3.0}
    lines = [[{**line, "seconds": 0} for line in metrics_log.lines()] for metrics_log in (log, again_log)]
    assert lines[0] == lines[1]


def test_two_real_clients_for_two_rounds_are_plain_torch_averaged(make_job, run_job, make_dataset):
    data = make_dataset({"north": {"light": (13, 3, 0, 3)}, "south": {"dark": (5, 3, 0, 3)}})
    objective = {"augment": {"flip": False}, "sampling": "uniform"}
    job = make_job(federate={"objective": objective, "evaluate_on": None})
    ran = run_job(job, data)

    model = build_model(job.model, 2, derive_seed(job.seed, "initial weights"))
    model = model.to(memory_format=torch.channels_last).train()
    server = {name: value.clone() for name, value in float_state(model).items()}
    for round_ in (1, 2):
        local = []
        for client in ("north", "south"):
            model.load_state_dict(server, strict=False)
            optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, fused=True)
            examples = data.examples(client, "train")
            random = generator(job.seed, "0-federate", "global", round_, client, "order 0")
            for batch in in_batches(epoch_order(examples.labels, "uniform", random), 6):
                images = torch.from_numpy(examples.images[batch]).permute(0, 3, 1, 2) / 255
                optimizer.zero_grad()
                F.cross_entropy(model(images), torch.from_numpy(examples.labels[batch])).backward()
                optimizer.step()
            local.append({name: value.double() for name, value in float_state(model).items()})
        server = {name: ((13 * local[0][name] + 5 * local[1][name]) / 18).float() for name in server}
    final = ran.weights()
    assert final.keys() == server.keys()
    for name, expected in server.items():
        assert_close_in_norm(final[name], expected, 1e-4, name)
