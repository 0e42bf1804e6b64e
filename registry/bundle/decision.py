"""The decision on one picture, or one case: from its probabilities to the answer a clinician gets.

A pure function of the probabilities, the embedding, the manifest, the declared skin tone and the pattern of
what is given of a case, with thresholds compared in bins, so that what is decided is what was counted when
the model was tested.

- `report` if the highest probability reaches the abstention threshold, the prediction set is not empty, the
  malignancy does not hold the answer back, and the picture is not farther from the training pictures than the
  threshold of unfamiliarity, else `refer`. A disease that no class is for may have a high probability; its
  distance shows.
- The prediction set holds every class that reaches the conformal threshold. Where none does, no class is
  credible. It is full where too few calibration pictures allow no promise (`guarantee: none`).
- The malignancy probability is the sum over malignant classes; premalignant ones are not in it, and
  are marked in `findings`. It is None where no class is malignant. At the working point or above the lesion
  is suspicious; an answer that is no malignant class is then held back, however confident.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.cases.patterns import Pattern
from registry.bundle.caveats import HELD_BACK, caveats, familiarity_caveats, is_for
from registry.bundle.counts.score_bins import LOGIT_BINS, malignancy_probability
from registry.bundle.counts.working_point import is_held_back, is_suspicious
from registry.bundle.errors import GraphError
from registry.bundle.familiarity import distance_bin
from registry.bundle.manifest.codings import short
from registry.bundle.manifest.labels import Label, malignant_classes
from registry.bundle.manifest.schema import BundleManifest, Guarantee


@dataclass(frozen=True)
class Finding:
    """One class with its probability."""

    label: Label
    probability: float


@dataclass(frozen=True)
class MalignancyRisk:
    """How probable it is that a lesion is malignant, and on which side of the working point that is.

    Attributes:
        probability: None where no class is malignant.
        threshold: the working point, to the resolution of a score bin; None where the bundle has none.
        above: whether the lesion is suspicious: its probability is at the threshold or above.
        sensitivity: the share of malignant test pictures that were, as `BundleManifest.figures_for` has it.
        specificity: the share of other test pictures that were not.
        n: malignant test pictures.
    """

    probability: float | None
    threshold: float | None = None
    above: bool | None = None
    sensitivity: float | None = None
    specificity: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Decision:
    """The decision on one picture: report or refer, with the evidence for it.

    Attributes:
        reported: whether the answer is reported (else referred to a clinician).
        held_back: whether it is referred for its malignancy: suspicious, and its first finding not malignant.
        unfamiliar: whether the picture is unlike those trained on, and referred for it; None where the
            bundle or the caller has nothing to compare.
        findings: the classes, most probable first.
        in_set: codes in the prediction set, most probable first.
        coverage: the share of pictures whose set is meant to hold the truth.
        guarantee: for whom that is promised.
        set_calibrated_on: lesions the promise rests on.
        malignancy: how probable it is that the lesion is malignant.
        confidence: the highest probability.
        confidence_threshold: what it was compared with, to the resolution of a score bin.
        confidence_calibrated_on: pictures the threshold rests on.
        warnings: what a clinician has to know, one sentence each.
    """

    reported: bool
    held_back: bool
    unfamiliar: bool | None
    findings: tuple[Finding, ...]
    in_set: tuple[str, ...]
    coverage: float
    guarantee: Guarantee
    set_calibrated_on: int
    malignancy: MalignancyRisk
    confidence: float
    confidence_threshold: float
    confidence_calibrated_on: int
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The decision's part of a diagnosis, as JSON of the service's interface."""
        return {
            "decision": "report" if self.reported else "refer",
            "findings": [
                {
                    "code": finding.label.code,
                    "name": finding.label.name,
                    "malignancy": finding.label.malignancy,
                    "probability": finding.probability,
                    "coding": short(finding.label.codings),
                }
                for finding in self.findings
            ],
            "prediction_set": {
                "codes": list(self.in_set),
                "coverage": self.coverage,
                "guarantee": self.guarantee,
                "calibration_n": self.set_calibrated_on,
            },
            "malignancy": asdict(self.malignancy),
            "confidence": {
                "value": self.confidence,
                "threshold": self.confidence_threshold,
                "calibrated_on_n": self.confidence_calibrated_on,
            },
            "warnings": list(self.warnings),
        }


def decide(
    probabilities: NDArray[Any],
    manifest: BundleManifest,
    *,
    pattern: Pattern | None = None,
    embedding: NDArray[Any] | None = None,
    skin_tone: str | None = None,
    skin_tone_scale: str | None = None,
    top: int | None = None,
) -> Decision:
    """Decides on one picture, or one case.

    Args:
        probabilities: the graph's probabilities for the picture, `(classes,)`.
        manifest: of the bundle that gave them.
        pattern: what is given of a case; its rules decide. None for a model of single pictures.
        embedding: the graph's embedding of the picture, `(features,)`; without it the picture is not compared
            with those trained on.
        skin_tone: the declared skin tone, if any.
        skin_tone_scale: the scale it was declared on.
        top: list only so many findings; all of them by default. The prediction set is never cut.

    Raises:
        GraphError: the probabilities are not one finite number per label, or the embedding is not one
            finite number per feature.
    """
    if np.shape(probabilities) != (len(manifest.labels),) or not np.isfinite(probabilities).all():
        raise GraphError(
            f"the probabilities have shape {np.shape(probabilities)}; they are one finite number for each of "
            f"the {len(manifest.labels)} labels"
        )
    if pattern is not None:
        manifest = manifest.under(pattern)
    order = np.argsort(-np.asarray(probabilities, dtype=np.float64), kind="stable")
    bins = LOGIT_BINS.bin(probabilities)
    conformal = manifest.conformal
    guarantee = _guarantee(manifest, skin_tone, skin_tone_scale)
    threshold_bin = 0 if guarantee == "none" else conformal.threshold_bin
    in_set = tuple(manifest.labels[k].code for k in order if bins[k] >= threshold_bin)
    malignant = malignant_classes(manifest.labels)
    unfamiliar = _unfamiliar(manifest, embedding)
    one, answer = np.asarray(probabilities)[np.newaxis], order[:1]
    held_back = bool(is_held_back(one, answer, malignant, manifest.suspicious_from)[0])
    return Decision(
        reported=bool(bins[order[0]] >= manifest.reports_from) and not held_back and not unfamiliar,
        held_back=held_back,
        unfamiliar=unfamiliar,
        findings=tuple(Finding(manifest.labels[k], float(probabilities[k])) for k in order[:top]),
        in_set=in_set,
        coverage=round(1 - conformal.alpha, 6),
        guarantee=guarantee,
        set_calibrated_on=conformal.n,
        malignancy=_malignancy(probabilities, malignant, manifest, skin_tone, skin_tone_scale),
        confidence=float(probabilities[order[0]]),
        confidence_threshold=manifest.report_threshold,
        confidence_calibrated_on=manifest.abstention.n,
        warnings=(HELD_BACK,) * held_back
        + familiarity_caveats(manifest, unfamiliar)
        + caveats(manifest, in_set, skin_tone, skin_tone_scale, pattern),
    )


def _malignancy(
    probabilities: NDArray[Any],
    malignant: NDArray[np.bool_],
    manifest: BundleManifest,
    skin_tone: str | None,
    scale: str | None,
) -> MalignancyRisk:
    """The malignancy of one picture, with what was seen on test pictures at the working point."""
    if not malignant.any():
        return MalignancyRisk(None)
    probability = float(malignancy_probability(probabilities, malignant))
    if manifest.suspicious_from is None:
        return MalignancyRisk(probability)
    above = is_suspicious(np.asarray(probabilities)[np.newaxis], malignant, manifest.suspicious_from)
    seen = manifest.figures_for(skin_tone, scale)
    names = ("sensitivity_at_threshold", "specificity_at_threshold", "n_malignant")
    sensitivity, specificity, n = (seen.get(name) for name in names)
    return MalignancyRisk(
        probability,
        LOGIT_BINS.lower(manifest.suspicious_from),
        bool(above[0]),
        float(sensitivity) if isinstance(sensitivity, float | int) else None,
        float(specificity) if isinstance(specificity, float | int) else None,
        n if isinstance(n, int) else None,
    )


def _unfamiliar(manifest: BundleManifest, embedding: NDArray[Any] | None) -> bool | None:
    """Whether the picture is farther from the training pictures than the threshold allows."""
    known = manifest.out_of_distribution
    if known is None or known.threshold_bin is None or embedding is None:
        return None
    if np.shape(embedding) != (known.features,) or not np.isfinite(embedding).all():
        raise GraphError(
            f"the embedding has shape {np.shape(embedding)}; it is one finite number for each of the "
            f"{known.features} features"
        )
    return bool(distance_bin(known.gaussians.distances(embedding[np.newaxis]))[0] > known.threshold_bin)


def _guarantee(manifest: BundleManifest, skin_tone: str | None, scale: str | None) -> Guarantee:
    """The guarantee of the manifest; none for a tone that the model was not calibrated on."""
    return manifest.conformal.guarantee if is_for(manifest, skin_tone, scale) else "none"
