"""The gates `spread`, over subgroups, and `parity`, of the served graph and the trained network."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from registry.gate_report import GateFinding, GateResult, SubgroupFigure
from registry.gates.gate import (
    Case,
    Interval,
    NumericGate,
    answering,
    answers_for,
    check,
    difference_interval,
    for_everybody,
    for_patients,
    not_applicable,
    tested,
)


class SpreadGate(NumericGate):
    """How much worse than the best served subgroup another one may fare: max - min accuracy (paper 003).

    With p1 the best and p2 the worst accuracy the spread is d = p1 - p2, and its interval that of MOVER,
    cut at 0, since a spread is never negative. The verdict goes by d alone; the interval is shown and kept.

    A subgroup without accuracy is refused; with fewer than two the gate does not apply. Accuracy may be equal
    where nothing malignant was tested: that is said, and judged by `required_subgroups`.
    """

    name: Literal["spread"] = "spread"
    limit: float = Field(0.10, ge=0, le=1)  # of max - min accuracy over subgroups

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "test accuracy of the subgroup served best minus that of the one served worst: at most "
            f"{self.limit:.3f}"
        )

    def judge(self, case: Case) -> GateResult:
        """Judge a release."""
        result = super().judge(case)
        if result.value is None:
            return result
        best, worst = _ends(case)
        return result.model_copy(update={"best": best, "worst": worst})

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for the subgroup served worst, or for each that was never tested."""
        why = "it compares two subgroups or more, and the test metrics name"
        if not answers_for(case.manifests) and for_everybody(case.manifests).metrics:
            yield not_applicable("accuracy gap", f"{why} none")
            return
        rows = answering(case.manifests).items()
        accuracies = {name: tested(name, row, "accuracy") for name, (_, row) in rows}
        if untested := [name for name, one in accuracies.items() if one is None]:
            yield from (check(name, "accuracy", None, "at most", self.limit) for name in untested)
            return
        if len(accuracies) < 2:
            yield not_applicable("accuracy gap", f"{why} only {', '.join(accuracies)}")
            return
        best, worst = _ends(case)
        note = f"{worst.value:.3f} against {best.value:.3f}"
        patients = for_patients(case.manifests).items()
        if empty := [name for name, row in patients if row is not None and row.n_malignant == 0]:
            note += f", no malignant image of {', '.join(empty)} was tested"
        gap = SubgroupFigure(
            subgroup=worst.subgroup,
            value=best.value - worst.value,
            n=worst.n,
            interval=spread_interval(best, worst),
        )
        yield check(worst.subgroup, f"accuracy gap to {best.subgroup}", gap, "at most", self.limit, note=note)


def _ends(case: Case) -> tuple[SubgroupFigure, SubgroupFigure]:
    """The best and the worst accuracy."""
    found = [tested(name, row, "accuracy") for name, (_, row) in answering(case.manifests).items()]
    ordered = sorted((one for one in found if one is not None), key=lambda one: one.value)
    return ordered[-1], ordered[0]


def spread_interval(best: SubgroupFigure, worst: SubgroupFigure) -> Interval | None:
    """The interval of best - worst from the intervals of both."""
    found = difference_interval(best, worst)
    return None if found is None else (max(0.0, found[0]), found[1])


class ParityGate(NumericGate):
    """How far the exported graph's probabilities may lie from those of torch, for every version.

    A bundle holds the largest difference that was found when it was exported; one without it is refused.
    """

    remedy = missing = "export the model again for"
    digits = ".2g"
    name: Literal["parity"] = "parity"
    limit: float = Field(ge=0, le=1)  # of the largest difference in a probability

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "largest difference in a probability between ONNX and torch at export, of every version: at most "
            f"{self.limit:.2g}"
        )

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each version."""
        measure = "difference of ONNX and torch"
        for one in case.manifests:
            note = "the bundle does not say how far they differ" if one.parity is None else ""
            yield check(one.subgroup.name, measure, one.parity, "at most", self.limit, note=note)
