"""What needs single clients is refused when the job is read, with the way out."""

from pathlib import Path

import pytest

from training.jobs.job import read_job

MASKS = {"secure_aggregation": {}}
RECIPES = Path("training/recipes")


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
    (path,) = RECIPES.rglob(f"{recipe}.yaml")
    with pytest.raises(Exception, match=reason):
        read_job(path, ["privacy.secure_aggregation={}"])


def test_recipes_of_losses_and_means_are_read(monkeypatch):
    monkeypatch.setenv("DERMFED_DATA", "/nowhere")
    for recipe in ("demo", "milk10k-fedauto", "fedprox"):
        read_job(RECIPES / f"{recipe}.yaml", ["privacy.secure_aggregation={}"])


def test_models_of_clients(make_job, federate_block):
    personal = {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "per": "client"}
    with pytest.raises(ValueError, match="stage personalize judges the models of single clients"):
        make_job(stages=[federate_block(), personal], privacy=MASKS)
    open_counts = {"secure_aggregation": {"counts": False}}
    make_job(stages=[federate_block(), personal], privacy=open_counts)


def test_a_job_without_these_settings_keeps_its_digest(make_job):
    assert make_job().digest == make_job(privacy={"secure_aggregation": None, "client_level": None}).digest
    assert make_job().digest != make_job(privacy=MASKS).digest


def test_an_account_without_an_accountant(make_job, monkeypatch):
    monkeypatch.setattr("training.jobs.compatibility.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"not installed here.*dermfed\[privacy\]"):
        make_job(privacy={"client_level": {"clip": 1.0, "noise_multiplier": 1.0}})
    make_job(privacy=MASKS)


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
