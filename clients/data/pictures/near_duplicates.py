"""Finding near-duplicates: pictures that were saved, resized or cropped anew.

Two looks. All pairs are compared by their hashes, in blocks that stay in the processor's cache: candidates
are those of which one's hash differs from that of a window of the other in at most `RADIUS` bits. These are
looked at again (`clients.data.pictures.causes`), and those that are alike are near-duplicates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from clients.data.errors import MissingLibraryError
from clients.data.pictures.causes import SIDE, likeness

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
