"""Verdicts of the gates on releases of two runs.

Limits are put just inside and just outside what `summary.json` says of a release, so that a verdict goes by
the figures of the run and not by those of one kind of processor.
"""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

EDGE = 1e-4
ALIASES = iter(f"alias-{number}" for number in range(1_000))
RELEASES = {"personalized": (1, 2, 3), "other run": (4,), "mixed": (4, 2)}
"""Versions 1 (global), 2 (light) and 3 (dark) are of the first run, 4 (global) is of the second."""

Gates = Mapping[str, Mapping[str, Any]]
Figures = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Registry:
    """A registry with the versions of both runs.

    Attributes:
        ask: calls `dermfed-registry` with these arguments.
        folder: the folder that it is called in.
        figures: of each release what the runs' summaries say of each subgroup, by the version that answers.
    """

    ask: Callable[..., Any]
    folder: Path
    figures: Mapping[str, Figures]

    def set_gates(self, gates: Gates, alias: str, must_apply: tuple[str, ...] = ()) -> None:
        """Ask for these gates under an alias."""
        content: dict[str, Any] = {"gates": [{"name": name, **given} for name, given in gates.items()]}
        if must_apply:
            content["must_apply"] = list(must_apply)
        (self.folder / "gates.yaml").write_text(yaml.safe_dump(content))
        ended = self.ask("gates", "set", "gates.yaml", "--alias", alias, "--reason", "contract")
        assert ended.code == 0, ended.err

    def refused_by(self, release: str, alias: str, *options: object) -> set[str]:
        """Which gates refuse a release; its exit code says the same."""
        versions = RELEASES[release] if release else ()
        ended = self.ask("gates", "check", "contract", *versions, "--to", alias, *options, "--json")
        answer = json.loads(ended.out)
        refused = {each["gate"] for each in answer["reasons"]}
        assert (ended.code, answer["refused"]) == (int(bool(refused)), bool(refused))
        return refused

    def promote(self, release: str, alias: str) -> None:
        """Have a release run under an alias, whatever gates say."""
        override = ("--override-gates", "--reason", "to compare with")
        ended = self.ask("promote", "contract", *RELEASES[release], "--to", alias, *override)
        assert ended.code == 0, ended.err


@pytest.fixture(scope="module")
def registry(command, trained, tmp_path_factory):
    """A registry of its own with two runs: that of `trained`, and one on other pictures with another seed."""
    folder = tmp_path_factory.mktemp("verdicts")
    environment = {
        "DERMFED_REGISTRY_URL": f"sqlite:///{folder / 'registry.db'}",
        "DERMFED_STORE": str(folder / "store"),
    }
    job = yaml.safe_load((trained.run.parent / "job.yaml").read_text())
    (folder / "job.yaml").write_text(yaml.safe_dump(_other(job)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("training.wiring.render_report", lambda data: "")
        ended = command("train", "job.yaml", "--out", "other", folder=folder)
    assert ended.code == 0, ended.out + ended.err

    def ask(*arguments: object) -> Any:
        return command("registry", *arguments, environment=environment, folder=folder)

    own = [trained.run / "bundles" / name for name in ("global", "light", "dark")]
    added = ask("add", *own, folder / "other" / "bundles" / "global")
    assert added.code == 0, added.err
    first, other = (
        json.loads((run / "summary.json").read_text())["test"]["by_subgroup"]
        for run in (trained.run, folder / "other")
    )
    figures = {
        "personalized": first,
        "other run": other,
        "mixed": {"light": first["light"], "dark": other["dark"]},
    }
    return Registry(ask, folder, figures)


def _other(job: dict[str, Any]) -> dict[str, Any]:
    """A second job: more pictures and rounds, one model for all subgroups."""
    made = deepcopy(job)
    made["seed"] = 5
    made["data"]["options"] |= {"pictures": 400, "seed": 2}
    made["data"]["split"] = {"train": 0.4, "validation": 0.1, "calibration": 0.2, "test": 0.3}
    made["stages"] = [each for each in made["stages"] if each["stage"] in {"federate", "export", "calibrate"}]
    made["stages"][0]["rounds"] = 3
    made["stages"][0]["objective"]["optimizer"]["lr"] = 3e-3
    return made


def _least(name: str) -> Callable[[Figures], float]:
    return lambda figures: min(each[name] for each in figures.values())


def _most(name: str) -> Callable[[Figures], float]:
    return lambda figures: max(each[name] for each in figures.values())


def _spread(figures: Figures) -> float:
    return _most("accuracy")(figures) - _least("accuracy")(figures)


def _uncovered(figures: Figures) -> float:
    return 0.9 - _least("coverage")(figures)


@dataclass(frozen=True)
class Threshold:
    """A gate that goes by one figure: `setting` is the least or the most that `value` may be."""

    gate: str
    setting: str
    value: Callable[[Figures], float]
    bound: str
    whole: bool = False


THRESHOLDS = [
    Threshold("spread", "limit", _spread, "at most"),
    Threshold("worst_balanced_accuracy", "limit", _least("balanced_accuracy"), "at least"),
    Threshold("worst_malignant_sensitivity", "limit", _least("malignant_sensitivity"), "at least"),
    Threshold("calibration", "limit", _most("ece"), "at most"),
    Threshold("coverage", "slack", _uncovered, "at most"),
    Threshold("min_answer_rate", "limit", _least("answered"), "at least"),
    Threshold("count", "minimum", _least("n"), "at least", whole=True),
    Threshold("required_subgroups", "malignant", _least("n_malignant"), "at least", whole=True),
]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("threshold", THRESHOLDS, ids=lambda each: each.gate)
def test_a_limit_refuses_what_lies_beyond_it(registry, threshold, release):
    value = threshold.value(registry.figures[release])
    step = (1 if threshold.whole else EDGE) * (1 if threshold.bound == "at least" else -1)
    for limit, refused in ((value if threshold.whole else value - step, False), (value + step, True)):
        if not threshold.whole and not 0 <= limit <= 1:
            limit = min(1.0, max(0.0, limit))
            refused = value < limit if threshold.bound == "at least" else value > limit
        alias = next(ALIASES)
        registry.set_gates({threshold.gate: {threshold.setting: limit}}, alias)
        assert registry.refused_by(release, alias) == ({threshold.gate} if refused else set()), limit


NOBODY = "sha256:" + "a" * 64


@dataclass(frozen=True)
class Case:
    """A release, what is asked of it and which gates refuse it.

    Attributes:
        running: the release that the alias points to.
        options: more of the command line.
    """

    release: str
    gates: Gates
    refused: set[str]
    running: str = ""
    must_apply: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


ALONE = ("--without", "light", "--without", "dark")
"""Carries over no version of a subgroup."""

PARITY: Gates = {"parity": {"limit": 0.001}}
CASES = {
    "one gate of two": Case(
        "other run", {**PARITY, "required_subgroups": {"malignant": 500}}, {"required_subgroups"}
    ),
    "both of two": Case(
        "mixed", {"count": {"minimum": 500}, "min_answer_rate": {"limit": 1}}, {"count", "min_answer_rate"}
    ),
    "a subgroup that was tested": Case(
        "other run", {"required_subgroups": {"malignant": 2, "subgroups": ["dark"]}}, set()
    ),
    "a subgroup that nobody tested": Case(
        "other run",
        {"required_subgroups": {"malignant": 2, "subgroups": ["medium"]}},
        {"required_subgroups"},
    ),
    "the tones of a subgroup": Case(
        "personalized",
        {"required_subgroups": {"malignant": 2, "tones": {"dark": {"fitzpatrick": ["5", "6"]}}}},
        set(),
    ),
    "tones of another subgroup": Case(
        "personalized",
        {"required_subgroups": {"malignant": 2, "tones": {"dark": {"fitzpatrick": ["2"]}}}},
        {"required_subgroups"},
    ),
    "tones of another scale": Case(
        "personalized",
        {"required_subgroups": {"malignant": 2, "tones": {"dark": {"monk": ["9"]}}}},
        {"required_subgroups"},
    ),
    "too few patients of a tone": Case("personalized", {"tones": {"patients": 10}}, {"tones"}),
    "few patients of a tone are told": Case("other run", {"tones": {"patients": 2}}, set()),
    "six malignant pictures show little": Case(
        "personalized", {"min_sensitivity_lower_bound": {"limit": 0.75}}, {"min_sensitivity_lower_bound"}
    ),
    "nothing need be shown": Case("other run", {"min_sensitivity_lower_bound": {"limit": 0}}, set()),
    "no answers, so no wrong ones": Case("personalized", {"risk": {}}, set()),
    "answers are asked for": Case("personalized", {"risk": {}}, {"risk"}, must_apply=("risk",)),
    "spread applies": Case("mixed", {"spread": {"limit": 1}}, set(), must_apply=("spread",)),
    "nothing runs": Case("other run", {"non_inferiority": {"delta": 0}}, set()),
    "something has to run": Case(
        "other run", {"non_inferiority": {"delta": 0}}, {"non_inferiority"}, must_apply=("non_inferiority",)
    ),
    "the same again": Case("personalized", {"non_inferiority": {"delta": 0}}, set(), running="personalized"),
    "any loss is allowed": Case(
        "other run", {"non_inferiority": {"delta": 1}}, set(), running="personalized", options=ALONE
    ),
    "outcomes that nobody can read": Case("mixed", {"outcomes": {}}, {"outcomes"}),
    "signed by nobody": Case("mixed", {"signature": {"identities": [NOBODY]}}, {"signature"}),
    "figures signed by nobody": Case(
        "mixed", {"metrics_signature": {"keys": [NOBODY]}}, {"metrics_signature"}
    ),
    "only who stays is asked": Case("", PARITY, set(), running="personalized", options=("--without", "dark")),
    "who stays is asked": Case(
        "",
        {"count": {"minimum": 500}},
        {"count"},
        running="personalized",
        options=("--without", "dark"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_release_is_refused_by_these_gates(registry, name):
    case, alias = CASES[name], next(ALIASES)
    if case.running:
        registry.promote(case.running, alias)
    registry.set_gates(case.gates, alias, case.must_apply)
    assert registry.refused_by(case.release, alias, *case.options) == case.refused


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "malignant_sensitivity"])
@pytest.mark.parametrize(("before", "after"), [("personalized", "other run"), ("other run", "personalized")])
def test_no_subgroup_may_lose_more_than_delta(registry, before, after, metric):
    running, candidate = registry.figures[before], registry.figures[after]
    loss = max(running[name][metric] - candidate[name][metric] for name in running)
    for delta in {min(1.0, max(0.0, loss + EDGE)), max(0.0, loss - EDGE)}:
        alias = next(ALIASES)
        registry.promote(before, alias)
        registry.set_gates({"non_inferiority": {"delta": delta, "metrics": [metric]}}, alias)
        refused = registry.refused_by(after, alias, *(ALONE if after == "other run" else ()))
        assert refused == ({"non_inferiority"} if loss > delta else set()), (loss, delta)


def test_the_default_set_refuses_a_weak_model_that_few_tested(registry):
    refused = registry.refused_by("personalized", "production")
    assert refused >= {"required_subgroups", "tones", "min_sensitivity_lower_bound", "min_answer_rate"}
    assert refused.isdisjoint({"risk", "non_inferiority", "coverage"})
