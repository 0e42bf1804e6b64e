"""Drawing a synthetic picture: skin of a tone, light, a lesion and hair; no colour depends on the class."""

from math import cos, sin

import numpy as np
from numpy.typing import NDArray

from clients.data.synthetic.cases import Case, random_for
from clients.data.synthetic.lesion import Lesion, grow
from clients.data.synthetic.noise import Field, plane, smooth

Pixels = NDArray[np.float32]
"""Red, green and blue from 0 to 1, `(size, size, 3)`."""

SKIN = np.array(
    [[240, 208, 188], [227, 187, 158], [204, 158, 126], [168, 120, 88], [122, 80, 58], [78, 50, 40]],
    dtype=np.float32,
)
"""Mean colour of skin of Fitzpatrick type I to VI, sRGB."""

CONTRAST = (1.0, 1.0, 0.95, 0.85, 0.7, 0.55)
"""How strongly pigment shows on skin of each type."""


def draw(case: Case, size: int) -> NDArray[np.uint8]:
    """The picture of `case`, `(size, size, 3)` RGB; the same for the same case and size."""
    of_lesion = random_for(case.seed, "lesion", case.lesion)
    of_view = random_for(case.seed, "view", case.index)
    lesion = grow(case.label, of_lesion, size, case.typical)
    quarter, mirror = int(of_view.integers(4)), bool(of_view.integers(2))
    turned = Lesion(_turned(lesion.cover, quarter, mirror), _turned(lesion.pigment, quarter, mirror))
    picture = _skin(case.tone, of_lesion, of_view, size)
    picture *= _pigment(turned, CONTRAST[case.tone - 1], of_lesion)
    picture *= _light(of_view, size)
    _add_hair(picture, of_view, size)
    picture += of_view.normal(0, 0.012, (size, size, 1)).astype(np.float32)
    return np.asarray(np.clip(picture, 0, 1) * 255 + 0.5, dtype=np.uint8)


def _turned(field: Field, quarter: int, mirror: bool) -> Field:
    turned = np.rot90(field, quarter)
    return turned[:, ::-1] if mirror else turned


def _skin(tone: int, of_lesion: np.random.Generator, of_view: np.random.Generator, size: int) -> Pixels:
    """Skin with blotches and fine texture around the mean colour of its tone."""
    colour = SKIN[tone - 1] / 255 * of_lesion.normal(1, (0.03, 0.04, 0.05)).astype(np.float32)
    texture = 1 + 0.025 * smooth(of_view, size, 4) + 0.02 * smooth(of_view, size, size // 3)
    return np.asarray(texture[:, :, None] * colour, dtype=np.float32)


def _pigment(lesion: Lesion, contrast: float, random: np.random.Generator) -> Pixels:
    """The transmission of each colour through the lesion: exp(-absorption), by the strength of its pigment.

    Weak and strong pigment have hues of their own, from red to brown to blue-grey.
    """
    weakest, strongest = random.uniform(0.15, 0.4), random.uniform(0.9, 1.5)
    strength = (weakest + (strongest - weakest) * lesion.pigment ** random.uniform(0.8, 1.6)) * contrast
    weak, strong = random.uniform((0.25, 0.7, 0.7), (0.7, 1.1, 1.2), (2, 3)).astype(np.float32)
    hue = weak + (strong - weak) * lesion.pigment[:, :, None]
    return np.asarray(np.exp(-(lesion.cover * strength)[:, :, None] * hue), dtype=np.float32)


def _light(random: np.random.Generator, size: int) -> Pixels:
    """Brightness falling off to one side and to the corners, under a lamp of some colour."""
    x, y = plane(size)
    slope = random.normal(0, 0.08, 2).astype(np.float32)
    fall = 1 + slope[0] * x + slope[1] * y - random.uniform(0, 0.12) * (x * x + y * y)
    lamp = (random.uniform(0.85, 1.08) * random.normal(1, 0.04, 3)).astype(np.float32)
    return np.asarray(fall[:, :, None] * lamp, dtype=np.float32)


def _add_hair(picture: Pixels, random: np.random.Generator, size: int) -> None:
    """Draw a few bent dark hairs across `picture`, in place."""
    x, y = plane(size)
    shade = random.uniform(0.25, 0.7)
    for _ in range(min(int(random.poisson(1.5)), 6)):
        turn, offset, bend = random.uniform(0, np.pi), random.uniform(-1, 1), random.normal(0, 0.3)
        along = cos(turn) * x + sin(turn) * y
        across = cos(turn) * y - sin(turn) * x - offset - bend * along**2
        hair = np.clip(1.3 - np.abs(across) * size / 2, 0, 1)  # about one pixel to each side
        picture *= (1 - (1 - shade) * hair)[:, :, None]
