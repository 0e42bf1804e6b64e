"""The stage `personalize`, against a plain loop of torch written out here."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from personalization.stages.personal_models import candidate_files
from tests.closeness import assert_close_in_norm
from training.errors import JobError
from training.jobs.stages.base import StageResult
from training.messages.message import GLOBAL, named
from training.models import build_model
from training.models.classifier import float_state
from training.randomness import generator
from training.rounds.server.checkpoint import Checkpoints

KEY = "0-personalize"
EPOCHS, BATCH, RATE, MOMENTUM = 3, 6, 0.02, 0.9
HOLDER = {"light": "north", "dark": "south"}


def stages(state: str = "reset", epochs: int = EPOCHS, **selection) -> list[dict]:
    objective = {
        "name": "supervised",
        "batch_size": BATCH,
        "sampling": "uniform",
        "augment": {"flip": False},
        "optimizer": {"name": "sgd", "lr": RATE, "momentum": MOMENTUM, "state": state},
    }
    strategy = {"name": "finetune", "epochs": epochs, "objective": objective}
    return [{"stage": "personalize", "strategy": strategy, "selection": selection}]


def scaled(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images.astype(np.float32) / 255).permute(0, 3, 1, 2)


def local_fine_tuning(job, start, examples, subgroup: str, client: str) -> list[dict[str, torch.Tensor]]:
    """The model's state after each epoch of SGD on one subgroup's pictures, from epoch 0."""
    model = build_model(job.model, 3, seed=1)
    model.load_state_dict(start, strict=False)
    model.train().to(memory_format=torch.channels_last)
    images, labels = scaled(examples.images), torch.from_numpy(examples.labels)
    states = [{name: value.clone() for name, value in float_state(model).items()}]
    keep = job.stages[0].strategy.objective.optimizer.state == "keep"
    optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM, fused=True)
    for epoch in range(1, EPOCHS + 1):
        if not keep:
            optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM, fused=True)
        order = generator(job.seed, KEY, subgroup, epoch, client, "order 0").permutation(len(labels))
        cuts = [cut for cut in range(BATCH, len(order), BATCH) if len(order) - cut > 1]
        for batch in np.split(order, cuts):
            optimizer.zero_grad()
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
        states.append({name: value.clone() for name, value in float_state(model).items()})
    return states


def accuracy(job, state, examples) -> float:
    model = build_model(job.model, 3, seed=1).eval()
    model.load_state_dict(state, strict=False)
    with torch.inference_mode():
        answers = model(scaled(examples.images)).argmax(dim=1).numpy()
    return float((answers == examples.labels).mean())


def assert_close(found, expected) -> None:
    assert_close_in_norm(found, expected)


@pytest.mark.parametrize("state", ["reset", "keep"])
def test_with_one_client_per_subgroup_it_is_local_fine_tuning(state, make_job, stand, hospitals):
    job = make_job(stages(state, band=1.0, rule="paper"))
    stage = stand(job, hospitals)
    outcome = stage.run()
    newest = Checkpoints(stage.context.folder, job.digest).newest()
    assert newest.round == EPOCHS
    for subgroup, client in HOLDER.items():
        train, validation = hospitals.examples(client, "train"), hospitals.examples(client, "validation")
        states = local_fine_tuning(job, stage.start, train, subgroup, client)
        assert_close(named(newest.tensors, f"{subgroup}/weights/"), states[-1])

        expected = {epoch: accuracy(job, state, validation) for epoch, state in enumerate(states)}
        assert outcome.facts["validation_accuracies"][subgroup] == pytest.approx(expected)
        assert outcome.facts["validation_pictures"][subgroup] == len(validation)
        chosen = outcome.facts["by_subgroup"][subgroup]["epoch"]
        # A band of 1 binds nobody: each takes its best, and of equals the first.
        assert chosen == max(expected, key=lambda epoch: (expected[epoch], -epoch))
        assert_close(outcome.models[subgroup], states[chosen])
    assert outcome.models[GLOBAL] is stage.start
    assert list(outcome.models) == [GLOBAL, "light", "dark"]


def flipped(labels: np.ndarray) -> np.ndarray:
    return (labels + 1) % 3


@pytest.mark.parametrize("split", ["test", "calibration", "validation"])
def test_the_choice_sees_validation_pictures_alone(split, make_job, stand, hospitals):
    job = make_job(stages())
    clean = stand(job, hospitals, name="clean").run()
    poisoned = stand(job, hospitals.with_labels(split, flipped), name="poisoned").run()
    chosen = ("validation_accuracies", "by_subgroup", "explanation")
    same = [clean.facts[name] for name in chosen] == [poisoned.facts[name] for name in chosen]
    assert same == (split != "validation")
    if same:
        for name, weights in clean.models.items():
            assert all(value.equal(poisoned.models[name][at]) for at, value in weights.items())
    confusions = [outcome.test["light"].point.confusion.tolist() for outcome in (clean, poisoned)]
    if split == "test":
        assert confusions[0] != confusions[1], "the poison was there"


def test_each_subgroup_is_judged_by_its_own_model(make_job, stand, hospitals):
    job = make_job(stages(band=1.0, rule="paper"))
    outcome = stand(job, hospitals).run()
    for subgroup, client in HOLDER.items():
        counts, test = outcome.test[subgroup].point, hospitals.examples(client, "test")
        expected = accuracy(job, outcome.models[subgroup], test)
        assert np.trace(counts.confusion) / counts.n == pytest.approx(expected)
        assert counts.n == len(test)


NONE = [{"stage": "personalize", "strategy": {"name": "none"}}]


@pytest.mark.parametrize(
    ("strategy", "before", "again"),
    [
        (NONE, {}, False),
        (stages(band=1.0, rule="paper"), {}, True),
        (NONE, {"test": {}}, True),
        (NONE, {"tests_local_models": True}, True),
        (NONE, {"own": "light"}, True),
    ],
    ids=["same", "other models", "no figures", "figures of a probe", "figures of a subgroup's own"],
)
def test_only_the_model_that_was_tested_before_is_not_tested_again(
    strategy, before, again, make_job, stand, hospitals
):
    first = stand(make_job(NONE), hospitals, name="first")
    own = {before["own"]: first.start} if "own" in before else {}
    changes = {name: value for name, value in before.items() if name != "own"}
    known = replace(StageResult({GLOBAL: first.start, **own}, test=first.run().test), **changes)
    other = stand(make_job(strategy), hospitals.with_labels("test", flipped), name="other").run(known)
    confusions = [each.test["light"].point.confusion.tolist() for each in (first.run(), other)]
    assert (confusions[0] != confusions[1]) == again


def test_tidy_removes_the_candidates_and_may_run_twice(make_job, stand, hospitals):
    stage = stand(make_job(stages()), hospitals)
    stage.run()
    folder = stage.context.folder
    kept = {path.name for path in folder.iterdir()} - {path.name for path in candidate_files(folder)}
    assert candidate_files(folder)
    stage.context.job.stages[0].tidy(folder)
    stage.context.job.stages[0].tidy(folder)
    assert {path.name for path in folder.iterdir()} == kept


def test_subgroups_by_another_column_are_never_routed(make_job):
    data = {"manifest": "in-memory.csv", "image_size": 16, "subgroups": {"column": "clinic"}}
    with pytest.raises(ValueError, match=r"personalize needs data\.subgroups by skin tone"):
        make_job(stages(), data=data)


def test_a_subgroup_without_validation_pictures_is_named(make_job, stand, draw_hospitals):
    sizes = {"light": (12, 6, 0, 0), "dark": (8, 0, 4, 4)}
    data = draw_hospitals(sizes, HOLDER_OF)
    with pytest.raises(JobError, match=r"no validation pictures of subgroup dark.*data\.split\.validation"):
        stand(make_job(stages()), data).run()


def log_of(stage) -> str:
    """What the stage logged, on one line."""
    return " ".join(stage.told.getvalue().split())


def test_a_subgroup_of_too_few_validation_pictures_keeps_the_global_model(make_job, stand, draw_hospitals):
    sizes = {"light": (12, 6, 0, 5), "dark": (8, 4, 0, 5)}
    stage = stand(make_job(stages(), privacy={"min_count": 5}), draw_hospitals(sizes, HOLDER_OF))
    outcome = stage.run()
    assert outcome.facts["by_subgroup"]["dark"] == {"epoch": 0}
    assert list(outcome.models) == [GLOBAL, "light", "dark"]
    assert all(value.equal(stage.start[name]) for name, value in outcome.models["dark"].items())
    assert "dark" not in outcome.facts["validation_accuracies"]
    assert "dark will keep the global model" in log_of(stage)


def test_where_no_subgroup_has_enough_validation_pictures_the_run_ends(make_job, stand, draw_hospitals):
    sizes = {"light": (12, 4, 0, 0), "dark": (8, 4, 0, 0)}
    job = make_job(stages(), privacy={"min_count": 5})
    with pytest.raises(JobError, match=r"no hospital holds 5 labelled validation.*privacy\.min_count"):
        stand(job, draw_hospitals(sizes, HOLDER_OF)).run()


def answers_of(job, state, examples) -> np.ndarray:
    model = build_model(job.model, 3, seed=1).eval()
    model.load_state_dict(state, strict=False)
    with torch.inference_mode():
        return model(scaled(examples.images)).argmax(dim=1).numpy()


EASY = {"confidence": 0.51, "margin": 0.99}


@pytest.mark.parametrize("proof", [EASY, {}], ids=["easily shown", "as by default"])
def test_a_chosen_epoch_is_compared_with_the_global_model_on_the_same_pictures(
    proof, make_job, stand, hospitals
):
    alone = stand(make_job(stages(proof=None)), hospitals, name="alone").run()
    job = make_job(stages(proof=proof))
    stage = stand(job, hospitals, name="proven")
    outcome = stage.run()
    picked = {name: of["epoch"] for name, of in alone.facts["by_subgroup"].items() if of["epoch"]}
    proofs = outcome.facts["proofs"]
    assert picked, "the floor's rule takes some epoch, so that there is something to prove"
    assert proofs.keys() == picked.keys()
    assert "proofs" not in alone.facts or not alone.facts["proofs"]
    for name, epoch in picked.items():
        validation = hospitals.examples(HOLDER[name], "validation")
        before, after = (
            answers_of(job, weights, validation) == validation.labels
            for weights in (stage.start, alone.models[name])
        )
        told = proofs[name]["gains"]["balanced_accuracy"]
        assert proofs[name]["epoch"] == epoch
        assert (told["gained"], told["lost"]) == ((after & ~before).sum(), (before & ~after).sum())
        assert told["n"] == len(validation)
        taken = outcome.facts["by_subgroup"][name]["epoch"]
        assert taken == (epoch if proofs[name]["holds"] else 0)
        weights = alone.models[name] if proofs[name]["holds"] else stage.start
        assert all(value.equal(weights[at]) for at, value in outcome.models[name].items())
        assert (f"Of {name}, epoch {epoch} is not taken" in outcome.facts["explanation"]) == (taken == 0)
    if not proof:
        assert not any(each["holds"] for each in proofs.values()), "six pictures show nothing"


def test_with_noise_on_counts_nothing_is_compared(make_job):
    noise = {"min_count": 1, "counts": {"epsilon": 4.0, "delta": 1e-5}}
    with pytest.raises(ValueError, match=r"stage personalize counts what .* \(selection: \{proof: null\}\)"):
        make_job(stages(), privacy=noise)
    assert make_job(stages(proof=None), privacy=noise)


HOLDER_OF = {client: subgroup for subgroup, client in HOLDER.items()}


def test_an_epoch_is_a_round_of_fedavg_among_the_clients_that_hold_the_subgroup(
    make_job, stand, draw_hospitals
):
    sizes = {"light": (14, 5, 0, 0), "dark": (9, 4, 0, 0)}
    data = draw_hospitals(sizes, {"north": "light", "south": "dark", "west": "light"})
    # West is half as large as north: its first seven training pictures.
    held = dict(data.held)
    held["west", "train"] = held["west", "train"].where(np.arange(14) < 7)
    data = type(data)(held, data.clients)
    job = make_job(stages(epochs=1))
    stage = stand(job, data)
    stage.run()
    newest = Checkpoints(stage.context.folder, job.digest).newest()
    first = [
        local_fine_tuning(job, stage.start, data_of, "light", client)[1]
        for client, data_of in (
            ("north", held["north", "train"]),
            ("west", whole(held["west", "train"])),
        )
    ]
    expected = {name: (14 * first[0][name] + 7 * first[1][name]) / 21 for name in first[0]}
    assert_close(named(newest.tensors, "light/weights/"), expected)


def whole(part):
    """The examples with pictures of their own, so that rows count from 0."""
    return type(part)(part.images[part.rows], np.arange(len(part)), part.labels, part.subgroups, part.lesions)
