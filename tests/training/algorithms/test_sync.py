"""Which weights travel, and how FedEMA merges them."""

import math
from statistics import fmean

import pytest
import torch

from tests.closeness import assert_close_in_norm
from training.algorithms.sync import SyncEMA, SyncExcept
from training.engines.in_process import InProcessEngine
from training.errors import JobError
from training.messages import named
from training.models import Classifier, ModelConfig, build_model
from training.models.classifier import float_state, group_names

# A vision transformer as small as timm builds one.
VIT = {
    "name": "vit_tiny_patch16_224",
    "options": {"img_size": 16, "patch_size": 8, "depth": 1, "embed_dim": 12, "num_heads": 2},
}


@pytest.fixture(scope="module")
def resnet():
    return build_model(ModelConfig(name="resnet18", options={"channels": [4, 8, 16, 32]}), 2, seed=0)


@pytest.fixture(scope="module")
def vit():
    return build_model(ModelConfig.model_validate(VIT), 2, seed=0)


def test_norm_is_every_normalisation_layer_with_its_statistics(resnet, vit):
    local = SyncExcept(groups=("norm",)).local(resnet)
    batch_norms = [
        name for name, module in resnet.named_modules() if isinstance(module, torch.nn.BatchNorm2d)
    ]
    parts = ("weight", "bias", "running_mean", "running_var")
    assert local & float_state(resnet).keys() == {f"{name}.{part}" for name in batch_norms for part in parts}
    assert {name.split(".")[-2] for name in group_names(vit, "norm")} == {"norm", "norm1", "norm2"}


@pytest.mark.parametrize("model", ["resnet", "vit"])
def test_head_is_the_linear_classifier(model, request):
    classifier = request.getfixturevalue(model)
    found = {name.split(".")[-1]: float_state(classifier)[name] for name in group_names(classifier, "head")}
    assert {name: value.shape[0] for name, value in found.items()} == {"weight": 2, "bias": 2}
    assert torch.equal(found["weight"], classifier.encoder.get_classifier().weight)


def test_class_token_and_patch_projection_of_a_transformer(vit):
    assert group_names(vit, "class_token") == {"encoder.cls_token"}
    assert group_names(vit, "patch_projection") == {
        "encoder.patch_embed.proj.weight",
        "encoder.patch_embed.proj.bias",
    }


def test_an_unknown_group_is_refused_with_those_that_exist(resnet):
    with pytest.raises(JobError, match="unknown group of parameters `nrom`; valid: norm, head, class_token"):
        SyncExcept(groups=("nrom",)).shared(resnet)


TWO = {"north": {"light": (13, 3, 0, 3)}, "south": {"dark": (5, 3, 0, 3)}}


@pytest.fixture
def two_clients(make_dataset):
    """Of 13 and 5 training pictures."""
    return make_dataset(TWO)


@pytest.mark.parametrize(
    ("sync", "model", "stem"),
    [
        ({"name": "except", "groups": ["norm"]}, {}, "encoder.bn1"),
        ({"name": "all", "buffers": "local"}, {}, "encoder.bn1.running_mean"),
        ({"name": "except", "groups": ["class_token"]}, VIT, "encoder.cls_token"),
    ],
)
def test_what_stays_differs_between_clients_and_is_averaged_once_at_the_end(
    make_job, run_job, two_clients, sync, model, stem
):
    # A vit's settings replace the narrow resnet's.
    # At first the head is zero, and so is each block's last normalisation: three steps move all before it.
    job = make_job(federate={"sync": sync, "objective": {"epochs": 3}})
    if model:
        job = job.model_copy(update={"model": ModelConfig.model_validate(model)})
    ran = run_job(job, two_clients)
    kept = {
        client: [
            named(ran.store.load(client, "0-federate/global", round_ + 1).tensors, "weights/")
            for round_ in (1, 2)
        ]
        for client in ("north", "south")
    }
    local = set(kept["north"][1])
    assert any(name.startswith(stem) for name in local)
    final = ran.weights()
    for name in local:
        assert not torch.equal(kept["north"][0][name], kept["south"][0][name])
        # What a client has after the second round comes from what it had itself after the first.
        assert not torch.equal(kept["north"][0][name], kept["north"][1][name])
        expected = (13 * kept["north"][1][name].double() + 5 * kept["south"][1][name].double()) / 18
        assert_close_in_norm(final[name], expected, 1e-6, name)
    assert local < set(final)


def test_the_first_round_carries_everything_and_the_next_what_travels(make_job, run_job, two_clients):
    block = {"sync": {"name": "except", "groups": ["norm"]}, "rounds": 3, "evaluate_on": None}
    ran = run_job(make_job(federate=block), two_clients)
    state = ran.weights()
    local = group_names(ran.result.context.model, "norm") & set(state)
    everything = sum(value.numel() * 4 for value in state.values())
    kept = sum(state[name].numel() * 4 for name in local)
    down = [line["bytes_down"] for line in ran.lines]
    up = [line["bytes_up"] for line in ran.lines]
    assert down == [2 * everything, 2 * (everything - kept), 2 * (everything - kept)]
    # What stayed goes up once, with the last round.
    assert up == [2 * (everything - kept), 2 * (everything - kept), 2 * everything]


def moved(first, second):
    """A round whose two convolutions change by these lengths."""
    before = {"encoder.a": torch.ones(1, 1, 2, 2), "encoder.b": torch.zeros(1, 2, 1, 1)}
    changes = {"encoder.a": torch.full((1, 1, 2, 2), first / 2), "encoder.b": torch.zeros(1, 2, 1, 1)}
    changes["encoder.b"][0, 1] = second
    return before, {name: before[name] + changes[name] for name in before}


def test_three_participations_by_hand():
    sync = SyncEMA(tau=0.6)
    received = {"weight": torch.tensor([1.0, -2.0])}
    own = {"weight": torch.tensor([3.0, 4.0])}

    assert torch.equal(sync.merge(received, {}, {})["weight"], received["weight"])

    # First: d = (3 + 1) / 2 = 2, so λ = 0.6 / 2 = 0.3 and μ = 0.6.
    notes = sync.note(*moved(3, 1), {})
    assert notes == pytest.approx({"divergence": 2, "scale": 0.3})
    expected = torch.tensor([0.6 * 3 + 0.4 * 1, 0.6 * 4 - 0.4 * 2])
    torch.testing.assert_close(sync.merge(received, own, notes)["weight"], expected)

    # Second: d = (0.5 + 1.5) / 2 = 1, λ stands, so μ = 0.3.
    notes = sync.note(*moved(0.5, 1.5), notes)
    assert notes == pytest.approx({"divergence": 1, "scale": 0.3})
    expected = torch.tensor([0.3 * 3 + 0.7 * 1, 0.3 * 4 - 0.7 * 2])
    torch.testing.assert_close(sync.merge(received, own, notes)["weight"], expected)

    # Third: d = 10, λ d = 3, which is more than 1: the client keeps its own.
    notes = sync.note(*moved(8, 12), notes)
    assert notes == pytest.approx({"divergence": 10, "scale": 0.3})
    assert torch.equal(sync.merge(received, own, notes)["weight"], own["weight"])
    assert received["weight"].tolist() == [1, -2]
    assert own["weight"].tolist() == [3, 4]


def test_a_client_that_did_not_move_takes_what_arrives_and_is_measured_later():
    sync = SyncEMA()
    received, own = {"weight": torch.zeros(1)}, {"weight": torch.ones(1)}
    still = sync.note(*moved(0, 0), {})
    assert still == {}
    assert torch.equal(sync.merge(received, own, still)["weight"], received["weight"])
    later = sync.note(*moved(2, 2), still)
    assert later == pytest.approx({"divergence": 2, "scale": 0.35})
    stopped = sync.note(*moved(0, 0), later)
    assert stopped == pytest.approx({"divergence": 0, "scale": 0.35})
    assert torch.equal(sync.merge(received, own, stopped)["weight"], received["weight"])


def test_everything_travels_and_everything_is_kept_and_convolutions_are_watched(resnet):
    sync = SyncEMA()
    assert sync.shared(resnet) == sync.keeps(resnet) == tuple(float_state(resnet))
    convolutions = {
        f"encoder.{name}.weight"
        for name, module in resnet.encoder.named_modules()
        if isinstance(module, torch.nn.Conv2d)
    }
    assert set(sync.watches(resnet)) == convolutions
    assert convolutions


def test_local_statistics_stay_the_clients_own(resnet):
    sync = SyncEMA(buffers="local")
    assert set(sync.keeps(resnet)) == set(float_state(resnet))
    received = {"bn.running_mean": torch.zeros(1), "bn.weight": torch.zeros(1)}
    kept = {"bn.running_mean": torch.ones(1), "bn.weight": torch.ones(1), "bn.running_var": torch.ones(1)}
    merged = sync.merge(received, kept, {"divergence": 1.0, "scale": 0.25})
    assert {name: tensor.item() for name, tensor in merged.items()} == {
        "bn.running_mean": 1,
        "bn.weight": 0.25,
        "bn.running_var": 1,
    }


def test_a_model_without_convolutions_is_refused():
    flat = Classifier(torch.nn.Linear(3, 2))
    with pytest.raises(JobError, match="sync ema measures how convolutions change, and Linear has none"):
        SyncEMA().shared(flat)


def byol(sync, rounds=3, **objective):
    settings = {"name": "byol", "batch_size": 6, "features": 8, "hidden": 12, "momentum_encoder": "keep"}
    optimizer = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
    return {
        "stage": "pretrain",
        "rounds": rounds,
        "objective": {**settings, "optimizer": optimizer, **objective},
        "sync": sync,
        "aggregator": {"name": "fedavg"},
    }


def test_three_rounds_through_the_real_loop(run_job, make_job, make_dataset, monkeypatch):
    """What a client trained from is not to be seen; its convolutions' change is, from what it sent."""
    sent, starts, ask = {}, {}, InProcessEngine.run_round
    merge = SyncEMA.merge

    def run_round(self, broadcasts):
        answers = ask(self, broadcasts)
        for answer in answers:
            if answer.ask == "fit":
                sent[answer.client, answer.round] = {n: t.clone() for n, t in answer.tensors.items()}
        return answers

    def watched_merge(self, received, kept, notes):
        merged = merge(self, received, kept, notes)
        calls.append((dict(received), dict(kept), dict(notes), merged))
        return merged

    calls = []
    monkeypatch.setattr(InProcessEngine, "run_round", run_round)
    monkeypatch.setattr(SyncEMA, "merge", watched_merge)
    ran = run_job(make_job(stages=[byol({"name": "ema"})]), make_dataset(TWO))
    assert len(calls) == 6
    starts = {(client, 1 + place // 2): calls[place] for place, client in enumerate(["north", "south"] * 3)}
    for client in ("north", "south"):
        _, kept, notes, merged = starts[client, 1]
        assert (kept, notes) == ({}, {})
        divergences = []
        for round_ in (1, 2, 3):
            received, kept, notes, merged = starts[client, round_]
            if round_ > 1:
                scale = 0.7 / divergences[0]
                assert notes["divergence"] == pytest.approx(divergences[-1], rel=1e-6)
                assert notes["scale"] == pytest.approx(scale, rel=1e-6)
                mu = min(scale * divergences[-1], 1)
                assert set(kept) == set(received) == set(merged)
                for name, tensor in merged.items():
                    assert torch.equal(kept[name], sent[client, round_ - 1][name])
                    by_hand = mu * kept[name].double() + (1 - mu) * received[name].double()
                    assert_close_in_norm(tensor, by_hand, 1e-6, name)
            after = sent[client, round_]
            convolutions = [n for n in after if n.startswith("encoder.") and after[n].ndim == 4]
            divergences.append(
                fmean(math.sqrt(float(((after[n] - merged[n]).double() ** 2).sum())) for n in convolutions)
            )
        state = ran.store.load(client, "0-pretrain/global", 9)
        assert state.scalars["divergence"] == pytest.approx(divergences[2], rel=1e-6)
        assert state.scalars["scale"] == pytest.approx(0.7 / divergences[0], rel=1e-6)
        assert named(state.tensors, "objective/momentum/")
