"""Fingerprints of pictures, by which near-duplicates are found: perceptual hashes and a small grey copy.

The hash is ImageHash's `phash` of 256 bits: of the discrete cosine transform of a 64 x 64 grey copy, which of
the 16 x 16 lowest frequencies are above their median (Zauner 2010). A picture that was saved or resized anew
differs in few bits, one that was cropped in many; so windows of a picture are hashed as well, and a crop is
met by the window that is nearest to it.

Fingerprints are made of decoded squares, such as the cache holds, in any size. They show a picture, if
coarsely: they stay where the pictures are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from clients.data.errors import MissingLibraryError
from clients.data.pictures.detail import SIDE

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
