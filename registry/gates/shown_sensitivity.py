"""The gate `shown_sensitivity`: every subgroup's malignant sensitivity is shown to be `limit` at least.

Shown is the lower end of the 95 % interval: 18 of 21 found are 0.857, and show 0.637. Where the test names a
sensitivity at the working point, that is judged, since a clinic acts on it; elsewhere that of the most
probable class. The lower end is the bundle's own, of lesions, and never above Clopper and Pearson's of as
many pictures.

A subgroup without the figure is refused, and so is one whose malignant test pictures were never counted.
Where every label says that it is not malignant the gate does not
apply, and where some say nothing it refuses; where the test names no subgroup, all its pictures are judged.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from registry.bundle.metrics.exact import clopper_pearson
from registry.bundle.metrics.patient import PatientFigures
from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.case import Case
from registry.gates.figures import for_patients
from registry.gates.gate import GateConfig
from registry.gates.malignancy import without_malignant
from registry.gates.threshold import lies

AT_WORKING_POINT = "sensitivity_at_threshold"
AT_MOST_PROBABLE = "malignant_sensitivity"


@dataclass(frozen=True)
class _Shown:
    """What one subgroup's test shows; `low` is None where it shows nothing."""

    called: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    note: str


class ShownSensitivityGate(GateConfig):
    """How much of what is malignant must be shown to be found in every subgroup."""

    name: Literal["shown_sensitivity"] = "shown_sensitivity"
    limit: float = Field(ge=0, le=1)  # of the least lower end over subgroups

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "lower end of the 95 % interval of every subgroup's malignant sensitivity, at the working point "
            f"where there is one: at least {self.limit:.3f}"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        none = "so there is nothing malignant to find"
        if (said := without_malignant(self.name, case.manifests, self.limit, none)) is not None:
            return said
        shown = {name: _shown(row) for name, row in for_patients(case.manifests).items()}
        findings = tuple(self._finding(name, one) for name, one in shown.items())
        refused = [one for one in findings if one.verdict == "refused"]
        measured = [one for one in findings if one.value is not None]
        worst = min(measured, key=lambda one: one.value or 0.0) if measured else None
        if refused:
            detail = (
                f"{'; '.join(map(_said, refused))}; {self.limit:.3f} is asked for. "
                f"{self._advice(shown, refused)}, {OVERRIDE}"
            )
        else:
            assert worst is not None, "a release is judged by one row of figures at least"
            detail = f"the least that is shown: {_said(worst)}; {self.limit:.3f} is asked for"
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=worst.value if worst else None,
            limit=self.limit,
            interval=worst.interval if worst else None,
            untested=tuple(one.subgroup for one in findings if one.value is None),
            findings=findings,
            detail=detail,
        )

    def _finding(self, name: str, shown: _Shown) -> GateFinding:
        passes = shown.low is not None and lies(shown.low, "at least", self.limit)
        return GateFinding(
            subgroup=name,
            measure=f"lower end of {shown.called}",
            value=shown.low,
            n=shown.n,
            interval=None if shown.low is None or shown.high is None else (shown.low, shown.high),
            bound="at least",
            limit=self.limit,
            verdict="passed" if passes else "refused",
            note=shown.note,
        )

    def _advice(self, shown: dict[str, _Shown], refused: list[GateFinding]) -> str:
        """Those whose figure itself is too low need a better model, the others more pictures."""
        values = {one.subgroup: shown[one.subgroup].value for one in refused}
        weak = [name for name, value in values.items() if value is not None and value < self.limit]
        few = [name for name in values if name not in weak]
        steps = [f"improve the model for {', '.join(weak)}"] if weak else []
        steps += [f"test on more malignant pictures of {', '.join(few)}"] if few else []
        told = "; ".join(steps)
        return told[0].upper() + told[1:]


def _shown(row: PatientFigures | None) -> _Shown:
    if row is None:
        return _Shown("malignant sensitivity", None, None, None, None, "never tested")
    at_point = AT_WORKING_POINT in row.figures
    told = row.figures[AT_WORKING_POINT if at_point else AT_MOST_PROBABLE]
    called = "malignant sensitivity" + (" at the working point" if at_point else "")
    if row.n_malignant is None:
        return _Shown(called, told.value, None, None, None, "malignant test pictures were never counted")
    if told.value is None or not row.n_malignant:
        return _Shown(called, None, None, None, row.n_malignant, "no malignant test pictures")
    low, high = clopper_pearson(told.value * row.n_malignant, row.n_malignant)
    if told.interval is not None:
        low, high = min(low, told.interval[0]), max(high, told.interval[1])
    note = f"{told.value:.3f}, {round(told.value * row.n_malignant)} of {row.n_malignant} found"
    return _Shown(called, told.value, low, high, row.n_malignant, note)


def _said(finding: GateFinding) -> str:
    called = finding.measure.removeprefix("lower end of ")
    if finding.value is None:
        return f"{called} of {finding.subgroup} is not known: {finding.note}"
    return f"{called} of {finding.subgroup} is shown to be {finding.value:.3f} at least ({finding.note})"
