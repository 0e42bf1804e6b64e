"""Every built-in job loads, says where it comes from, is documented, and runs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import training.recipes
from training.job import read_job
from training.recipes import FOLDER, read_recipes

NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
DOCUMENT = Path(training.recipes.__file__).parents[2] / "docs" / "recipes.md"
TONES = {"scale": "fitzpatrick", "groups": {"light": ["1", "2", "3"], "dark": ["4", "5", "6"]}}
TRAINING = ("pretrain", "finetune", "federate", "personalize")


def shrunk(recipe: dict[str, Any]) -> dict[str, Any]:
    """The same combination of parts on 80 drawn pictures and a very small model, for one round."""
    data = recipe["data"]
    rule = data.get("clients", {})
    by_subgroup = rule.get("by") == "subgroup"
    small = {
        "adapter": "synthetic",
        "options": {"pictures": 80, "size": 32, "seed": 1},
        "label_map": "malignancy",
        "image_size": 16,
        "subgroups": TONES if "scale" in (data.get("subgroups") or {}) else None,
        "clients": {"by": "subgroup"} if by_subgroup else {"by": "iid", "count": 3},
        "split": {"train": 0.4, "validation": 0.2, "calibration": 0.2, "test": 0.2},
    }
    model = {"name": "resnet18", "options": {"channels": [4, 8, 16, 32]}}
    if "vit" in recipe["model"]["name"]:
        options = {"img_size": 16, "patch_size": 8, "depth": 1, "embed_dim": 16, "num_heads": 2}
        model = {"name": "vit_tiny_patch16_224", "options": options}
    engine = {name: value for name, value in recipe.get("engine", {}).items() if name != "min_clients"}
    return {
        **recipe,
        "data": small,
        "model": model,
        "engine": {**engine, "workers": 1},
        "privacy": {"min_count": 1},
        "evaluation": {"replicates": 5},
        "stages": [short(stage) for stage in recipe["stages"]],
    }


def short(stage: dict[str, Any]) -> dict[str, Any]:
    """The stage with one round of one epoch."""
    changed = dict(stage)
    if "rounds" in stage:
        changed["rounds"] = 1
    for part in ("objective", "strategy"):
        if part in stage:
            changed[part] = {**stage[part], "epochs": 1}
    return changed


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_loads_and_says_what_it_is(name):
    job = read_job(FOLDER / f"{name}.yaml")
    assert job.about is not None
    assert job.about.system
    assert job.about.paper
    assert read_job(FOLDER / f"{name}.yaml").digest == job.digest


def test_recipes_have_names_of_their_own():
    assert [recipe.name for recipe in read_recipes()] == NAMES
    jobs = [recipe.job.name for recipe in read_recipes()]
    assert len(set(jobs)) == len(jobs), "two recipes would write to the same runs/<name>"


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_documented(name):
    assert f"| `{name}` |" in DOCUMENT.read_text()


def test_no_recipe_is_documented_that_is_not_there():
    rows = [
        line.split("|")[1].strip() for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")
    ]
    assert sorted(row.strip("`") for row in rows) == NAMES


@pytest.mark.usefixtures("without_report")
@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_trains_a_round(name, train_command, job_file, tmp_path):
    recipe = shrunk(yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))
    recipe["stages"] = [stage for stage in recipe["stages"] if stage["stage"] in TRAINING]
    ended = train_command(job_file(recipe), "--out", "run")
    assert ended.code == 0, ended.err
    logged = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(logged) == len(recipe["stages"]), "one round of every stage that has rounds"


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_runs_to_its_bundles(name, train_command, job_file, tmp_path):
    recipe = shrunk(yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))
    ended = train_command(job_file(recipe), "--out", "run")
    assert ended.code == 0, ended.err
    exported = any(stage["stage"] == "export" for stage in recipe["stages"])
    assert (tmp_path / "run" / "bundles" / "global" / "model.onnx").exists() == exported
