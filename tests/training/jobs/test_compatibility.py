"""What needs single clients is refused when the job is read, with the way out."""

import pytest

from training.jobs.job import Job, read_job
from training.jobs.recipes import recipe_path
from training.updates.settings import CountsConfig

MASKS = {"secure_aggregation": {}}


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ("fedperl", "the exchange peers needs those of single clients; use the exchange none"),
        ("fedclf", "the exchange features needs those of single clients"),
        ("fedirm", "the exchange relations needs those of single clients"),
        ("local-cl", "stage finetune judges the models of single clients"),
    ],
)
def test_recipes_that_need_single_clients(recipe, reason, monkeypatch):
    monkeypatch.setenv("DERMFED_DATA", "/nowhere")
    with pytest.raises(Exception, match=reason):
        read_job(recipe_path(recipe), ["privacy.secure_aggregation={}"])


def test_recipes_of_losses_and_means_are_read(monkeypatch):
    monkeypatch.setenv("DERMFED_DATA", "/nowhere")
    for recipe in ("demo", "fedauto@milk10k", "fedprox"):
        read_job(recipe_path(recipe), ["privacy.secure_aggregation={}"])


def test_models_of_clients(make_job, federate_block):
    personal = {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "per": "client"}
    with pytest.raises(ValueError, match="stage personalize judges the models of single clients"):
        make_job(stages=[federate_block(), personal], privacy=MASKS)
    open_counts = {"secure_aggregation": {"counts": False}}
    make_job(stages=[federate_block(), personal], privacy=open_counts)


def test_an_account_without_an_accountant(make_job, monkeypatch):
    monkeypatch.setattr("training.jobs.job.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"not installed here.*dermfed\[privacy\]"):
        make_job(privacy={"client_level": {"clip": 1.0, "noise_multiplier": 1.0}})
    make_job(privacy=MASKS)


NOISE = {"counts": {"epsilon": 1.0}}
CALIBRATED = [{"stage": "export"}, {"stage": "calibrate"}]


def test_what_noise_on_counts_cannot_cover(make_job, federate_block):
    for stages, reason in (
        ([federate_block(), *CALIBRATED], "stage calibrate asks for sums and histograms of calibration and"),
        (
            [
                federate_block(),
                {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "per": "client"},
            ],
            "stage personalize judges the models of single clients, each on its own few",
        ),
        ([federate_block(evaluate_on="train")], "evaluate_on: train counts training pictures"),
    ):
        make_job(stages=stages)
        with pytest.raises(ValueError, match=f"{reason}.*noise"):
            make_job(stages=stages, privacy=NOISE)
    with pytest.raises(ValueError, match=r"evaluation.intersections names .*leave them out, or the noise"):
        make_job(privacy=NOISE, evaluation={"intersections": [{"column": "site"}]})


@pytest.mark.parametrize(
    ("rounds", "evaluations", "evaluated"),
    [(10, 2, {5, 10}), (10, 3, {4, 7, 10}), (3, 4, {1, 2, 3}), (7, 1, {7}), (1, 1, {1})],
)
def test_evaluated_rounds_are_evenly_spaced_and_end_with_the_last(rounds, evaluations, evaluated):
    assert CountsConfig(epsilon=1, evaluations=evaluations).evaluated(rounds) == evaluated
    assert CountsConfig(evaluations=evaluations).evaluated(rounds) == set(range(1, rounds + 1))


def test_a_job_learns_one_codebook(make_job):
    pretrain = {
        "stage": "pretrain",
        "rounds": 1,
        "objective": {"name": "beit"},
        "aggregator": {"name": "fedavg"},
    }
    make_job(stages=[pretrain])
    with pytest.raises(ValueError, match="two stages learn a codebook of the same pictures"):
        make_job(stages=[pretrain, pretrain])


CONVERGED = {"stage": "federate", "fit": "converged", "trains": {"name": "head"}}
FINETUNE = {"name": "finetune", "epochs": 1, "objective": {"name": "supervised"}}


@pytest.mark.parametrize(
    ("stages", "split", "said"),
    [
        ([{"stage": "federate"}], {}, "stage federate trains one model in rounds"),
        ([CONVERGED, {"stage": "personalize", "strategy": FINETUNE}], {}, "stage personalize trains one"),
        ([CONVERGED], {"train": 0.7, "validation": 0, "calibration": 0.1, "test": 0.2}, "calibration is 0.1"),
        ([{"stage": "probe", "rounds": 2}], {}, "needs one stage federate"),
    ],
)
def test_what_is_not_cross_fitted(make_job, federate_block, stages, split, said):
    filled = [federate_block() if each == {"stage": "federate"} else each for each in stages]
    job = {"stages": filled, "model": {"weights": "encoder.safetensors"}}
    with pytest.raises(ValueError, match=said):
        make_job(**job, data={"crossfit": 5, **({"split": split} if split else {})})


def test_with_folds_nothing_is_kept_for_calibration_alone(make_job):
    job = {"stages": [CONVERGED], "model": {"weights": "encoder.safetensors"}}
    shares = make_job(**job, data={"crossfit": 5}).data.split
    assert (shares.train, shares.validation, shares.calibration, shares.test) == (0.8, 0, 0, 0.2)
    assert make_job(**job).data.split.calibration == 0.1


HEAD = {"stage": "federate", "fit": "converged", "trains": {"name": "head"}}
SEVERAL = {"encoders": [{"name": "resnet18", "weights": "x"}, {"name": "resnet34", "weights": "y"}]}


@pytest.mark.parametrize(
    ("stages", "privacy", "reason"),
    [
        ([HEAD, {"stage": "export"}], {}, None),
        ([HEAD, {"stage": "personalize", "strategy": {"name": "none"}}], {}, None),
        (["rounds"], {}, "stage federate works on one encoder"),
        (["last"], {}, "stage federate works on one encoder"),
        (["rounds on features"], {}, None),
        ([{"stage": "probe", "rounds": 1}, HEAD], {}, "stage probe works on one encoder"),
        (
            [HEAD, {"stage": "personalize", "strategy": {"name": "head", "epochs": 1}}],
            {},
            "stage personalize",
        ),
        (
            [{"stage": "finetune", "epochs": 1, "objective": {"name": "supervised"}}, HEAD],
            {},
            "stage finetune",
        ),
        (["rounds on features"], {"counts": {"epsilon": 1.0}}, "projected by exact sums of features"),
        (
            ["rounds on features"],
            {"client_level": {"clip": 1.0, "noise_multiplier": 1.0}},
            "projected by exact sums of features",
        ),
    ],
)
def test_several_encoders_stay_as_they_are_and_are_projected_exactly(
    make_job, federate_block, monkeypatch, stages, privacy, reason
):
    monkeypatch.setattr("training.jobs.job.find_spec", lambda name: name)
    in_rounds = {
        "rounds": federate_block(),
        "last": federate_block(trains={"name": "last", "blocks": 1}),
        "rounds on features": federate_block(trains={"name": "head"}),
    }
    stages = [in_rounds.get(each, each) if isinstance(each, str) else each for each in stages]
    one = make_job(stages=stages, model={"weights": "x"}, privacy=privacy)
    plain = {**one.resolved(), "model": SEVERAL}
    if reason is None:
        assert Job.model_validate(plain).model.named == "resnet18 + resnet34"
        return
    with pytest.raises(ValueError, match=reason):
        Job.model_validate(plain)


SHRINK = {"stage": "personalize", "strategy": {"name": "shrink"}}


@pytest.mark.parametrize(
    ("stage", "data", "said"),
    [
        ({**SHRINK, "per": "client"}, {"crossfit": 5}, "fits heads of subgroups, and per is client"),
        (SHRINK, {}, "the job has no folds"),
    ],
)
def test_heads_of_their_own_are_of_subgroups_and_need_folds(make_job, stage, data, said):
    job = {"model": {"weights": "encoder.safetensors"}, "data": data}
    with pytest.raises(ValueError, match=said):
        make_job(stages=[CONVERGED, stage], **job)
    assert make_job(stages=[CONVERGED, SHRINK], **{**job, "data": {"crossfit": 5}})
