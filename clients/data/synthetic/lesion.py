"""The shape and pigment pattern of a synthetic lesion, which alone distinguish the classes.

The ABCD rule in caricature. Nevi are symmetric with a regular network; melanomas lopsided and ragged with
coarse patches; basal cell carcinomas round with a few nests and vessels; benign keratoses notched with fine
ridges. How *much* of the picture the lesion covers and how much pigment of which strength it holds do not
depend on the class: only the arrangement does. So its colours say nearly nothing about a lesion's class.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import cos, sin

import numpy as np

from clients.data.synthetic.noise import Field, plane, smooth

HARMONICS = 9


@dataclass(frozen=True)
class Lesion:
    """The cover and pigment that a lesion adds to the skin.

    Attributes:
        cover: how much of each pixel is lesion, 0 to 1, `(size, size)`.
        pigment: rank of each pixel's pigment among the lesion's, 0 to 1, `(size, size)`.
    """

    cover: Field
    pigment: Field


@dataclass(frozen=True)
class Kind:
    """The appearance of one class of lesions.

    Attributes:
        lopsided: amplitude of the outline's first harmonics, relative to its radius.
        ragged: amplitude of its higher harmonics.
        layout: where the pigment lies.
    """

    lopsided: float
    ragged: float
    layout: Callable[[np.random.Generator, Field, int], Field]


def grow(label: str, random: np.random.Generator, size: int, least_typical: float) -> Lesion:
    """Draw a lesion of the class `label`, a key of `KINDS`, on `size` pixels.

    How typical it is, is drawn too, from `least_typical` to 1.
    """
    kind = KINDS[label]
    typical = random.uniform(least_typical, 1)
    distance = _outline(kind, typical, random, size)
    area = int(random.uniform(0.16, 0.34) * size * size)
    edge = np.partition(distance, area, axis=None)[area]
    depth = 1 - distance / edge
    cover = np.clip(depth / random.uniform(0.08, 0.3) + 0.5, 0, 1)
    layout = typical * _standard(kind.layout(random, depth, size))
    layout += (1.1 - typical) * smooth(random, size, 6)
    inside = np.sort(layout[depth > 0])
    pigment = np.searchsorted(inside, layout) / len(inside)
    return Lesion(cover.astype(np.float32), pigment.astype(np.float32))


def _outline(kind: Kind, typical: float, random: np.random.Generator, size: int) -> Field:
    """How far each pixel is from the centre, in units of the outline's radius in its direction.

    The radius is 1 + sum_k a_k cos(k angle + p_k), k = 1..HARMONICS, on an ellipse.
    """
    x, y = plane(size)
    turn = random.uniform(0, np.pi)
    stretch = random.uniform(0.84, 1)
    shift = random.uniform(-0.15, 0.15, 2).astype(np.float32)
    across = (cos(turn) * (x - shift[0]) + sin(turn) * (y - shift[1])) * stretch
    along = (cos(turn) * (y - shift[1]) - sin(turn) * (x - shift[0])) / stretch
    distance = np.hypot(across, along) + 1e-6
    amplitudes = np.full(HARMONICS, kind.ragged)
    amplitudes[:3] = kind.lopsided
    amplitudes *= typical
    amplitudes += 0.02
    waves = random.normal(0, amplitudes) * np.exp(1j * random.uniform(0, 2 * np.pi, HARMONICS))
    direction = ((across + 1j * along) / distance).astype(np.complex64)
    radius = np.polynomial.polynomial.polyval(
        direction, np.concatenate([[1], waves]).astype(np.complex64)
    ).real
    return np.asarray(distance / np.clip(radius, 0.35, None), dtype=np.float32)


def _standard(field: Field) -> Field:
    return np.asarray((field - field.mean()) / (field.std() + 1e-6), dtype=np.float32)


def _network(random: np.random.Generator, depth: Field, size: int) -> Field:
    """Darker towards the centre, under a regular net."""
    x, y = plane(size)
    turn, pitch = random.uniform(0, np.pi), random.uniform(20, 26)
    bend = 0.5 * smooth(random, size, 3)
    across = np.cos(pitch * (cos(turn) * x + sin(turn) * y) + bend)
    along = np.cos(pitch * (cos(turn) * y - sin(turn) * x) + bend)
    return np.asarray(1.4 * np.clip(depth, -0.5, 1) + 0.45 * across * along, dtype=np.float32)


def _patches(random: np.random.Generator, depth: Field, size: int) -> Field:
    """Coarse patches, darker to one side, with dots towards the edge."""
    x, y = plane(size)
    turn = random.uniform(0, 2 * np.pi)
    side = cos(turn) * x + sin(turn) * y
    dots = np.clip(smooth(random, size, 14) - 0.8, 0, None) * (depth < 0.4)
    return np.asarray(1.2 * side + 0.6 * smooth(random, size, 4) + 0.5 * dots, dtype=np.float32)


def _nests(random: np.random.Generator, depth: Field, size: int) -> Field:
    """A few round nests and branching vessels on an even ground."""
    x, y = plane(size)
    field = 0.15 * smooth(random, size, 3)
    for _ in range(random.integers(2, 5)):
        centre = random.uniform(-0.4, 0.4, 2).astype(np.float32)
        width = random.uniform(0.1, 0.16)
        field += 1.5 * np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / width**2)
    vessels = np.exp(-((smooth(random, size, 5) / 0.15) ** 2))
    return np.asarray(field + 0.8 * vessels, dtype=np.float32)


def _ridges(random: np.random.Generator, depth: Field, size: int) -> Field:
    """Winding ridges and pale cysts."""
    x, y = plane(size)
    turn, pitch = random.uniform(0, np.pi), random.uniform(14, 20)
    ridges = np.cos(pitch * (cos(turn) * x + sin(turn) * y) + 1.6 * smooth(random, size, 4))
    cysts = np.clip(smooth(random, size, 12) - 1.1, 0, None)
    return np.asarray(ridges - 1.5 * cysts, dtype=np.float32)


KINDS: Mapping[str, Kind] = {
    "NV": Kind(lopsided=0.02, ragged=0.0, layout=_network),
    "MEL": Kind(lopsided=0.12, ragged=0.07, layout=_patches),
    "BCC": Kind(lopsided=0.05, ragged=0.01, layout=_nests),
    "BKL": Kind(lopsided=0.03, ragged=0.05, layout=_ridges),
}
