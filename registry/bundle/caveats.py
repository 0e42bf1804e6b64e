"""What a clinician has to know beside a decision, one sentence each: the warnings of an answer."""

from typing import Final

from registry.bundle.cases.kinds import UNKNOWN_KIND
from registry.bundle.cases.patterns import Pattern
from registry.bundle.manifest.labels import malignant_classes
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.message import Message, Number, either

HELD_BACK: Final = Message(
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
            Message(
                "Too few pictures to tell what is unlike those the model was trained on: no picture is "
                "referred for being unfamiliar."
            ),
        )
    if not unfamiliar:
        return ()
    return (
        Message(
            "The picture is unlike the pictures the model was trained on: {rate} % or less of known pictures "
            "are as far from them. It is referred, however high a probability is.",
            rate=Number(f"{100 * known.rate:g}"),
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
        warnings.append(Message("No skin tone was declared: the model for all skin tones answered."))
    elif subgroup.is_global:
        warnings.append(
            Message(
                "The model for all skin tones answered; nothing is promised for skin tone {tone} ({scale}) "
                "by itself.",
                tone=skin_tone,
                scale=_scale(scale),
            )
        )
    if not is_for(manifest, skin_tone, scale):
        warnings.append(
            Message(
                "The model for skin tones {tones} answered; it was not calibrated for {tone} ({scale}). The "
                "prediction set holds every class and promises nothing.",
                tones=subgroup.described,
                tone=skin_tone or Message("an undeclared tone"),
                scale=_scale(scale),
            )
        )
    elif manifest.conformal.guarantee == "none":
        warnings.append(_not_promised(manifest, pattern))
    if pattern is not None and UNKNOWN_KIND in pattern.kinds and manifest.case and manifest.case.kinds:
        warnings.append(
            Message(
                "Nobody said of what kind each picture is: {kinds}. Say it where it is known.",
                kinds=either([Message(kind) for kind in manifest.case.kinds]),
            )
        )
    if not in_set:
        warnings.append(
            Message(
                "No class is likely enough for the prediction set: the picture is unlike those calibrated "
                "on. It is referred."
            )
        )
    unknown = [label.code for label in manifest.labels if label.malignancy == "unknown"]
    if unknown and malignant_classes(manifest.labels).any():
        warnings.append(
            Message(
                "Malignancy leaves out {codes}: it is not known whether they are malignant.",
                codes=", ".join(unknown),
            )
        )
    return tuple(warnings)


def _scale(scale: str | None) -> str:
    return scale or Message("no scale")


def _not_promised(manifest: BundleManifest, pattern: Pattern | None) -> Message:
    """Why the prediction set of what is given promises nothing."""
    if pattern is None:
        return Message(
            "Too few pictures to calibrate on: the prediction set holds every class and promises nothing."
        )
    if manifest.rules_of(pattern) is None:
        return Message(
            "The model was not calibrated on {pattern}: the prediction set holds every class and promises "
            "nothing.",
            pattern=pattern.as_text,
        )
    return Message(
        "Too few cases of {pattern} to calibrate on: the prediction set holds every class and promises "
        "nothing.",
        pattern=pattern.as_text,
    )
