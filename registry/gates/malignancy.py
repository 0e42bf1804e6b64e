"""Whether a gate on malignancy applies: not to labels that say, each of them, that they are not malignant.

A label of unknown kind is one of which nobody said anything. Were such gates not to apply to it, leaving the
word out would be the way around them.
"""

from collections.abc import Sequence

from registry.bundle.manifest.labels import malignant_classes
from registry.bundle.manifest.schema import BundleManifest
from registry.gate_report import OVERRIDE, GateResult
from registry.gates.figures import for_everybody


def without_malignant(
    gate: str, manifests: Sequence[BundleManifest], limit: float, why: str
) -> GateResult | None:
    """What a gate says where no label is malignant; None where one is, and it has to judge.

    Args:
        gate: its name.
        manifests: of the release.
        limit: its limit.
        why: why there is nothing to judge.
    """
    labels = for_everybody(manifests).labels
    if malignant_classes(labels).any():
        return None
    unknown = [label.code for label in labels if label.malignancy == "unknown"]
    if not unknown:
        detail = f"no label of the model is malignant, {why}"
        return GateResult(gate=gate, verdict="not applicable", limit=limit, detail=detail)
    detail = (
        f"no label of the model is malignant, and of {', '.join(unknown)} nobody said whether they are. Say "
        f"`malignancy: benign`, premalignant or malignant of each label in the job, {OVERRIDE}"
    )
    return GateResult(gate=gate, verdict="refused", limit=limit, detail=detail)
