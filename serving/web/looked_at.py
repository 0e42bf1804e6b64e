"""What the page shows of where the model looked: each picture as the model saw it, and its map over it.

The picture is a copy of what the model saw, small, where it lies in the picture as it was sent: what was cut
off is grey. It goes back to whoever sent it, within the page and nowhere else.
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from registry.bundle.pictures.rule import Placement, frame_size, pixel_box
from serving.protocol.schemas import Diagnosis

_GREY: Final = (128, 128, 128)
_LONGEST: Final = 256  # pixels of the longer side
_QUALITY: Final = 85  # of the JPEG

_PLACES: Final = (
    ("upper left", "upper middle", "upper right"),
    ("middle left", "middle", "middle right"),
    ("lower left", "lower middle", "lower right"),
)
"""Where in a picture something is, in rows and columns of three."""


@dataclass(frozen=True)
class Looked:
    """One picture and its map.

    Attributes:
        picture: its address, `data:` with the picture itself.
        overlay: that of the map.
        width: of both as they are shown, in pixels.
        height: likewise.
        strongest: where the map is strongest; None where it is nowhere.
    """

    picture: str
    overlay: str
    width: int
    height: int
    strongest: str | None


def looked_at(diagnosis: Diagnosis, pixels: NDArray[np.uint8], where: Sequence[Placement]) -> list[Looked]:
    """Each picture with its map; empty where there are no maps.

    Args:
        diagnosis: the answer.
        pixels: what the model saw, `(pictures, size, size, 3)`.
        where: where it lies in each picture.
    """
    if diagnosis.explanation is None:
        return []
    shown = []
    for one, seen, place in zip(diagnosis.explanation.maps, pixels, where, strict=False):
        width, height = frame_size(place, _LONGEST)
        content = base64.b64encode(_seen(seen, place)).decode()
        shown.append(
            Looked(
                f"data:image/jpeg;base64,{content}",
                f"data:image/png;base64,{one.png}",
                width,
                height,
                _strongest(np.array(one.grid), place),
            )
        )
    return shown


def _seen(pixels: NDArray[np.uint8], where: Placement) -> bytes:
    """What the model saw, as a JPEG of the whole picture's shape."""
    size = frame_size(where, _LONGEST)
    left, upper, right, lower = pixel_box(where, size)
    frame = Image.new("RGB", size, _GREY)
    frame.paste(Image.fromarray(pixels).resize((right - left, lower - upper)), (left, upper))
    file = io.BytesIO()
    frame.save(file, format="JPEG", quality=_QUALITY)
    return file.getvalue()


def _strongest(grid: NDArray[np.float64], where: Placement) -> str | None:
    """In which ninth of the whole picture the middle of the strongest cell is."""
    if not grid.any():
        return None
    row, column = np.unravel_index(int(grid.argmax()), grid.shape)
    left, upper, right, lower = where.box
    across = left + (right - left) * (int(column) + 0.5) / grid.shape[1]
    down = upper + (lower - upper) * (int(row) + 0.5) / grid.shape[0]
    return _PLACES[min(int(3 * down), 2)][min(int(3 * across), 2)]
