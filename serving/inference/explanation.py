"""Where the model looked: the map of the most probable class, or why there is none."""

import base64
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.manifest import BundleManifest
from registry.bundle.model import Outputs
from registry.bundle.pictures.rule import Placement, overlay_png, relevance
from serving.protocol.schemas import Explanation, PictureMap

_SWITCHED_OFF: Final = (
    "Maps are switched off in this service; its operator can set DERMFED_SERVE_EXPLAIN=true."
)
_NO_MAP: Final = "The model of this version cannot tell where it looked."


def explanation(
    outputs: Outputs, where: Sequence[Placement], manifest: BundleManifest, *, has_map: bool
) -> Explanation:
    """The maps of the most probable class, or why there are none.

    Args:
        outputs: the model's, as a batch of one.
        where: what the model saw of each picture.
        manifest: of the version that answers.
        has_map: whether its model has one, which it was asked for where the operator has switched maps on.
    """
    if outputs.map is None:
        return Explanation(code=None, maps=[], limits=[], why_not=_SWITCHED_OFF if has_map else _NO_MAP)
    chosen = int(outputs.probabilities[0].argmax())
    of_pictures = outputs.map if manifest.case is None else outputs.map[0]
    shares = relevance(of_pictures[:, chosen])
    return Explanation(
        code=manifest.labels[chosen].code,
        maps=[_of_picture(grid, one) for grid, one in zip(shares, where, strict=True)],
        limits=_limits(shares),
    )


def _of_picture(grid: NDArray[np.float64], where: Placement) -> PictureMap:
    return PictureMap(
        box=[round(edge, 6) for edge in where.box],
        grid=[[round(float(cell), 3) for cell in row] for row in grid],
        png=base64.b64encode(overlay_png(grid, where)).decode(),
    )


def _limits(shares: NDArray[np.float64]) -> list[str]:
    """What the maps do not say."""
    said = [
        "Not validated: it is not shown that this model's answers depend on where its maps point.",
        "The map shows where in the picture the answer comes from, not why. It does not say whether the "
        "answer is right.",
        f"It is coarse: {shares.shape[1]} x {shares.shape[2]} cells, and what lies between their middles is "
        "drawn smooth.",
    ]
    if not shares.any():
        said.append("Nothing in what was sent speaks for this answer more than for others.")
    return said
