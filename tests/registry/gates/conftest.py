"""Releases to judge, and of each gate a release that passes and one that it refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest

from registry.bundle.labels import Label, Subgroup, TonePatients
from registry.bundle.manifest import BundleManifest, Conformal, KindMissed, Triage
from registry.gates import GATES, Case
from registry.gates.gate import GateConfig, SubgroupOutcomes

PROMISE = Conformal(alpha=0.1, threshold_bin=20, n=100, guarantee="global")
CANCER = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
)


def key(name: str) -> str:
    """The fingerprint of a person's key."""
    return "sha256:" + sha256(name.encode()).hexdigest()


def approved(*names: str) -> dict[str, str]:
    """Signed approvals of these people."""
    return {key(name): name for name in names}


@pytest.fixture
def manifests(bundle) -> Callable[..., list[BundleManifest]]:
    """Manifests of a release: the global one, and those of subgroups with a version of their own."""

    def make(everybody: dict[str, Any], **own: Any) -> list[BundleManifest]:
        given = [bundle(metrics=everybody).manifest]
        return given + [bundle(subgroup, metrics).manifest for subgroup, metrics in own.values()]

    return make


@pytest.fixture
def told() -> Callable[..., dict[str, Any]]:
    """One test metric by subgroup: a value, or with the two ends of its interval; `n` of all, 50."""

    def make(metric: str, n: int = 50, **values: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, given in values.items():
            value, *ends = given if isinstance(given, tuple) else (given,)
            found[name] = {"n": n, metric: value, "intervals": {metric: ends} if ends else {}}
        return {"n": n * len(values), "by_subgroup": found}

    return make


@pytest.fixture
def found() -> Callable[..., dict[str, Any]]:
    """Test metrics by subgroup: the share of malignant images found, of how many; and as many others."""

    def make(**values: tuple[float, int]) -> dict[str, Any]:
        rows = {
            name: {"n": 2 * n, "n_malignant": n, "n_other": n, "malignant_sensitivity": share}
            for name, (share, n) in values.items()
        }
        return {"n": sum(row["n"] for row in rows.values()), "by_subgroup": rows}

    return make


@dataclass(frozen=True)
class Example:
    """A gate, with a release that passes and one that it refuses."""

    gate: GateConfig
    passes: Case
    refused: Case


@pytest.fixture
def examples(bundle, told, found, dark) -> dict[str, Example]:
    """One example of each gate, by name; the docs show what each says of the release that it refuses."""
    made: dict[str, Example] = {}

    def add(name: str, passes: Case, refused: Case, **settings: Any) -> None:
        made[name] = Example(GATES.find(name)(**settings), passes, refused)

    def case(metrics: dict[str, Any], **parts: Any) -> Case:
        return Case((bundle(metrics=metrics, **parts).manifest,))

    def threshold(name: str, metric: str, right: float, wrong: Any, *, parts: Any = None, **settings: Any):
        both = (case(told(metric, light=right, dark=dark), **(parts or {})) for dark in (right, wrong))
        add(name, *both, **settings)

    threshold("spread", "accuracy", 0.9, 0.7, limit=0.1)
    threshold("worst_balanced_accuracy", "balanced_accuracy", 0.8, (0.54, 0.4, 0.66), limit=0.6)
    labels = {"labels": CANCER}
    threshold("worst_malignant_sensitivity", "malignant_sensitivity", 0.9, 0.75, parts=labels, limit=0.8)
    threshold("calibration", "ece", 0.04, 0.18, limit=0.1)
    threshold("coverage", "coverage", 0.9, 0.8, parts={"conformal": PROMISE}, slack=0.05)
    threshold("min_answer_rate", "answered", 0.6, (0.055, 0.012, 0.15), limit=0.2)
    threshold("risk", "reported_risk", 0.1, (0.17, 0.118, 0.238))
    for name, passing, failing, setting in (
        ("min_sensitivity_lower_bound", (0.95, 60), (18 / 21, 21), {"limit": 0.75}),
        ("required_subgroups", (0.9, 20), (0.9, 7), {"malignant": 20}),
    ):
        both = (case(found(light=(0.9, 200), dark=dark), **labels) for dark in (passing, failing))
        add(name, *both, **setting)
    melanoma = (KindMissed(kind="Melanoma", n=90, missed=2, high=0.0684),)
    triage = Triage(missed=0.1, false_alarms=0.1, level=0.95, ruled_out_below=20, kinds=melanoma)
    rows = [
        {"n": 128, "n_malignant": 28, "n_other": 100, "ruled_out_malignant": missed / 28} for missed in (1, 9)
    ]
    add("triage", *(case({"by_subgroup": {"dark": row}}, triage=triage, **labels) for row in rows))
    add("count", *(case(told("accuracy", n, light=0.9, dark=0.9)) for n in (30, 12)), minimum=30)
    add("parity", *(case({}, parity=value) for value in (0.001, 0.004)), limit=0.001)

    two = (bundle(metrics={"n": 50}).manifest, bundle(dark, {"n": 50}).manifest)
    four = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "6"))
    few = {"fitzpatrick": {"3": 40, "4": 40, "5": 40, "6": 9}}
    counted = ({}, {"patients_by_tone": TonePatients(calibration=few, test=few)})
    add("tones", *(Case((two[0], bundle(four, {"n": 50}, **parts).manifest)) for parts in counted))

    running = case(told("accuracy", light=0.9, dark=(0.84, 0.72, 0.91))).manifests
    after = (told("accuracy", light=0.9, dark=value) for value in (0.83, (0.76, 0.62, 0.85)))
    both = (Case(case(metrics).manifests, running=running) for metrics in after)
    add("non_inferiority", *both, delta=0.02)

    good = SubgroupOutcomes("dark", 40, (0.8, 0.95))
    bad = SubgroupOutcomes("dark", 64, (0.61, 0.8), ("sensitivity of 0.85 or more, since 2026-05-04",))
    add(
        "outcomes",
        Case(two, outcomes={"dark": (good,)}, running=two[:1]),
        Case(two, outcomes={"dark": (bad,)}),
    )

    mine = "sha256:" + "a" * 64
    add(
        "signature",
        Case(two, signed_by={"global": (mine,), "dark": ("another", mine)}),
        Case(two, signed_by={"global": (mine,)}),
        identities=(mine,),
    )
    add(
        "metrics_signature",
        Case(two, metrics_signed_by={"global": mine, "dark": mine}),
        Case(two, metrics_signed_by={"global": mine, "dark": "sha256:" + "b" * 64}),
        keys=(mine,),
    )
    chris = {"promoter": "chris", "promoter_key": key("chris")}
    ask = "dermfed-registry approve demo 1 2 --to production"
    add(
        "approvals",
        Case(two, **chris, approvals=approved("anna", "ben")),
        Case(two, **chris, approvals=approved("anna", "chris"), approve_with=ask),
        people=2,
    )
    return made
