"""Warns where a picture contradicts the skin tone declared with it; the answer does not depend on it.

The angle of the skin (`registry.bundle.skin_tone`) is compared with the ranges that the bundle
learned from its own pictures. It neither changes the route nor fills in a tone: the answer is the same with
and without the warning.

It warns only where warnings were measured to be informative (docs/results/skin-tone.md). The bundle must have
ranges on the declared scale; in its pictures the angle must correlate with the tone, as it does in close-ups
(rank correlation 0.52) and does not in dermoscopic pictures (−0.04); and the picture must be like those:
on dermoscopic pictures the ranges of close-ups would warn wrongly, mostly for dark skin. Even then, most
wrong declarations go unnoticed: the absence of a warning means nothing.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from registry.bundle.manifest import BundleManifest
from registry.bundle.skin_tone import ToneRanges, contradicted_by, from_dark, skin_tone_angle
from serving.protocol.parameters import Parameters

FOLLOWS: Final = 0.4
"""The least rank correlation of angle and tone from which on ranges are believed."""

LEAST: Final = 64
"""Pixels on both sides, the fewest that an angle is taken of."""

SIDE: Final = 128
"""Pixels on both sides that are enough; larger pictures are reduced."""


_LIGHTER: Final = (
    "The skin in the picture looks lighter than skin tone {tone} ({scale}), which was declared: more like "
    "{others}. Check what was declared. Light, white balance and camera can do the same; the answer does not "
    "depend on this."
)
_DARKER: Final = (
    "The skin in the picture looks darker than skin tone {tone} ({scale}), which was declared: more like "
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
    template = _LIGHTER if tones.index(others[0]) > tones.index(tone) else _DARKER
    return [template.format(tone=tone, scale=scale, others=" or ".join(others))]


def _reliable_ranges(manifest: BundleManifest) -> ToneRanges | None:
    """The bundle's ranges of angles by tone; None where its angles do not follow the tones."""
    known = manifest.tones
    return known if known is not None and known.rank_correlation >= FOLLOWS else None
