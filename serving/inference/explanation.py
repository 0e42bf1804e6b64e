"""Where the model looked: the map of the most probable class, as an answer tells it, or why there is none."""

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from registry.bundle.manifest.map_judgement import MapJudgement
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.maps.overlay import overlay_png
from registry.bundle.maps.placement import Placement
from registry.bundle.maps.relevance import relevance
from registry.bundle.maps.verdict import judged_for
from registry.bundle.model_file.graph import Outputs
from serving.protocol.parameters import Parameters
from serving.protocol.schemas import Explanation, PictureMap


def explanation(
    outputs: Outputs,
    where: Sequence[Placement],
    manifest: BundleManifest,
    parameters: Parameters,
    why_not: str | None,
) -> Explanation:
    """The maps of the most probable class, or why there are none.

    Args:
        outputs: the model's, as a batch of one.
        where: what the model saw of each picture.
        manifest: of the version that answers.
        parameters: what the request declares.
        why_not: why the version's maps are not shown; None where they are.
    """
    if outputs.map is None or manifest.maps is None:
        return Explanation(code=None, maps=[], limits=[], why_not=why_not)
    chosen = int(outputs.probabilities[0].argmax())
    of_pictures = outputs.map if manifest.case is None else outputs.map[0]
    shares = relevance(of_pictures[:, chosen])
    return Explanation(
        code=manifest.labels[chosen].code,
        maps=[_of_picture(grid, one) for grid, one in zip(shares, where, strict=True)],
        limits=_limits(
            shares, manifest.maps, judged_for(manifest, parameters.skin_tone, parameters.skin_tone_scale)
        ),
    )


def _of_picture(grid: NDArray[np.float64], where: Placement) -> PictureMap:
    return PictureMap(
        box=[round(edge, 6) for edge in where.box],
        grid=[[round(float(cell), 3) for cell in row] for row in grid],
        png=base64.b64encode(overlay_png(grid, where)).decode(),
    )


def _limits(shares: NDArray[np.float64], judged: MapJudgement, on_this_tone: bool) -> list[str]:
    """What the maps do not say."""
    overall = judged.overall
    said = [
        (
            "The map shows where in the picture the answer comes from, not why. It does not say whether the "
            "answer is right."
        ),
        (
            f"It is coarse: {shares.shape[1]} x {shares.shape[2]} cells, and what lies between "
            "their middles is drawn smooth."
        ),
        (
            "On {n} pictures on which such maps were judged, covering where they pointed changed "
            "the answer more than covering other parts in {share} % of them."
        ).format(n=f"{overall.n:,}", share=f"{100 * overall.against_elsewhere / overall.n:.0f}"),
    ]
    if not shares.any():
        said.append("Nothing in what was sent speaks for this answer more than for others.")
    if not on_this_tone:
        said.append("On this skin tone such maps were not judged by themselves.")
    return list(said)
