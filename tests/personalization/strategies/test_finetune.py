"""The stage `personalize` with `finetune`, against a plain loop of torch."""

from dataclasses import replace

import numpy as np
import pytest

from personalization.stages.personal_models import candidate_files
from training.errors import JobError
from training.jobs.stages.base import StageResult
from training.messages import GLOBAL
from training.rounds.server.checkpoint import Checkpoints

HOLDER = {"light": "north", "dark": "south"}
HOLDER_OF = {client: subgroup for subgroup, client in HOLDER.items()}
FREELY = {"band": 1.0, "rule": "paper"}  # a band of 1 binds nobody


@pytest.fixture
def tuned(stages, make_job):
    """`tuned(selection, **blocks)`: a job that fine-tunes every subgroup's model for three epochs."""

    def build(selection=None, epochs=3, state="reset", **blocks):
        strategy = {"name": "finetune", "epochs": epochs}
        return make_job(stages(strategy, state=state, selection=selection or {}), **blocks)

    return build


@pytest.mark.parametrize("state", ["reset", "keep"])
def test_with_one_client_per_subgroup_it_is_local_fine_tuning(
    state, tuned, stand, hospitals, local_loop, answers, assert_close, newest
):
    job = tuned(FREELY, state=state)
    stage = stand(job, hospitals)
    outcome = stage.run()
    assert Checkpoints(stage.context.folder, job.digest).newest().round == 3
    for subgroup, client in HOLDER.items():
        train, validation = hospitals.examples(client, "train"), hospitals.examples(client, "validation")
        keep = state == "keep"
        states = local_loop(job, stage.start, train, subgroup, client, epochs=3, keep=keep)
        assert_close(newest(stage, subgroup), states[-1])

        expected = {
            epoch: (answers(job, state, validation) == validation.labels).mean()
            for epoch, state in enumerate(states)
        }
        assert outcome.facts["validation_accuracies"][subgroup] == pytest.approx(expected)
        assert outcome.facts["validation_pictures"][subgroup] == len(validation)
        chosen = outcome.facts["by_subgroup"][subgroup]["epoch"]
        # Each takes its best, and of equals the first.
        assert chosen == max(expected, key=lambda epoch: (expected[epoch], -epoch))
        assert_close(outcome.models[subgroup], states[chosen])

        counts, test = outcome.test[subgroup].point, hospitals.examples(client, "test")
        right = (answers(job, outcome.models[subgroup], test) == test.labels).sum()
        assert (np.trace(counts.confusion), counts.n) == (right, len(test)), "judged by its own model"
    assert outcome.models[GLOBAL] is stage.start
    assert list(outcome.models) == [GLOBAL, "light", "dark"]


def flipped(labels: np.ndarray) -> np.ndarray:
    return (labels + 1) % 3


@pytest.mark.parametrize("split", ["test", "calibration", "validation"])
def test_the_choice_sees_validation_pictures_alone(split, tuned, stand, hospitals):
    clean = stand(tuned(), hospitals, name="clean").run()
    poisoned = stand(tuned(), hospitals.with_labels(split, flipped), name="poisoned").run()
    chosen = ("validation_accuracies", "by_subgroup", "explanation")
    same = [clean.facts[name] for name in chosen] == [poisoned.facts[name] for name in chosen]
    assert same == (split != "validation")
    if same:
        for name, weights in clean.models.items():
            assert all(value.equal(poisoned.models[name][at]) for at, value in weights.items())
    confusions = [outcome.test["light"].point.confusion.tolist() for outcome in (clean, poisoned)]
    if split == "test":
        assert confusions[0] != confusions[1], "the poison was there"


@pytest.mark.parametrize(
    ("trains", "before", "again"),
    [
        (False, {}, False),
        (True, {}, True),
        (False, {"test": {}}, True),
        (False, {"tests_local_models": True}, True),
        (False, {"own": "light"}, True),
    ],
    ids=["same", "other models", "no figures", "figures of a probe", "figures of a subgroup's own"],
)
def test_only_the_model_that_was_tested_before_is_not_tested_again(
    trains, before, again, stages, make_job, tuned, stand, hospitals
):
    none = make_job(stages({"name": "none"}))
    first = stand(none, hospitals, name="first")
    own = {before["own"]: first.start} if "own" in before else {}
    changes = {name: value for name, value in before.items() if name != "own"}
    known = replace(StageResult({GLOBAL: first.start, **own}, test=first.run().test), **changes)
    job, data = tuned(FREELY) if trains else none, hospitals.with_labels("test", flipped)
    other = stand(job, data, name="other").run(known)
    confusions = [each.test["light"].point.confusion.tolist() for each in (first.run(), other)]
    assert (confusions[0] != confusions[1]) == again


def test_tidy_removes_the_candidates_and_may_run_twice(tuned, stand, hospitals):
    stage = stand(tuned(), hospitals)
    stage.run()
    folder = stage.context.folder
    kept = {path.name for path in folder.iterdir()} - {path.name for path in candidate_files(folder)}
    assert candidate_files(folder)
    for _ in range(2):
        stage.context.job.stages[0].tidy(folder)
    assert {path.name for path in folder.iterdir()} == kept


def test_subgroups_by_another_column_are_never_routed(tuned):
    data = {"manifest": "in-memory.csv", "image_size": 16, "subgroups": {"column": "clinic"}}
    with pytest.raises(ValueError, match=r"personalize needs data\.subgroups by skin tone"):
        tuned(data=data)


@pytest.mark.parametrize(
    ("sizes", "least", "message"),
    [
        (
            {"light": (12, 6, 0, 0), "dark": (8, 0, 4, 4)},
            2,
            r"no validation pictures of subgroup dark.*data\.split\.validation",
        ),
        (
            {"light": (12, 4, 0, 0), "dark": (8, 4, 0, 0)},
            5,
            r"no hospital holds 5 labelled validation.*privacy\.min_count",
        ),
    ],
)
def test_without_validation_pictures_to_choose_by_the_run_ends(
    sizes, least, message, tuned, stand, draw_hospitals
):
    with pytest.raises(JobError, match=message):
        stand(tuned(privacy={"min_count": least}), draw_hospitals(sizes, HOLDER_OF)).run()


def test_a_subgroup_of_too_few_validation_pictures_keeps_the_global_model(tuned, stand, draw_hospitals):
    sizes = {"light": (12, 6, 0, 5), "dark": (8, 4, 0, 5)}
    stage = stand(tuned(privacy={"min_count": 5}), draw_hospitals(sizes, HOLDER_OF))
    outcome = stage.run()
    assert outcome.facts["by_subgroup"]["dark"] == {"epoch": 0}
    assert list(outcome.models) == [GLOBAL, "light", "dark"]
    assert all(value.equal(stage.start[name]) for name, value in outcome.models["dark"].items())
    assert "dark" not in outcome.facts["validation_accuracies"]
    assert "dark will keep the global model" in " ".join(stage.told.getvalue().split())


EASY = {"confidence": 0.51, "margin": 0.99}


@pytest.mark.parametrize("proof", [EASY, {}], ids=["easily shown", "as by default"])
def test_a_chosen_epoch_is_compared_with_the_global_model_on_the_same_pictures(
    proof, tuned, stand, hospitals, answers
):
    alone = stand(tuned({"proof": None}), hospitals, name="alone").run()
    job = tuned({"proof": proof})
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
            answers(job, weights, validation) == validation.labels
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


def test_with_noise_on_counts_nothing_is_compared(tuned):
    noise = {"min_count": 1, "counts": {"epsilon": 4.0, "delta": 1e-5}}
    with pytest.raises(ValueError, match=r"stage personalize counts what .* \(selection: \{proof: null\}\)"):
        tuned(privacy=noise)
    assert tuned({"proof": None}, privacy=noise)


def test_an_epoch_is_a_round_of_fedavg_among_the_clients_that_hold_the_subgroup(
    tuned, stand, two_of_light, newest, local_loop, assert_close
):
    job = tuned(epochs=1)
    stage = stand(job, two_of_light)
    stage.run()
    north, west = (
        local_loop(job, stage.start, two_of_light.examples(name, "train"), "light", name, epochs=1)[1]
        for name in ("north", "west")
    )
    expected = {name: (14 * north[name] + 7 * west[name]) / 21 for name in north}
    assert_close(newest(stage, "light"), expected)
