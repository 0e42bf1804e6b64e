"""The gate `count`: at least `minimum` test pictures behind every subgroup's figures.

A subgroup of which the test says that none of its pictures were there (`absent`), and one without any figure,
is refused: nobody knows how it fares. Where the test names no subgroup, all its pictures are counted.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from registry.bundle.manifest.schema import GLOBAL, UNDECLARED, BundleManifest
from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.case import Case
from registry.gates.figures import answers_for, figures_by_subgroup, for_everybody
from registry.gates.gate import GateConfig


class CountGate(GateConfig):
    """How many pictures a subgroup's figures must rest on."""

    name: Literal["count"] = "count"
    minimum: int = Field(ge=1)  # test pictures of each subgroup

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"test pictures behind every subgroup's figures: at least {self.minimum}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        counts = counted(case.manifests)
        findings = tuple(
            GateFinding(
                subgroup=name,
                measure="test pictures",
                value=n,
                bound="at least",
                limit=self.minimum,
                verdict="refused" if n < self.minimum else "passed",
                note="" if n else "never tested",
            )
            for name, n in counts.items()
        )
        few = {name: n for name, n in counts.items() if n < self.minimum}
        fewest = min(counts, key=lambda name: counts[name])
        if few:
            detail = (
                f"there are {', '.join(f'{n} test pictures of {name}' for name, n in few.items())}; at least "
                f"{self.minimum} are asked for. Test on more pictures of {', '.join(few)}, {OVERRIDE}"
            )
        else:
            least = f"at least {self.minimum} are asked for"
            detail = f"the fewest test pictures are {counts[fewest]} of {fewest}; {least}"
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=counts[fewest],
            limit=self.minimum,
            untested=tuple(name for name, n in counts.items() if n == 0),
            findings=findings,
            detail=detail,
        )


def counted(manifests: Sequence[BundleManifest]) -> dict[str, int]:
    """The test pictures of each subgroup, 0 of one that was not tested."""
    everybody = for_everybody(manifests)
    counts = {name: _n(figures_by_subgroup(one).get(name)) for name, one in answers_for(manifests).items()}
    absent = everybody.metrics.get("absent")
    for name in absent if isinstance(absent, Sequence) and not isinstance(absent, str) else ():
        if isinstance(name, str) and name not in (GLOBAL, UNDECLARED):
            counts.setdefault(name, 0)
    return counts or {GLOBAL: _n(everybody.metrics)}


def _n(figures: Mapping[str, Any] | Any) -> int:
    n = figures.get("n") if isinstance(figures, Mapping) else None
    return n if isinstance(n, int) and not isinstance(n, bool) and n > 0 else 0
