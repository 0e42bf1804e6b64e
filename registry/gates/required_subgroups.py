"""The gate `required_subgroups`: each of them was tested on at least `malignant` malignant pictures.

Groups seem equal where nothing malignant was tested in any of them, and one that is in no test seems to fare
like the others: both are refused here. Asked for are `subgroups`; where none is named, those that the tests
of the release name, and those that they call absent. Where they name none, all test pictures count as
`global`.

A bundle of an older version does not tell how many were malignant: it is refused, and has to be tested anew.
Where no label is malignant the gate does not apply.
"""

from typing import Literal

from pydantic import Field

from registry.bundle.manifest.labels import malignant_classes
from registry.bundle.metrics.patient import PatientFigures
from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.case import Case
from registry.gates.count import counted
from registry.gates.figures import for_everybody, for_patients
from registry.gates.gate import GateConfig


class RequiredSubgroupsGate(GateConfig):
    """Who must be in the test, and with how many malignant pictures."""

    name: Literal["required_subgroups"] = "required_subgroups"
    malignant: int = Field(ge=1)  # malignant test pictures of each subgroup
    subgroups: tuple[str, ...] = ()  # those asked for; none: all that the tests name

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        asked = ", ".join(dict.fromkeys(self.subgroups)) or "every subgroup that the tests name"
        return f"malignant test pictures of {asked}: at least {self.malignant} each"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        if not malignant_classes(for_everybody(case.manifests).labels).any():
            return GateResult(
                gate=self.name,
                verdict="not applicable",
                limit=self.malignant,
                detail="no label of the model is malignant, so there are no malignant pictures to test on",
            )
        rows = for_patients(case.manifests)
        names = tuple(dict.fromkeys(self.subgroups)) or tuple(counted(case.manifests))
        findings = tuple(self._finding(name, rows.get(name)) for name in names)
        few = [one for one in findings if one.verdict == "refused"]
        if few:
            named = ", ".join(one.subgroup for one in few)
            detail = (
                f"there are {', '.join(map(_said, few))}; at least {self.malignant} of each are asked for. "
                f"Test on more malignant pictures of {named}{_anew(few)}, {OVERRIDE}"
            )
        else:
            fewest = min(findings, key=lambda one: one.value or 0.0)
            detail = f"the fewest are {_said(fewest)}; at least {self.malignant} of each are asked for"
        known = [one.value for one in findings if one.value is not None]
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=min(known) if known else None,
            limit=self.malignant,
            untested=tuple(one.subgroup for one in findings if not one.value),
            findings=findings,
            detail=detail,
        )

    def _finding(self, name: str, row: PatientFigures | None) -> GateFinding:
        n = 0 if row is None else row.n_malignant
        note = "never tested" if row is None else "never counted" if n is None else ""
        return GateFinding(
            subgroup=name,
            measure="malignant test pictures",
            value=n,
            bound="at least",
            limit=self.malignant,
            verdict="refused" if n is None or n < self.malignant else "passed",
            note=note,
        )


def _said(finding: GateFinding) -> str:
    if finding.value is None:
        return f"malignant test pictures of {finding.subgroup} that were never counted"
    return f"{finding.value:.0f} malignant test pictures of {finding.subgroup}"


def _anew(few: list[GateFinding]) -> str:
    """What helps where a bundle is too old to tell."""
    return (
        " (an older version did not count them: test anew)" if any(one.value is None for one in few) else ""
    )
