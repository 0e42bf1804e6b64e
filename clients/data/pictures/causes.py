"""Why pictures cannot be used, by cause: ten thousand missing files are one line, not ten thousand."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clients.data.pictures.files import ZIP_MARK, PictureFile, UnreadablePictureError
from clients.data.pictures.names import FolderFiles, PictureNames, files_beside, is_foreign, without_zeros

MISSING = "there is no such file"
NOT_IN_ARCHIVE = "the zip file holds no such picture"
EMPTY = "the file is empty (0 bytes); copy or export it again"
OTHER_SUFFIX = "there is no such file, but one with another suffix"
ZEROS = (
    "there is no such file, but one whose number has other leading zeros, which spreadsheets drop; format "
    "the column as text and export again"
)
SEVERAL = "several files fit the name, and none is taken; keep one, or name it exactly"
ADDRESS = "an address, from which nothing is fetched; fetch it yourself and name the file"
FOREIGN = "a Windows drive or share that is not here, and no file of that name is where the others are"
UNREADABLE = "the file cannot be read"
NOWHERE = "a link that leads nowhere; copy the picture itself"

_ADDRESS = re.compile(r"(^|/)(https?|ftps?|s3|gs|file):/", re.IGNORECASE)

# What decoders and readers say, by what tells it apart, and the cause that it is an instance of.
_CAUSES: tuple[tuple[str, str], ...] = (
    (r"no bytes at all", EMPTY),
    (r"holds no such picture", NOT_IN_ARCHIVE),
    (r"bytes end|header promises", "the picture's bytes end early; copy or export the whole file again"),
    (r"^the picture is [^;:]*, which is not read", ""),
    (r"bytes that are no picture", "no picture, whatever its name says: JPEG, PNG and WebP are read"),
    (r"does not decode", "the picture does not decode; open it elsewhere and save it anew"),
    (r"animated", ""),
    (r"pixels", "the picture has more pixels than are accepted; make a smaller copy"),
    (r"its file has", "the file is larger than any picture that is read"),
    (r"cannot be read", UNREADABLE),
)


@dataclass(frozen=True)
class UnusablePicture:
    """A picture that cannot be used.

    Attributes:
        shown: how its owner knows it.
        file: where it is.
        reason: what reading or decoding it said.
    """

    shown: str
    file: PictureFile
    reason: str


@dataclass(frozen=True)
class Cause:
    """Why a picture cannot be used: what it shares with others, and what is its own, if anything is."""

    common: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.common} ({self.detail})" if self.detail else self.common


def find_causes(pictures: Iterable[UnusablePicture]) -> list[Cause]:
    """The cause of each; for those that are missing, the files beside them are looked at."""
    beside: dict[Path, PictureNames] = {}
    causes = []
    for picture in pictures:
        if picture.reason == MISSING or "holds no such picture" in picture.reason:
            causes.append(_why_missing(picture, beside))
        else:
            causes.append(_of_reason(picture.reason))
    return causes


def by_cause(pictures: Iterable[UnusablePicture]) -> dict[str, list[str]]:
    """By cause, the most frequent first: the pictures, each with what is its own alone."""
    known = list(pictures)
    groups: dict[str, list[str]] = {}
    for picture, cause in zip(known, find_causes(known), strict=True):
        detail = f": {cause.detail}" if cause.detail else ""
        groups.setdefault(cause.common, []).append(f"{picture.shown}{detail}")
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def _of_reason(reason: str) -> Cause:
    """The cause that a reader's or decoder's words are an instance of."""
    for mark, common in _CAUSES:
        if re.search(mark, reason):
            return Cause(common, _own(reason, common)) if common else Cause(reason)
    return Cause(reason)


def _own(reason: str, common: str) -> str:
    """What `reason` says of one picture that its cause does not."""
    if common == EMPTY:
        return ""
    return reason if common == UNREADABLE else re.split("[:;] ", reason)[0]


def _why_missing(picture: UnusablePicture, beside: dict[Path, PictureNames]) -> Cause:
    """Why a file is not there, from what is."""
    file = picture.file
    if _ADDRESS.search(picture.shown):
        return Cause(ADDRESS)
    if not file.member and file.path.is_symlink():
        return Cause(NOWHERE, str(file.path.readlink()))
    container = file.path if file.member else file.path.parent
    if container not in beside:
        beside[container] = _names_in(container, archive=bool(file.member))
    name = file.member or file.path.name
    names = beside[container]
    match = names.find(name)
    if match.several:
        return Cause(SEVERAL, ", ".join(match.several))
    like = (match.place,) if match.place else names.like(name)
    if like:
        common = ZEROS if without_zeros(name, like[0]) else OTHER_SUFFIX
        return Cause(common, ", ".join(like[:2]))
    if is_foreign(picture.shown):
        return Cause(FOREIGN)
    if file.member and not file.path.is_file():
        return Cause("there is no such zip file", str(file.path))
    return Cause(NOT_IN_ARCHIVE if file.member else MISSING)


def _names_in(container: Path, *, archive: bool) -> PictureNames:
    """The files of a folder, or the members of a zip file; none where it cannot be read."""
    files = FolderFiles()
    try:
        if archive:
            files.add_members(container, container.name)
            prefix = f"{container.name}{ZIP_MARK}"
            return PictureNames([place.removeprefix(prefix) for place in files.places])
        return PictureNames(files_beside(container))
    except (OSError, UnreadablePictureError):
        return PictureNames(())


def counted(groups: Mapping[str, list[str]], examples: int) -> list[dict[str, object]]:
    """Groups for programs: cause, count and the first examples."""
    return [
        {"cause": cause, "count": len(shown), "examples": shown[:examples]} for cause, shown in groups.items()
    ]


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
    """What is dark from an edge on, and a little beside it, `(n, SIDE, SIDE)`."""
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
