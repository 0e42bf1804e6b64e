"""The table of who sees what: a row for all that a job sends, and the reason where nothing is masked."""

import pytest

from training.jobs.disclosure_report import MASKED, disclosures, needs_every_hospital, over_network, why_open
from training.jobs.job import Job, read_job
from training.jobs.recipes import read_recipes
from training.jobs.stages import Federate

THREE = ("north", "south", "west")


def rows(job, hospitals=THREE):
    return {row.topic: row for row in disclosures(job, hospitals)}


@pytest.fixture
def recipes(monkeypatch):
    monkeypatch.setenv("DERMFED_DATA", "/nowhere")
    return {recipe.name: read_job(recipe.path) for recipe in read_recipes()}


def test_three_hospitals_of_a_network_are_seen_in_sums_and_two_are_not(make_job):
    job = over_network(make_job(privacy={"min_count": 7}))
    three, two = rows(job)["counts"], rows(job, THREE[:2])["counts"]
    assert three.coordinator == MASKED
    assert three.holds.startswith(
        "a sum under masks over 3 hospitals or more; a coordinator that lies opens one of 3 with the help of "
        "2 others; 7 patients or more"
    )
    assert "exact confusion matrices" in two.coordinator
    assert two.holds.startswith(f"in the clear: {why_open(job, THREE[:2])}")
    assert "2 hospitals take part (north, south)" in two.holds
    for row in (three, two):
        assert "bins of histograms of 4 patients or more" in row.holds
        assert row.others == "nothing"


@pytest.mark.parametrize(
    ("hospitals", "privacy", "needs_all"),
    [
        (THREE, {}, True),
        ((*THREE, "east"), {}, False),
        ((*THREE, "east"), {"secure_aggregation": {"fewest": 4}}, True),
        (THREE, {"counts": {"masks": False}}, False),
        (THREE[:2], {}, False),  # counts are in the clear
    ],
)
def test_masks_that_need_every_hospital_are_named_before_the_run(make_job, hospitals, privacy, needs_all):
    job = over_network(make_job(privacy={"min_count": 1, **privacy}))
    note = needs_every_hospital(job, hospitals)
    assert (note is not None) == needs_all
    if note is not None:
        assert f"{len(hospitals)} take part" in note
        assert "does not begin" in note
        assert ("privacy.counts.masks" in note) == (job.privacy.secure_aggregation is None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"privacy": {"counts": {"masks": False}}}, "the job says privacy.counts.masks: false"),
        (
            {"privacy": {"secure_aggregation": {"counts": False}}},
            "the job says privacy.secure_aggregation.counts: false",
        ),
    ],
)
def test_who_leaves_masks_out_reads_why(make_job, changes, reason):
    assert f"in the clear: {reason}" in rows(over_network(make_job(**changes)))["counts"].holds


def test_one_machine_is_told_apart_from_a_network(make_job):
    here, there = rows(make_job()), rows(over_network(make_job()))
    assert there.keys() - here.keys() == {"introduction", "canary"}
    assert "all clients are on one machine" in here["counts"].holds
    quiet = over_network(make_job(engine={"network": {"canary": False}}))
    assert "canary" not in rows(quiet)


def test_weights_are_seen_as_the_privacy_block_says(make_job):
    level = {"clip": 2.0, "noise_multiplier": 1.5, "noise": "together"}
    assert "in the clear: no privacy.secure_aggregation" in rows(make_job())["weights"].holds
    equal = {"aggregator": {"name": "fedequal"}}
    job = make_job(federate=equal, privacy={"secure_aggregation": {"fewest": 4}, "client_level": level})
    weights, scalars = rows(job)["weights"], rows(job)["scalars"]
    assert weights.coordinator == MASKED
    assert weights.holds == (
        "a sum under masks over 4 hospitals or more; clipped to 2, with noise 1.5 times that"
    )
    assert "losses" not in scalars.what + scalars.holds
    assert "the account of its noise" in scalars.what
    assert "losses of 10 patients or more" in rows(make_job(privacy={"min_count": 10}))["scalars"].holds


@pytest.mark.parametrize(
    ("masks", "seen", "holds"),
    [(True, MASKED, "3 hospitals or more"), (False, "all of them", "of 10 patients")],
)
def test_gradients_of_a_converged_head_have_a_row(make_job, masks, seen, holds):
    stage = {"stage": "federate", "fit": "converged", "trainable": {"name": "head"}}
    job = make_job(
        stages=[stage], model={"weights": "x"}, privacy={"min_count": 10, "counts": {"masks": masks}}
    )
    row = rows(job)["gradients"]
    assert (row.coordinator, holds in row.holds) == (seen, True)
    assert "gradients" not in rows(make_job())
    own = {"stage": "personalize", "strategy": {"name": "shrink"}}
    folded = make_job(stages=[stage, own], model={"weights": "x"}, data={"crossfit": 5})
    assert "6 heads'" in rows(folded)["gradients"].what
    assert "each subgroup" in rows(folded)["gradients"].what
    assert "each subgroup" not in row.what


@pytest.mark.parametrize(("masks", "seen"), [(True, MASKED), (False, "all of them")])
def test_sums_for_a_projection_have_a_row(make_job, masks, seen):
    stage = {"stage": "federate", "fit": "converged", "trainable": {"name": "head"}}
    one = make_job(stages=[stage], model={"weights": "x"}, privacy={"counts": {"masks": masks}})
    several = {"encoders": [{"name": "resnet18", "weights": "x"}]}
    job = type(one).model_validate({**one.resolved(), "model": several})
    assert rows(job)["moments"].coordinator == seen
    assert "moments" not in rows(one)


def test_how_many_helpers_a_coordinator_that_lies_needs_is_told(make_job):
    ten = [f"clinic-{number}" for number in range(10)]

    def holds(hospitals, **changes):
        return rows(over_network(make_job(**changes)), hospitals)["weights"].holds

    masks = {"secure_aggregation": {}}
    assert "opens one of 10 with the help of 4 others" in holds(ten, privacy=masks)
    half = {"secure_aggregation": {"survivors": 0.5}}
    assert "opens one of 10 with the help of 2 others" in holds(ten, privacy=half)
    few = {"participation": 0.5}
    assert "opens one of 5 with the help of 3 others" in holds(ten, privacy=masks, federate=few)
    # With fewer than a sum needs there is none, and nothing to open.
    assert holds(ten[:2], privacy=masks) == "a sum under masks over 3 hospitals or more"


def test_what_an_aggregator_asks_for_is_told(make_job):
    told = rows(make_job(federate={"aggregator": {"name": "q-ffl"}}))["scalars"].what
    assert "losses of the model that came, by subgroup; how far the model moved" in told
    assert "moved" not in rows(make_job())["scalars"].what
    told = rows(make_job(federate={"aggregator": {"name": "group-dro"}}))["scalars"].what
    assert told.endswith("losses of the model that came, by class and subgroup")


@pytest.mark.parametrize(
    ("recipe", "topic", "others"),
    [
        ("fedclf", "features", "those of all others, mixed and without names"),
        ("fedirm", "relations", "the mean over hospitals"),
        ("fedperl", "peers", "the average of the models of up to 2 others"),
        ("fedbeit", "codebook", "the codebook made of all of them"),
    ],
)
def test_what_goes_beside_weights_has_a_row(recipes, recipe, topic, others):
    job = next(job for name, job in recipes.items() if name.replace("-", "") == recipe)
    assert rows(job)[topic].others == others


def test_every_built_in_job_has_a_table_without_gaps(recipes):
    for name, job in recipes.items():
        for each in (job, over_network(job)):
            table = disclosures(each, THREE)
            assert all(cell and cell[-1] not in ".;" for row in table for cell in row.cells), name
            topics = [row.topic for row in table]
            assert "census" in topics
            assert "others' parts" not in topics
            stages = {stage.stage for stage in job.stages}
            assert ("calibration" in topics) == ("calibrate" in stages), name
            assert ("parity" in topics) == ("export" in stages), name
            assert ("counts" in topics) == bool(stages - {"pretrain", "register"}), name


def test_of_a_part_from_elsewhere_nothing_is_claimed(make_job):
    class Elsewhere(Federate):
        """A stage of somebody else's."""

    job = make_job()
    strange = Elsewhere.model_construct(
        **{name: getattr(job.stages[0], name) for name in Federate.model_fields}
    )
    table = rows(Job.model_construct(**{**dict(job), "stages": (strange,)}))
    assert "whatever the stage federate sends" in table["others' parts"].what
    assert table["others' parts"].coordinator == "not known here"


def test_noise_on_counts_is_told_of(make_job):
    row = rows(make_job(privacy={"counts": {"epsilon": 4}}))["counts"]
    assert row.coordinator == "confusion matrices with noise, and histograms of scores"
    assert "noise over all rounds: (4, 1e-05)-differential privacy of a patient" in row.holds
    assert "patients or more" not in row.holds


def test_of_a_probe_counts_are_told_and_no_feature(make_job):
    probe = {"stage": "probe", "rounds": 2}
    job = make_job(stages=[probe], privacy={"min_count": 7})
    told = rows(job)
    assert told.keys() == {"census", "weights", "scalars", "counts", "neighbours"}
    assert told["counts"].what == "counts of answers on test pictures, by subgroup"
    near = told["neighbours"]
    assert near.what.startswith("counts of what a hospital's own training pictures answer")
    assert "7 patients or more, also as the difference of two answers" in near.holds
    assert near.holds.endswith("by training pictures of 7 patients or more, whose features stay")
    assert rows(over_network(job))["neighbours"].coordinator == MASKED
    assert "neighbours" not in rows(make_job(stages=[{**probe, "neighbours": None}]))
