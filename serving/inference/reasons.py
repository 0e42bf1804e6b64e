"""The reasons of a diagnosis: why `report`, `refer` or `retake`, and why this version answered.

| code | decision |
| --- | --- |
| `confident` | `report`: a conclusion is sure enough |
| `low-confidence` | `refer`: none is |
| `refers-all` | `refer`: the version concludes nothing of any picture |
| `possible-malignancy` | `refer`: suspicious at the working point, and the first finding is not malignant |
| `unfamiliar` | `refer`: the picture is unlike those that the version was trained on |
| what is wrong with the picture | `retake`: see `serving.inference.quality` |

The last reason is the route's, by the route's own name, or `tone-not-represented`: the declared tone had too
few patients in the calibration, or none. There may be new codes: a program that meets one it
does not know shows the text.

Warns where a picture contradicts the skin tone declared with it; the answer does not depend on it.

The angle of the skin (`registry.bundle.skin_tone`) is compared with the ranges that the bundle
learned from its own pictures. It neither changes the route nor fills in a tone: the answer is the same with
and without the warning.

It warns only where warnings were measured to be informative (docs/results/skin-tone.md). The bundle must have
ranges on the declared scale; in its pictures the angle must correlate with the tone, as it does in close-ups
(rank correlation 0.52) and does not in dermoscopic pictures (−0.04); and the picture must be like those:
on dermoscopic pictures the ranges of close-ups would warn wrongly, mostly for dark skin. Even then, most
wrong declarations go unnoticed: the absence of a warning means nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from registry.bundle.decision import Conclusion, Decision
from registry.bundle.manifest import BundleManifest
from registry.bundle.score_bins import probability_text
from registry.bundle.skin_tone import ToneRanges, contradicted_by, from_dark, skin_tone_angle
from registry.records import Version
from serving.inference.quality import IssueCode, QualityAssessment
from serving.protocol.parameters import ROUTE_REASONS, Parameters, RouteReason
from serving.protocol.schemas import Reason

ReasonCode = Literal["confident", "low-confidence", "refers-all", "possible-malignancy", "unfamiliar"]
CODES: tuple[str, ...] = (*get_args(ReasonCode), *get_args(IssueCode), *ROUTE_REASONS)
"""Every reason code there is."""


_ROUTES: Final[Mapping[RouteReason, str]] = {
    "declared": "A skin tone {tone} ({scale}) was declared: {answered}",
    "unknown-tone": "No skin tone was declared: {answered}",
    "other-scale": "No version is for tones on the scale {scale}: {answered}",
    "no-model-for-subgroup": "No version is for skin tone {tone} ({scale}): {answered}",
    "tone-not-represented": (
        "Too few patients of skin tone {tone} ({scale}), or none, were in the calibration: {answered}"
    ),
}


def outcome(decision: Decision, quality: QualityAssessment) -> Literal["report", "refer", "retake"]:
    """The decision of a diagnosis: `retake` for a bad picture, else what the model's decision says."""
    if not quality.acceptable:
        return "retake"
    return "report" if decision.reported else "refer"


def reasons(
    decision: Decision,
    quality: QualityAssessment,
    manifest: BundleManifest,
    version: Version,
    route: RouteReason,
    parameters: Parameters,
) -> list[Reason]:
    """The reasons for the decision, then the one for the routing.

    Args:
        decision: the decision by the model's outputs.
        quality: the quality of the picture.
        manifest: the manifest of the version that answered.
        version: that version.
        route: why it was this one, as the reason of its route.
        parameters: what the request declared.
    """
    if quality.acceptable:
        found = [Reason(code=code, text=text) for code, text in _decision_reasons(decision, manifest)]
    else:
        found = [Reason(code=issue.code, text=issue.text) for issue in quality.issues if issue.bad]
    return [*found, Reason(code=route, text=_route_reason(route, version, parameters))]


def route_warnings(route: RouteReason, parameters: Parameters) -> list[str]:
    """What a clinician has to know of a route: that nothing was measured for the declared tone."""
    if route != "tone-not-represented":
        return []
    return [
        (
            f"There is no guarantee for skin tone {parameters.skin_tone} ({parameters.skin_tone_scale}): too "
            "few patients of it, or none, were in the calibration."
        )
    ]


def _decision_reasons(decision: Decision, manifest: BundleManifest) -> Sequence[tuple[ReasonCode, str]]:
    if decision.conclusion is not None:
        return [("confident", _concluded(decision.conclusion))]
    found: list[tuple[ReasonCode, str]] = []
    if manifest.refers_all:
        found.append(("refers-all", _REFERS_ALL))
    elif not decision.unfamiliar:
        found.append(("low-confidence", _NOT_SURE))
    if decision.held_back:
        found.append(("possible-malignancy", _suspicious(decision)))
    known = manifest.out_of_distribution
    if decision.unfamiliar and known is not None:
        found.append(
            (
                "unfamiliar",
                (
                    "The picture is unlike those that this version was trained on, as are at most "
                    f"{100 * known.rate:g} % of known pictures."
                ),
            )
        )
    return found


_REFERS_ALL: Final = (
    "This version concludes nothing of any picture: it was not calibrated, or no conclusion was sure enough."
)
_NOT_SURE: Final = (
    "No conclusion is sure enough for this lesion: nothing malignant, and nothing benign where malignancy is "
    "not ruled out."
)


def _concluded(conclusion: Conclusion) -> str:
    rule = conclusion.rule
    return (
        f"{conclusion.node.name} is concluded: its probability is {conclusion.probability:.3f}, and of "
        f"{rule.n} calibration lesions of which it was concluded {rule.wrong} "
        f"{'was' if rule.wrong == 1 else 'were'} something else, at most {100 * rule.risk_high:.1f} %."
    )


def _suspicious(decision: Decision) -> str:
    risk = decision.malignancy
    assert risk.probability is not None, "held back where no class is malignant"
    assert risk.threshold is not None, "held back without a working point"
    probability, threshold = _beside(risk.probability, risk.threshold)
    return (
        f"The probability of malignancy is {probability}; from {threshold} on, the working point, a lesion "
        "is suspicious, and the first finding is not malignant."
    )


def _beside(given: float, threshold: float) -> tuple[str, str]:
    """A probability and a threshold, in as many places as show on which side of it the probability lies."""
    shown = probability_text(threshold)
    for places in range(len(shown.partition(".")[2]), 13):
        rounded, limit = f"{given:.{places}f}", f"{threshold:.{places}f}"
        if (rounded >= limit) == (given >= threshold):  # texts of one length are in the order of numbers
            return rounded, limit
    return repr(given), repr(threshold)


def _route_reason(route: RouteReason, version: Version, parameters: Parameters) -> str:
    subgroup, number = version.subgroup, version.number
    if subgroup.is_global:
        answered = f"version {number}, which is for everybody, answered."
    else:
        answered = f"version {number}, which is for skin tones {subgroup.described}, answered."
    return _ROUTES[route].format(
        tone=parameters.skin_tone, scale=parameters.skin_tone_scale, answered=answered
    )


FOLLOWS: Final = 0.4
"""The least rank correlation of angle and tone from which on ranges are believed."""

LEAST: Final = 64
"""Pixels on both sides, the fewest that an angle is taken of."""

SIDE: Final = 128
"""Pixels on both sides that are enough; larger pictures are reduced."""


_CONTRADICTED: Final = (
    "The skin in the picture looks {how} than skin tone {tone} ({scale}), which was declared: more like "
    "{others}. Check what was declared. Light, white balance and camera can do the same; the answer does not "
    "depend on this."
)


def skin_angle(pixels: NDArray[np.uint8], manifest: BundleManifest) -> float | None:
    """The typology angle of the skin in a picture, degrees; None where unused, or too little skin shows.

    Args:
        pixels: the picture as the model sees it, `(size, size, 3)` RGB.
        manifest: the manifest of the version that answers.
    """
    if _reliable_ranges(manifest) is None or len(pixels) < LEAST:
        return None
    if len(pixels) > SIDE:
        pixels = np.asarray(Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BOX))
    return skin_tone_angle(pixels)


def tone_warnings(
    angle: float | None, parameters: Parameters, manifest: BundleManifest, unfamiliar: bool | None
) -> list[str]:
    """The warning that the picture looks unlike its declared tone; mostly none.

    Args:
        angle: what `skin_angle` measured.
        parameters: what was declared.
        manifest: of the version that answers.
        unfamiliar: whether the picture is unlike those trained on; None where that is not known.
    """
    if unfamiliar is not False:
        return []
    known, tone, scale = _reliable_ranges(manifest), parameters.skin_tone, parameters.skin_tone_scale
    if known is None or angle is None or tone is None or scale != known.scale:
        return []
    others = contradicted_by(angle, tone, scale, known.ranges)
    if not others:
        return []
    tones = from_dark(scale)
    how = "lighter" if tones.index(others[0]) > tones.index(tone) else "darker"
    return [_CONTRADICTED.format(how=how, tone=tone, scale=scale, others=" or ".join(others))]


def _reliable_ranges(manifest: BundleManifest) -> ToneRanges | None:
    """The bundle's ranges of angles by tone; None where its angles do not follow the tones."""
    known = manifest.tones
    return known if known is not None and known.rank_correlation >= FOLLOWS else None
