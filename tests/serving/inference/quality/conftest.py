"""Pictures of a lesion on skin, made by hand."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]


@pytest.fixture(scope="session")
def lesion() -> Callable[..., Pixels]:
    """A sharp lesion in the middle of skin with some texture, as a model sees it."""

    def paint(skin: tuple[int, int, int] = (196, 150, 122), size: int = 128, shine: float = 1.25) -> Pixels:
        drawn = np.random.default_rng(0)
        across = (np.arange(size) + 0.5) / size * 2 - 1
        away = np.hypot(across[:, None], across)
        level = np.where(away < 0.35, 0.5, 1.0) * drawn.normal(1, 0.04, (size, size))
        level[::16, ::16] *= shine  # a few reflections
        picture = np.clip(level[..., None] * np.array(skin), 0, 255)
        return picture.round().astype(np.uint8)

    return paint
