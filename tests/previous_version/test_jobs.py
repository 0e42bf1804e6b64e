"""Every built-in job of the previous version is the same job now: its digest, and each of its settings."""

import gzip
import json
from typing import Any

import pytest

from tests.fixtures import PREVIOUS
from training.jobs.recipes import read_recipes

FOLDER = PREVIOUS / "recipes"
DIGESTS: dict[str, str] = json.loads((FOLDER / "digests.json").read_text())
# Paths of settings that came since, `stages.*` for those of any stage: they are in no file of that version.
ADDED = frozenset(
    (
        *(f"privacy.counts.{name}" for name in ("masks", "epsilon", "delta", "evaluations")),
        *(f"data.{name}" for name in ("unit", "cases")),
        "data.interpolation",
        "model.flips",
        "model.fusion",
        "model.normalisation",
        *(f"stages.*.{of}optimizer.encoder_rate" for of in ("", "objective.", "strategy.objective.")),
        *(f"stages.*.objective.{name}" for name in ("label_smoothing", "mixup")),
        *(f"stages.*.strategy.objective.{name}" for name in ("label_smoothing", "mixup")),
        "stages.*.progressive_resizing",
        "stages.*.trains.name",
        "stages.*.patterns",
        *(f"stages.*.selection.proof.{name}" for name in ("confidence", "margin")),
        "stages.*.sensitivity",
        "evaluation.quorum",
        "engine.network.quorum",
        "stages.*.evaluation_participation",
        "engine.processes_per_client",
    )
)
ABSENT = object()
# Built-in jobs that ask for more since, with what: without it they are what they were.
ASKS = {"demo": {"sensitivity": None}}

# Built-in jobs that were not what their papers or their baselines are, and what of them was put right. A run
# of before goes on with the job that it keeps, `job.resolved.yaml`.
DECAY = "stages.*.objective.optimizer.decay_norms"
CLASS_POSITION = "model.options.no_embed_class"
FEDMAE = ("", "-all", "-no-decoder", "-no-decoder-projection", "-no-patch-projection")
REPAIRED: dict[str, frozenset[str]] = {
    **{
        f"{of}fedmae{which}": frozenset({DECAY, CLASS_POSITION})
        for of in ("", "ham10000-")
        for which in FEDMAE
    },
    **{
        name: frozenset({DECAY})
        for name in ("fed-mae", "fed-mae-skin-fl", "fed-beit", "ham10000-fed-mae", "ham10000-fed-beit")
    },
    **dict.fromkeys(("fedmocov3", "ham10000-fedmocov3"), frozenset({"model.options.global_pool"})),
}
REPLACED = {"fedprox"}  # it was of another split, optimizer and augmentation than its baseline


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested settings by dotted path, in their order."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    leaves = {key: leaf for step, each in inner for key, leaf in flat(each, f"{path}.{step}").items()}
    return leaves or {path.removeprefix("."): value}


def unnumbered(path: str) -> str:
    """A setting's path, of whichever element of a list."""
    return ".".join("*" if step.isdigit() else step for step in path.split("."))


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    return {recipe.name: as_before(recipe.job) for recipe in read_recipes()}


def as_before(job: Any) -> Any:
    """The job without what it asks for since."""
    if job.name not in ASKS:
        return job
    stages = [
        {**stage, **ASKS[job.name]} if stage["stage"] == "calibrate" else stage
        for stage in job.model_dump(mode="json")["stages"]
    ]
    return type(job).model_validate({**job.model_dump(mode="json"), "stages": stages})


def test_no_built_in_job_is_gone(jobs):
    assert len(DIGESTS) > 100
    assert DIGESTS.keys() <= jobs.keys()


def test_digests_are_the_same(jobs):
    changed = {name for name, digest in DIGESTS.items() if jobs[name].digest != digest}
    assert changed == REPAIRED.keys() | REPLACED, "runs of others would not be resumed"


def test_settings_are_the_same_and_in_the_same_order(jobs):
    stored = json.loads(gzip.decompress((FOLDER / "resolved.json.gz").read_bytes()))
    assert stored.keys() == DIGESTS.keys()
    for name, settings in stored.items():
        if name in REPLACED:
            continue
        before, now = flat(settings), flat(jobs[name].resolved())
        now = {path: value for path, value in now.items() if unnumbered(path) not in ADDED}
        changed = {
            path: (before.get(path, ABSENT), now.get(path, ABSENT))
            for path in before.keys() | now.keys()
            if before.get(path, ABSENT) != now.get(path, ABSENT)
        }
        changed.pop("model.options", None)  # none at all, before there were any
        changed.pop("about.note", None)  # words for whoever reads the list of recipes
        assert {unnumbered(path) for path in changed} == REPAIRED.get(name, frozenset()), name
        if name not in REPAIRED:
            assert list(before) == list(now), f"{name}: job.resolved.yaml has another order"
