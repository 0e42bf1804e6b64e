"""The gate `parity`: the served graph answers as the trained network does, up to `limit` in any probability.

Each bundle tells the largest difference that was found when it was exported. A version that does not tell it
is refused: it was exported before bundles told, or was never compared.
"""

from typing import Literal

from pydantic import Field

from registry.gate_report import OVERRIDE, GateFinding, GateResult, worst_of
from registry.gates.case import Case
from registry.gates.gate import GateConfig


class ParityGate(GateConfig):
    """How far the exported graph's probabilities may lie from those of torch."""

    name: Literal["parity"] = "parity"
    limit: float = Field(ge=0, le=1)  # of the largest difference in a probability

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "largest difference in a probability between ONNX and torch at export, of every version: at most "
            f"{self.limit:.2g}"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        found = {one.subgroup.name: one.parity for one in case.manifests}
        findings = tuple(
            GateFinding(
                subgroup=name,
                measure="difference of ONNX and torch",
                value=value,
                limit=self.limit,
                verdict="refused" if value is None or value > self.limit else "passed",
                note="never compared" if value is None else "",
            )
            for name, value in found.items()
        )
        unknown = [name for name, value in found.items() if value is None]
        known = {name: value for name, value in found.items() if value is not None}
        far = {name: value for name, value in known.items() if value > self.limit}
        said = []
        if unknown:
            said.append(f"the bundle for {', '.join(unknown)} does not tell how far ONNX and torch differ")
        if far:
            said.append(
                f"ONNX and torch differ by {', '.join(f'{v:.2g} for {name}' for name, v in far.items())}"
            )
        if not said:
            largest = max(known, key=lambda name: known[name])
            said.append(f"ONNX and torch differ by {known[largest]:.2g} at most, for {largest}")
        detail = f"{'; '.join(said)}; at most {self.limit:.2g} is allowed"
        if unknown or far:
            detail += f". Export the model anew, {OVERRIDE}"
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=max(known.values()) if known else None,
            limit=self.limit,
            untested=tuple(unknown),
            findings=findings,
            detail=detail,
        )
