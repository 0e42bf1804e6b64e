"""Releases to judge, and of each gate a release that passes and one that it refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest

from registry.bundle.labels import Label, Subgroup
from registry.bundle.manifest import BundleManifest, Conformal
from registry.gates import Case
from registry.gates.approval import ApprovalsGate, MeasuredByGate, SignatureGate
from registry.gates.coverage import CoverageGate
from registry.gates.fairness import ParityGate, SpreadGate
from registry.gates.gate import GateConfig, InField
from registry.gates.non_inferiority import NoWorseGate
from registry.gates.outcomes import FieldGate
from registry.gates.required_subgroups import RequiredSubgroupsGate, TonesGate
from registry.gates.threshold import (
    AnsweredGate,
    CalibrationGate,
    CountGate,
    RiskGate,
    ShownSensitivityGate,
    WorstBalancedAccuracyGate,
    WorstMalignantSensitivityGate,
)
from tests.represented import patients_of

PROMISE = Conformal(alpha=0.1, threshold_bin=20, n=100, guarantee="global")
CANCER = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
)


def key(name: str) -> str:
    """The fingerprint of somebody's key."""
    return "sha256:" + sha256(name.encode()).hexdigest()


def approved(*names: str) -> dict[str, str]:
    """Signed approvals of these people."""
    return {key(name): name for name in names}


@pytest.fixture
def manifests(bundle) -> Callable[..., list[BundleManifest]]:
    """Manifests of a release: of everybody, and of subgroups with a version of their own."""

    def make(everybody: dict[str, Any], **own: Any) -> list[BundleManifest]:
        given = [bundle(metrics=everybody).manifest]
        return given + [bundle(subgroup, metrics).manifest for subgroup, metrics in own.values()]

    return make


@pytest.fixture
def told() -> Callable[..., dict[str, Any]]:
    """Test figures of one kind by subgroup: a value, or with the two ends of its interval; `n` of all, 50."""

    def make(figure: str, n: int = 50, **values: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, given in values.items():
            value, *ends = given if isinstance(given, tuple) else (given,)
            found[name] = {"n": n, figure: value, "intervals": {figure: ends} if ends else {}}
        return {"n": n * len(values), "by_subgroup": found}

    return make


@pytest.fixture
def found() -> Callable[..., dict[str, Any]]:
    """Test figures by subgroup: the share of malignant pictures found, of how many; others beside."""

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

    def case(metrics: dict[str, Any], **beside: Any) -> Case:
        return Case((bundle(metrics=metrics, **beside).manifest,))

    def both(figure: str, right: Any, wrong: Any, **beside: Any) -> tuple[Case, Case]:
        light = right if not isinstance(right, tuple) else right[0]
        return (
            case(told(figure, light=light, dark=right), **beside),
            case(told(figure, light=light, dark=wrong), **beside),
        )

    def better_for_dark(value: float | tuple[float, float, float]) -> Case:
        before = case(told("accuracy", light=0.9, dark=(0.84, 0.72, 0.91)))
        after = (bundle(metrics=told("accuracy", light=0.9, dark=value)).manifest,)
        return Case(after, running=before.manifests)

    two = (bundle(metrics={"n": 50}).manifest, bundle(dark, {"n": 50}).manifest)
    four = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "6"))
    few = patients_of(four, without="6")
    mine = "sha256:" + "a" * 64
    ask = "dermfed-registry approve demo 1 2 --to production"
    return {
        "spread": Example(SpreadGate(limit=0.1), *both("accuracy", 0.9, 0.7)),
        "worst_balanced_accuracy": Example(
            WorstBalancedAccuracyGate(limit=0.6), *both("balanced_accuracy", 0.8, (0.54, 0.4, 0.66))
        ),
        "worst_malignant_sensitivity": Example(
            WorstMalignantSensitivityGate(limit=0.8), *both("malignant_sensitivity", 0.9, 0.75, labels=CANCER)
        ),
        "shown_sensitivity": Example(
            ShownSensitivityGate(limit=0.75),
            case(found(light=(0.9, 200), dark=(0.95, 60)), labels=CANCER),
            case(found(light=(0.9, 200), dark=(18 / 21, 21)), labels=CANCER),
        ),
        "required_subgroups": Example(
            RequiredSubgroupsGate(malignant=20),
            case(found(light=(0.9, 200), dark=(0.9, 20)), labels=CANCER),
            case(found(light=(0.9, 200), dark=(0.9, 7)), labels=CANCER),
        ),
        "tones": Example(
            TonesGate(),
            Case((two[0], bundle(four, {"n": 50}).manifest)),
            Case((two[0], bundle(four, {"n": 50}, patients_by_tone=few).manifest)),
        ),
        "calibration": Example(CalibrationGate(limit=0.1), *both("ece", 0.04, 0.18)),
        "coverage": Example(CoverageGate(slack=0.05), *both("coverage", 0.9, 0.8, conformal=PROMISE)),
        "answered": Example(AnsweredGate(limit=0.2), *both("reported", 0.6, (0.055, 0.012, 0.15))),
        "risk": Example(
            RiskGate(),
            case(told("reported_risk", light=0.1, dark=(0.12, 0.06, 0.21))),
            case(told("reported_risk", light=0.1, dark=(0.17, 0.118, 0.238))),
        ),
        "count": Example(
            CountGate(minimum=30),
            case(told("accuracy", 30, light=0.9, dark=0.9)),
            case(told("accuracy", 12, light=0.9, dark=0.9)),
        ),
        "no_worse": Example(
            NoWorseGate(delta=0.02), better_for_dark(0.83), better_for_dark((0.76, 0.62, 0.85))
        ),
        "parity": Example(ParityGate(limit=0.001), case({}, parity=0.001), case({}, parity=0.004)),
        "field": Example(
            FieldGate(),
            Case(two, in_field={"dark": (InField("dark", 40, (0.8, 0.95)),)}, running=two[:1]),
            Case(
                two,
                in_field={
                    "dark": (
                        InField("dark", 64, (0.61, 0.8), ("sensitivity of 0.85 or more, since 2026-05-04",)),
                    )
                },
            ),
        ),
        "signature": Example(
            SignatureGate(identities=(mine,)),
            Case(two, signed_by={"global": (mine,), "dark": ("another", mine)}),
            Case(two, signed_by={"global": (mine,)}),
        ),
        "measured_by": Example(
            MeasuredByGate(keys=(mine,)),
            Case(two, measured_by={"global": mine, "dark": mine}),
            Case(two, measured_by={"global": mine, "dark": "sha256:" + "b" * 64}),
        ),
        "approvals": Example(
            ApprovalsGate(people=2),
            Case(two, promoter="chris", promoter_key=key("chris"), approvals=approved("anna", "ben")),
            Case(
                two,
                promoter="chris",
                promoter_key=key("chris"),
                approvals=approved("anna", "chris"),
                approve_with=ask,
            ),
        ),
    }
