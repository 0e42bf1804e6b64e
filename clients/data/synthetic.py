"""Drawing a synthetic picture: skin of a tone, light, a lesion and hair; no colour depends on the class.

Synthetic cases: the patient, tone, class and view of each synthetic picture.

Pictures come in groups of six: five lesions of four patients. The fourth patient has two lesions, and the
last lesion has two pictures. So every split has to respect both. A picture depends on (seed, index) alone,
however many are made.

The shape and pigment pattern of a synthetic lesion, which alone distinguish the classes.

The ABCD rule in caricature. Nevi are symmetric with a regular network; melanomas lopsided and ragged with
coarse patches; basal cell carcinomas round with a few nests and vessels; benign keratoses notched with fine
ridges. How *much* of the picture the lesion covers and how much pigment of which strength it holds do not
depend on the class: only the arrangement does. So its colours say nearly nothing about a lesion's class.

Writing a synthetic data set to disk: PNG files and their manifest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import cos, sin
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from clients.data.errors import ClientDataError
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import write_manifest
from clients.data.output import build_folder_once, progress

TONE_COUNTS = (2944, 4807, 3306, 2781, 1531, 634)
"""Pictures of Fitzpatrick type I to VI in Fitzpatrick17k: the dark end is rare, as in real collections."""

TYPICAL = 0.45
"""By default; the least typical lesions can hardly be told apart."""

LABEL_SHARES = {"MEL": 0.25, "NV": 0.35, "BCC": 0.2, "BKL": 0.2}

_PICTURES, _LESIONS, _PATIENTS = 6, 5, 4  # in a group


@dataclass(frozen=True)
class Case:
    """The patient, tone and class of one synthetic picture.

    Attributes:
        seed: of all pictures.
        index: the picture's number.
        lesion: the lesion's number.
        patient: the patient's number.
        view: which picture of its lesion it is, from 0.
        label: its code.
        tone: Fitzpatrick type, 1 to 6.
        typical: how typical of its class the least typical lesion is, from 0 to 1.
    """

    seed: int
    index: int
    lesion: int
    patient: int
    view: int
    label: str
    tone: int
    typical: float = TYPICAL


def case_of(seed: int, index: int, typical: float = TYPICAL) -> Case:
    """The case of picture `index`."""
    group, position = divmod(index, _PICTURES)
    lesion = group * _LESIONS + min(position, _LESIONS - 1)
    patient = group * _PATIENTS + min(position, _PATIENTS - 1)
    label = random_for(seed, "label", lesion).choice(list(LABEL_SHARES), p=list(LABEL_SHARES.values()))
    shares = np.array(TONE_COUNTS) / sum(TONE_COUNTS)
    tone = random_for(seed, "tone", patient).choice(len(shares), p=shares) + 1
    return Case(seed, index, lesion, patient, position // _LESIONS, str(label), int(tone), typical)


def random_for(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """A random generator of its own for each (seed, purpose, numbers)."""
    return np.random.default_rng([seed, int.from_bytes(purpose.encode()), *numbers])


Field = NDArray[np.float32]
"""A number per pixel, `(size, size)`."""


def smooth(random: np.random.Generator, size: int, knots: int) -> Field:
    """A field of mean 0 and standard deviation about 1 with some `knots` hills along each side.

    Independent normal numbers on a lattice, blended by cubic B-splines: B Z B^T.
    """
    blend = _splines(size, knots)
    lattice = random.standard_normal((blend.shape[1], blend.shape[1]), dtype=np.float32)
    return np.asarray(blend @ lattice @ blend.T * 2.0, dtype=np.float32)


@lru_cache(maxsize=64)
def _splines(size: int, knots: int) -> Field:
    """Values of the cubic B-splines on `knots` intervals at `size` pixel centres, `(size, knots + 3)`."""
    place = (np.arange(size) + 0.5) / size * knots
    distance = np.abs(place[:, None] - np.arange(-1, knots + 2)[None, :])
    inner = 2 / 3 - distance**2 + distance**3 / 2
    outer = np.clip(2 - distance, 0, None) ** 3 / 6
    return np.where(distance < 1, inner, outer).astype(np.float32)


@lru_cache(maxsize=16)
def plane(size: int) -> tuple[Field, Field]:
    """Coordinates of the pixels' centres, x to the right and y down, both from -1 to 1."""
    line = ((np.arange(size) + 0.5) / size * 2 - 1).astype(np.float32)
    x, y = np.meshgrid(line, line)
    return x, y


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
    drawn = kind.layout(random, depth, size)
    layout = typical * np.asarray((drawn - drawn.mean()) / (drawn.std() + 1e-6), dtype=np.float32)
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


MANIFEST = "manifest.csv"


def prefix_of(seed: int) -> str:
    """What ids begin with by default, so that two draws share none; those of seed 0 are bare."""
    return f"s{seed}-" if seed else ""


def write_synthetic(
    folder: Path, *, pictures: int, size: int, seed: int, prefix: str = "", typical: float = TYPICAL
) -> Manifest:
    """Write synthetic pictures as PNG under `folder/images`, and `folder/manifest.csv`: all, or nothing.

    Args:
        folder: an empty folder, or one that is not there yet.
        pictures: how many.
        size: pixels on both sides.
        seed: other seeds make other pictures.
        prefix: of the ids of lesions and patients, which are counted from 0 whatever the seed.
        typical: how typical of its class the least typical lesion is, from 0 to 1.

    Raises:
        ClientDataError: the folder cannot be written, or holds other files.
    """
    rows = []
    try:
        with build_folder_once(folder) as building:
            (building / "images").mkdir()
            with progress("drawing pictures", pictures) as advance:
                for index in range(pictures):
                    case = case_of(seed, index, typical)
                    rows.append(_row(case, prefix))
                    Image.fromarray(draw(case, size)).save(building / rows[-1].image, compress_level=1)
                    advance(1)
            write_manifest(Manifest.of(rows, building), building / MANIFEST)
    except OSError as error:
        raise ClientDataError(f"cannot write pictures to {folder}: {error}; name another folder") from error
    if not (folder / MANIFEST).is_file():
        raise ClientDataError(f"{folder} holds other files; name an empty or new folder")
    return Manifest.of(rows, folder)


def _row(case: Case, prefix: str) -> Row:
    return Row(
        image=f"images/{case.index:06d}.png",
        label=case.label,
        skin_tone=str(case.tone),
        skin_tone_scale="fitzpatrick",
        lesion_id=f"{prefix}L{case.lesion:06d}",
        patient_id=f"{prefix}P{case.patient:06d}",
    )
