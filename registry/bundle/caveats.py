"""What a clinician has to know beside a decision, one sentence each: the warnings of an answer."""

from typing import Final

from registry.bundle.cases.kinds import UNKNOWN_KIND
from registry.bundle.cases.patterns import Pattern
from registry.bundle.manifest.labels import malignant_classes
from registry.bundle.manifest.schema import BundleManifest

HELD_BACK: Final = (
    "The first finding is not malignant, but the probability of malignancy reaches the working point: it is "
    "not ruled out, and the picture is referred."
)


def is_for(manifest: BundleManifest, skin_tone: str | None, scale: str | None) -> bool:
    """Whether a version is for people of a skin tone: of its subgroup, and represented in its calibration."""
    subgroup = manifest.subgroup
    return subgroup.is_global or manifest.represents(subgroup, skin_tone, scale)


def familiarity_caveats(manifest: BundleManifest, unfamiliar: bool | None) -> tuple[str, ...]:
    """What has to be known of a picture that is unlike those trained on; `unfamiliar` as in `Decision`."""
    known = manifest.out_of_distribution
    if known is None:
        return ()
    if known.threshold_bin is None:
        return (
            (
                "Too few pictures to tell what is unlike those the model was trained on: no picture is "
                "referred for being unfamiliar."
            ),
        )
    if not unfamiliar:
        return ()
    return (
        (
            f"The picture is unlike the pictures the model was trained on: {100 * known.rate:g} % or less of "
            "known pictures are as far from them. It is referred, however high a probability is."
        ),
    )


def caveats(
    manifest: BundleManifest,
    in_set: tuple[str, ...],
    skin_tone: str | None,
    scale: str | None,
    pattern: Pattern | None,
) -> tuple[str, ...]:
    """What has to be known of the prediction set, of who answered, and of the malignancy.

    Args:
        manifest: of the version that answers, under the rules of the pattern.
        in_set: codes in the prediction set.
        skin_tone: the declared skin tone, if any.
        scale: the scale it was declared on.
        pattern: what is given of a case; None for a model of single pictures.
    """
    subgroup = manifest.subgroup
    warnings: list[str] = []
    if subgroup.is_global and skin_tone is None:
        warnings.append("No skin tone was declared: the model for all skin tones answered.")
    elif subgroup.is_global:
        warnings.append(
            f"The model for all skin tones answered; nothing is promised for skin tone {skin_tone} "
            f"({_scale(scale)}) by itself."
        )
    if not is_for(manifest, skin_tone, scale):
        warnings.append(
            (
                "The model for skin tones {tones} answered; it was not calibrated for {tone} ({scale}). The "
                "prediction set holds every class and promises nothing."
            ).format(tones=subgroup.described, tone=skin_tone or "an undeclared tone", scale=_scale(scale))
        )
    elif manifest.conformal.guarantee == "none":
        warnings.append(_not_promised(manifest, pattern))
    if pattern is not None and UNKNOWN_KIND in pattern.kinds and manifest.case and manifest.case.kinds:
        warnings.append(
            f"Nobody said of what kind each picture is: {' or '.join(manifest.case.kinds)}. Say it where it "
            "is known."
        )
    if not in_set:
        warnings.append(
            "No class is likely enough for the prediction set: the picture is unlike those calibrated on. It "
            "is referred."
        )
    unknown = [label.code for label in manifest.labels if label.malignancy == "unknown"]
    if unknown and malignant_classes(manifest.labels).any():
        warnings.append(
            "Malignancy leaves out {codes}: it is not known whether they are malignant.".format(
                codes=", ".join(unknown)
            )
        )
    return tuple(warnings)


def _scale(scale: str | None) -> str:
    return scale or "no scale"


def _not_promised(manifest: BundleManifest, pattern: Pattern | None) -> str:
    """Why the prediction set of what is given promises nothing."""
    if pattern is None:
        return "Too few pictures to calibrate on: the prediction set holds every class and promises nothing."
    if manifest.rules_of(pattern) is None:
        return (
            f"The model was not calibrated on {pattern.as_text}: the prediction set holds every class and "
            "promises nothing."
        )
    return (
        f"Too few cases of {pattern.as_text} to calibrate on: the prediction set holds every class and "
        "promises nothing."
    )
