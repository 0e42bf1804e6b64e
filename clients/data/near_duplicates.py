"""Finding near-duplicates: pictures that were saved again, resized or cropped.

Two looks. All pairs are compared by their hashes, in blocks that stay in the processor's cache: candidates
are those of which one's hash differs from that of a window of the other in at most `RADIUS` bits. These are
looked at again (`clients.data.picture_names`), and those that are alike are near-duplicates.

Fingerprints of pictures, by which near-duplicates are found: perceptual hashes and a small grey copy.

The hash is ImageHash's `phash` of 256 bits: of the discrete cosine transform of a 64 x 64 grey copy, which of
the 16 x 16 lowest frequencies are above their median (Zauner 2010). A picture that was saved again or resized
differs in few bits, one that was cropped in many; so windows of a picture are hashed as well, and a crop is
met by the window that is nearest to it.

Fingerprints are made of decoded squares, such as the cache holds, in any size. They show a picture, if
coarsely: they stay where the pictures are.

How alike two small grey pictures are in their details, the one laid over a part of the other.

A dark spot in the middle of light skin is all that many pictures of skin show at first glance, and two of
them correlate at 0.97. So what is compared is local: each pixel less the mean around it, over the contrast
around it,

    d = (x − G x) / sqrt(G (x − G x)² + f²),   G a Gaussian mean, f the contrast of noise,

in which a faint texture of skin counts as much as the rim of a lesion. Where a picture is dark from its edge
on, as around what a dermatoscope shows, d is 0: that rim is the same in all pictures of one device. Likeness
is the correlation of both pictures' d. A crop is first laid over the picture it may be of: the part (top,
height, left, width) that fits best is found by Gauss-Newton steps from a first guess (Lucas & Kanade 1981).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from clients.data.errors import MissingLibraryError

Real = NDArray[np.float32]

SIDE = 48
"""Pixels on both sides of the pictures that are compared."""

_NEAR = 3.0  # standard deviation of G, pixels of SIDE
_NOISE = 2.0  # f, grey levels: what is fainter may come from saving anew
_DARK = 0.6  # of the brightness of skin: what is darker, from the edge on, is no skin
_BRIGHT = 90  # the percentile of grey levels that stands for the brightness of skin
_BESIDE = 4  # pixels of SIDE beside the dark rim, in which it fades
_STEPS = 4
_STEP = 0.03  # the most that one step moves an edge, shares of the picture
_PROMISING = 0.25  # a first guess whose details correlate less leads nowhere
_TINY = 1e-6
_ROUNDING = 0.05  # grey levels that float32 may leave of a mean: a picture of no more than that is empty


def likeness(copies: NDArray[np.uint8], others: NDArray[np.uint8], parts: NDArray[np.float64]) -> Real:
    """How alike the details of pairs of pictures are, `(pairs,)`: 1 the same, 0 nothing in common.

    Args:
        copies: those that may be of a part of the other, `(pairs, SIDE, SIDE)`.
        others: the other ones, likewise.
        parts: first guesses of which part of the other, `(pairs, 4)`: top, height, left, width, in shares.
    """
    wanted, whole = detail(copies), detail(others)
    found = _correlation(wanted, _unit(_part(whole, parts)))
    promising = np.flatnonzero(found >= _PROMISING)
    if len(promising):
        guess, seen = parts[promising], others[promising].astype(np.float32)
        fitted = _fit(wanted[promising], whole[promising], guess)
        for places in (guess, fitted):
            told = _correlation(wanted[promising], detail(_part(seen, places)))
            found[promising] = np.maximum(found[promising], told)
    return found


def detail(pictures: NDArray[np.generic]) -> Real:
    """The details d of pictures `(n, SIDE, SIDE)`, of mean 0 and length 1; of an empty picture 0."""
    x = pictures.astype(np.float32)
    rest = np.asarray(np.where(_rim(x), 0, x - _mean_around(x)), dtype=np.float32)
    # Else the rounding of an empty picture would be brought to length 1, and be like that of another.
    rest = np.where(np.abs(rest).max(axis=(1, 2), keepdims=True) < _ROUNDING, np.float32(0), rest)
    around = np.sqrt(np.maximum(_mean_around(rest**2), 0) + np.float32(_NOISE**2))
    return _unit(np.asarray(rest / around, dtype=np.float32))


def _mean_around(x: Real) -> Real:
    """G x, by a product with G along each side; beyond the edges the picture is repeated."""
    return np.asarray(_GAUSS @ x @ _GAUSS.T, dtype=np.float32)


def _rim(x: Real) -> NDArray[np.bool_]:
    """What is dark from an edge on, with a small margin, `(n, SIDE, SIDE)`."""
    dark = x < _DARK * np.percentile(x, _BRIGHT, axis=(1, 2), keepdims=True)
    rim = np.zeros_like(dark)
    for axis in (1, 2):
        rim |= np.logical_and.accumulate(dark, axis=axis)
        rim |= np.flip(np.logical_and.accumulate(np.flip(dark, axis), axis=axis), axis)
    beside: NDArray[np.bool_] = _BAND @ rim.astype(np.float32) @ _BAND > 0.5
    return beside


def _gauss() -> Real:
    places = np.arange(-int(4 * _NEAR), int(4 * _NEAR) + 1)
    weights = np.exp(-(places**2) / (2 * _NEAR**2))
    matrix = np.zeros((SIDE, SIDE))
    for row in range(SIDE):
        np.add.at(matrix[row], np.clip(row + places, 0, SIDE - 1), weights / weights.sum())
    return np.asarray(matrix, dtype=np.float32)


_GAUSS = _gauss()
_BAND = (np.abs(np.subtract.outer(np.arange(SIDE), np.arange(SIDE))) <= _BESIDE).astype(np.float32)
_CENTRES = (np.arange(SIDE) + 0.5) / SIDE  # of pixels, shares of the picture


def _unit(x: Real) -> Real:
    x = x - x.mean(axis=(1, 2), keepdims=True)
    length = np.sqrt((x**2).sum(axis=(1, 2), keepdims=True))
    unit: Real = x / (length + np.float32(_TINY))
    return unit


def _correlation(x: Real, y: Real) -> Real:
    products: Real = (x * y).sum(axis=(1, 2))
    return products


def _part(x: Real, parts: NDArray[np.float64]) -> Real:
    """A part of each picture in full size, linear between pixels, `(pairs, SIDE, SIDE)`."""
    rows, columns = _weights(parts[:, 0], parts[:, 1]), _weights(parts[:, 2], parts[:, 3])
    return np.asarray(rows @ x @ columns.transpose(0, 2, 1), dtype=np.float32)


def _weights(start: NDArray[np.float64], length: NDArray[np.float64]) -> Real:
    """What each pixel of a part takes of those of the picture along one side, `(pairs, SIDE, SIDE)`."""
    places = (start[:, np.newaxis] + length[:, np.newaxis] * _CENTRES) * SIDE - 0.5
    distance = np.abs(np.clip(places, 0, SIDE - 1)[:, :, np.newaxis] - np.arange(SIDE))
    return np.asarray(np.maximum(0, 1 - distance), dtype=np.float32)


def _fit(wanted: Real, whole: Real, guess: NDArray[np.float64]) -> NDArray[np.float64]:
    """The parts of `whole` that come nearest to `wanted`, `(pairs, 4)`.

    With w(u) = x(start + length u), dw/d start = w'(u) / length and dw/d length = u w'(u) / length.
    """
    parts = guess.copy()
    for _ in range(_STEPS):
        seen = _unit(_part(whole, parts))
        down, right = np.gradient(seen, 1 / SIDE, axis=(1, 2))
        down, right = (
            (slope / parts[:, place, np.newaxis, np.newaxis]).astype(np.float32)
            for slope, place in ((down, 1), (right, 3))
        )
        slopes = np.stack(
            [down, down * _CENTRES[:, np.newaxis], right, right * _CENTRES], axis=-1, dtype=np.float32
        ).reshape(len(parts), -1, 4)
        missing = (wanted - seen).reshape(len(parts), -1, 1)
        normal = (slopes.transpose(0, 2, 1) @ slopes).astype(np.float64)
        damping = 1e-3 * np.trace(normal, axis1=1, axis2=2) / 4 + _TINY
        normal += damping[:, np.newaxis, np.newaxis] * np.eye(4)
        step = np.linalg.solve(normal, (slopes.transpose(0, 2, 1) @ missing).astype(np.float64))
        parts += np.clip(step[..., 0], -_STEP, _STEP)
    return parts


DECODED = 128
"""Pixels on both sides of the squares that are decoded for fingerprints alone."""

CROP = 0.05
"""The share of width and height by which the windows are smaller than the picture."""

_PLACES = (CROP / 2, CROP / 2), (0.0, 0.0), (0.0, CROP), (CROP, 0.0), (CROP, CROP)
WINDOWS = ((0.0, 0.0, 1.0, 1.0), *((left, top, left + 1 - CROP, top + 1 - CROP) for left, top in _PLACES))
"""The parts that are hashed: left, top, right, bottom, in shares of the picture. The first is all of it."""

_BITS = 16  # the hash is of 16 x 16 bits
_HASHED = 64  # pixels on both sides of what `phash` transforms


@dataclass(frozen=True)
class Fingerprints:
    """The fingerprints of n pictures.

    Attributes:
        hashes: of each window, `(n, windows, 4)` uint64, 256 bits each.
        copies: small and grey, `(n, SIDE, SIDE)` uint8.
    """

    hashes: NDArray[np.uint64]
    copies: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.hashes)

    @classmethod
    def joined(cls, many: Sequence["Fingerprints"]) -> "Fingerprints":
        """Several, one after the other."""
        hashes = [np.zeros((0, len(WINDOWS), 4), dtype=np.uint64), *(each.hashes for each in many)]
        copies = [np.zeros((0, SIDE, SIDE), dtype=np.uint8), *(each.copies for each in many)]
        return cls(np.concatenate(hashes), np.concatenate(copies))


def can_fingerprint() -> bool:
    """Whether the library that hashes is installed."""
    return find_spec("imagehash") is not None


def require_hashing() -> None:
    """Refuse to go on without the library that hashes.

    Raises:
        MissingLibraryError: it is not installed.
    """
    if not can_fingerprint():
        raise MissingLibraryError(
            "near-duplicates are found with ImageHash, which is not installed; install it with "
            "`pip install ImageHash`, or all that training needs with `pip install dermfed[train]`"
        )


def fingerprint(pixels: NDArray[np.uint8]) -> Fingerprints:
    """The fingerprint of one picture, as `Fingerprints` of one.

    Args:
        pixels: RGB, `(height, width, 3)`; decoded to a square.

    Raises:
        MissingLibraryError: the library that hashes is not installed.
    """
    require_hashing()
    from imagehash import phash

    grey = Image.fromarray(pixels).convert("L")
    width, height = grey.size
    hashes = []
    for left, top, right, bottom in WINDOWS:
        box = (left * width, top * height, right * width, bottom * height)
        window = grey.resize((_HASHED, _HASHED), Image.Resampling.LANCZOS, box=box)
        hashes.append(np.packbits(phash(window, hash_size=_BITS).hash).view(np.uint64))
    copy = grey.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return Fingerprints(np.array([hashes]), np.asarray(copy, dtype=np.uint8)[np.newaxis])


RADIUS = 64
"""Bits of 256 in which the hashes of candidates may differ."""

ALIKE = 0.8
"""The likeness from which on a pair is called near-duplicate; see docs/results/near-duplicates.md."""

_ROWS, _COLUMNS = 32, 8192  # hashes that are compared at once
_PAIRS = 512  # candidates that are looked at again at once


@dataclass(frozen=True, order=True)
class NearDuplicate:
    """Two pictures that are near-duplicates.

    Attributes:
        first: the place of one.
        second: of the other, later.
        likeness: of their details, `ALIKE` to 1.
    """

    first: int
    second: int
    likeness: float


def find_near_duplicates(
    fingerprints: Fingerprints, *, radius: int = RADIUS, alike: float = ALIKE
) -> list[NearDuplicate]:
    """All pairs of near-duplicates, in the order of their places.

    Time grows with the square of the number of pictures: 10,000 take seconds, 100,000 minutes.

    Args:
        fingerprints: of the pictures.
        radius: bits in which the hashes of candidates may differ.
        alike: the least likeness.
    """
    found: dict[tuple[int, int], float] = {}
    for first, second, windows in _candidates(fingerprints.hashes, radius):
        told = likeness(fingerprints.copies[first], fingerprints.copies[second], _PARTS[windows])
        for place in np.flatnonzero(told >= alike):
            pair = min(first[place], second[place]), max(first[place], second[place])
            found[pair] = max(found.get(pair, 0.0), float(told[place]))
    return sorted(NearDuplicate(int(a), int(b), min(told, 1.0)) for (a, b), told in found.items())


# The windows as parts: top, height, left, width.
_PARTS = np.array([(top, bottom - top, left, right - left) for left, top, right, bottom in WINDOWS])

_Block = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _candidates(hashes: NDArray[np.uint64], radius: int) -> Iterator[_Block]:
    """Pictures i, j and the window of j that is nearest to all of i, in blocks; also those of j and i."""
    pictures, windows, words = hashes.shape
    whole = np.ascontiguousarray(hashes[:, 0].T)
    others = np.ascontiguousarray(hashes.reshape(-1, words).T)
    width = _COLUMNS // windows * windows
    for top in range(0, pictures, _ROWS):
        for left in range(0, pictures * windows, width):
            differ = _differ(whole[:, top : top + _ROWS], others[:, left : left + width])
            near = (differ <= radius).nonzero()
            if not len(near[0]):
                continue
            by_window = differ.reshape(len(differ), -1, windows)
            rows, columns = (by_window.min(axis=2) <= radius).nonzero()
            first, second = rows + top, columns + left // windows
            nearest = by_window[rows, columns].argmin(axis=1)
            other = first != second
            block = first[other], second[other], nearest[other]
            for start in range(0, len(block[0]), _PAIRS):
                end = start + _PAIRS
                yield block[0][start:end], block[1][start:end], block[2][start:end]


def _differ(some: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """In how many bits hashes differ, `(some, others)`; hashes are `(words, n)`."""
    differ = np.zeros((some.shape[1], others.shape[1]), dtype=np.uint16)
    for mine, theirs in zip(some, others, strict=True):
        differ += np.bitwise_count(mine[:, np.newaxis] ^ theirs)
    return differ
