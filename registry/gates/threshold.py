"""A figure of every subgroup against a limit: four gates.

A subgroup without the figure is refused: it was never tested, or its version not calibrated. Where the test
names no subgroup, all its pictures stand as `global`.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from registry.gate_report import (
    OVERRIDE,
    Bound,
    GateFinding,
    GateResult,
    SubgroupFigure,
    never_tested,
    worst_of,
)
from registry.gates.case import Case
from registry.gates.figures import stand_or_total
from registry.gates.gate import ROUNDING, GateConfig
from registry.gates.malignancy import without_malignant


class ThresholdGate(GateConfig):
    """A gate whose figure must lie on one side of a limit for every subgroup.

    Attributes:
        limit: what the worst subgroup must reach.
        figure: the figure's name in a bundle.
        called: the figure, as people say it.
        described: the same with whom it is of, as `meaning` says it.
        bound: the side.
    """

    limit: float = Field(ge=0, le=1)
    figure: ClassVar[str]
    called: ClassVar[str]
    described: ClassVar[str]
    bound: ClassVar[Bound] = "at least"

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"{self.described}: {self.bound} {self.limit:.3f}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        standings = stand_or_total(case.manifests, self.figure)
        return against_limit(self.name, self.called, standings, self.bound, self.limit)


class AnsweredGate(ThresholdGate):
    """How many of every subgroup must get an answer.

    The others are referred to a clinician. A model that refers nearly everybody keeps every promise and helps
    nobody; one that refers a single skin tone is of no use to it.
    """

    name: Literal["answered"] = "answered"
    figure = "reported"
    called = "share answered"
    described = "share of every subgroup's test pictures that is answered"


class CalibrationGate(ThresholdGate):
    """How far confidence may lie from accuracy in any subgroup: the expected calibration error (ECE).

    As the served graph answers, temperature included. Noise raises the figure, so that on few pictures the
    gate errs towards refusing.
    """

    name: Literal["calibration"] = "calibration"
    figure = "ece"
    called = "calibration error"
    described = "expected calibration error on every subgroup's test pictures"
    bound = "at most"


class WorstBalancedAccuracyGate(ThresholdGate):
    """How well the subgroup served worst must be served, each class counting alike.

    The mean recall over classes, so that a model that calls everything a naevus does not pass.
    """

    name: Literal["worst_balanced_accuracy"] = "worst_balanced_accuracy"
    figure = "balanced_accuracy"
    called = "balanced accuracy"
    described = "balanced test accuracy of every subgroup"


class WorstMalignantSensitivityGate(ThresholdGate):
    """How much of what is malignant must be found in every subgroup.

    Found is a picture whose answer is any malignant class. Where every label says that it is not malignant
    the gate does not apply, and where some say nothing it refuses.
    """

    name: Literal["worst_malignant_sensitivity"] = "worst_malignant_sensitivity"
    figure = "malignant_sensitivity"
    called = "malignant sensitivity"
    described = "share of every subgroup's malignant test pictures that is found"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        none = "so there is nothing malignant to find"
        return without_malignant(self.name, case.manifests, self.limit, none) or super().judge(case)


def against_limit(
    gate: str, called: str, standings: Mapping[str, SubgroupFigure | None], bound: Bound, limit: float
) -> GateResult:
    """What a gate says whose figure must lie on one side of a limit for every subgroup.

    Args:
        gate: the gate's name.
        called: the figure, as people say it.
        standings: each subgroup's figure; None where it was never tested.
        bound: the side.
        limit: the limit, which itself passes.
    """
    findings = tuple(_finding(name, called, one, bound, limit) for name, one in standings.items())
    tested = [standing for standing in standings.values() if standing is not None]
    untested = tuple(name for name, standing in standings.items() if standing is None)
    outside = [one for one in tested if not lies(one.value, bound, limit)]
    worst = sorted(tested, key=lambda one: one.value, reverse=bound == "at most")[:1]
    said = [never_tested(untested, called)] if untested else []
    if outside:
        said.append(f"{called} is {', '.join(map(str, outside))}")
    if not said and worst:
        said.append(f"{called} is {'lowest' if bound == 'at least' else 'highest'} at {worst[0]}")
    detail = f"{'; '.join(said)}; {bound} {limit:.3f} is asked for"
    if untested or outside:
        steps = [f"Test {', '.join(untested)}"] if untested else []
        if outside:
            steps.append(f"{'improve' if steps else 'Improve'} the model for {_names(outside)}")
        detail += f". {', '.join(steps)}, {OVERRIDE}"
    return GateResult(
        gate=gate,
        verdict=worst_of(findings),
        value=worst[0].value if worst else None,
        limit=limit,
        interval=worst[0].interval if worst else None,
        worst=worst[0] if worst else None,
        untested=untested,
        findings=findings,
        detail=detail,
    )


def lies(value: float, bound: Bound, limit: float) -> bool:
    """Whether a value lies on the right side of a limit, or on it."""
    return value >= limit - ROUNDING if bound == "at least" else value <= limit + ROUNDING


def _names(standings: list[SubgroupFigure]) -> str:
    return ", ".join(one.subgroup for one in standings)


def _finding(
    name: str, called: str, standing: SubgroupFigure | None, bound: Bound, limit: float
) -> GateFinding:
    if standing is None:
        return GateFinding(
            subgroup=name, measure=called, bound=bound, limit=limit, verdict="refused", note="never tested"
        )
    return GateFinding(
        subgroup=name,
        measure=called,
        value=standing.value,
        n=standing.n,
        interval=standing.interval,
        bound=bound,
        limit=limit,
        verdict="passed" if lies(standing.value, bound, limit) else "refused",
    )
