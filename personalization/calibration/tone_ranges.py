"""Agreement of skin typology angles with declared skin tones, and the range of angles of each tone.

All is computed from sums: for each tone of one scale a histogram of angles
(`registry.bundle.skin_tone`) over fixed bins of one degree, and how many pictures gave no
answer. No angle of a single picture is among them. Intervals come from
the same sums for bootstrap replicates in which all pictures of a lesion count w ~ Poisson(1) times.

An angle has no tone of its own: scales differ, and so do cameras. Where a table of agreement needs one
(kappa, thirds), the pictures are put in order of their angle and cut so that as many get each tone as were
declared to have it. That is kind to the angle: fixed cut-offs would have to be right as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.metrics.intervals import Figure, interval, mean_defined, ratio
from registry.bundle.skin_tone import ANGLE_BINS, ToneRange, angle_bin, from_dark

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ToneAngles:
    """Histograms of angles by declared tone, as sums; with replicates both arrays have an axis in front.

    Attributes:
        scale: of the tones.
        angles: how many pictures of each tone have an angle in each bin, `([replicates,] tones, bins)`; tones
            from dark to light.
        silent: how many of each tone gave no answer, `([replicates,] tones)`.
    """

    scale: str
    angles: Counts
    silent: Counts


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; None where it is undefined."""

    value: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class ToneSummary:
    """The angles of one tone.

    Attributes:
        tone: as declared.
        pictures: how many are declared so.
        silent: how many of them have no angle.
        quartiles: of the angles, degrees, each the middle of its bin; None without angles.
        above_darker: the probability that a picture of this tone has a larger angle than one of the next
            darker tone, ties counting half: 1 for disjoint distributions, 0.5 for equal ones.
    """

    tone: str
    pictures: int
    silent: int
    quartiles: tuple[float, float, float] | None
    above_darker: Estimate


@dataclass(frozen=True)
class Agreement:
    """How well angles follow the tones of one scale.

    Attributes:
        scale: of the tones.
        pictures: how many have a declared tone.
        silent: the share of them that gave no answer.
        spearman: rank correlation of angle and lightness; 1 where lighter always means a larger angle.
        kappa: Cohen's, with squared weights, of declared tone and angle cut in the declared shares.
        right: the share of pictures in the right third (dark, medium, light) by that cut.
        balanced: the mean over the thirds of the share that is right.
        by_chance: `right` of angles that know nothing, Σ pᵢ².
        tones: each tone, from dark to light.
    """

    scale: str
    pictures: int
    silent: float | None
    spearman: Estimate
    kappa: Estimate
    right: Estimate
    balanced: Estimate
    by_chance: float | None
    tones: tuple[ToneSummary, ...]


def count_angles(
    angles: Sequence[float | None],
    tones: Sequence[str],
    scale: str,
    *,
    lesions: NDArray[np.int64] | None = None,
    replicates: int | None = None,
    seed: int = 0,
) -> ToneAngles:
    """The angle histograms of one hospital's pictures.

    Args:
        angles: of each picture, degrees; None where there is no answer.
        tones: the declared tone of each picture.
        scale: of all these tones.
        lesions: the lesion of each picture, `(pictures,)`; each its own where not given.
        replicates: how many bootstrap replicates to draw in place of the plain sums.
        seed: of the draw.

    Raises:
        ValueError: no such scale, tone or angle.
    """
    known = from_dark(scale)
    rows = np.array([known.index(tone) for tone in tones], dtype=np.int64)
    columns = np.array([ANGLE_BINS if a is None else angle_bin(a) for a in angles], dtype=np.int64)
    cells = rows * (ANGLE_BINS + 1) + columns
    size = len(known) * (ANGLE_BINS + 1)
    if replicates is None:
        sums = np.bincount(cells, minlength=size)
    else:
        owners = np.arange(len(rows)) if lesions is None else np.unique(lesions, return_inverse=True)[1]
        generator = np.random.default_rng(seed)
        drawn = generator.poisson(1.0, (replicates, int(owners.max(initial=-1)) + 1))[:, owners]
        sums = np.stack([np.bincount(cells, weights, size) for weights in drawn]).astype(np.int64)
    table = sums.reshape(*sums.shape[:-1], len(known), ANGLE_BINS + 1)
    return ToneAngles(scale, table[..., :ANGLE_BINS], table[..., ANGLE_BINS])


def learn_ranges(counts: ToneAngles, min_count: int = 10) -> dict[str, ToneRange]:
    """The range of angles of each tone that has at least `min_count` of them.

    Percentiles 1, 25, 75 and 99 of the sums, each at the outer edge of its bin. Of fewer than 100 pictures
    the outer ones are the smallest and the largest angle.
    """
    ranges = {}
    for tone, histogram in zip(from_dark(counts.scale), counts.angles, strict=True):
        n = int(histogram.sum())
        if n >= max(min_count, 1):
            low, lower, upper, high = (_quantile_bin(histogram, share) for share in (0.01, 0.25, 0.75, 0.99))
            ranges[tone] = ToneRange(
                n=n, low=low - 90, lower_quartile=lower - 90, upper_quartile=upper - 89, high=high - 89
            )
    return ranges


def agreement(counts: ToneAngles, drawn: ToneAngles | None = None) -> Agreement:
    """The agreement of angles with declared tones; of the scale's tones as many are dark, medium and light.

    Args:
        counts: the sums.
        drawn: the same for bootstrap replicates, for intervals.
    """
    tones = from_dark(counts.scale)
    third = np.round(np.arange(len(tones)) * 2 / (len(tones) - 1)).astype(np.int64)
    table = counts.angles

    def estimates(figure: Callable[[Counts], Figure]) -> list[Estimate]:
        """One for each element of the figure, `(...)`; of replicates, `(replicates, ...)`."""
        values = np.atleast_1d(figure(table))
        if drawn is None:
            return [Estimate(_defined(value), None) for value in values]
        replicates = figure(drawn.angles).reshape(-1, len(values))
        return [
            Estimate(_defined(value), interval(column))
            for value, column in zip(values, replicates.T, strict=True)
        ]

    spreads = zip(
        tones,
        table,
        counts.silent,
        [Estimate(None, None), *estimates(_above_darker)],
        strict=True,
    )
    shares = np.bincount(third, ratio(table.sum(axis=-1), table.sum()))
    pictures = counts.silent.sum() + table.sum()
    return Agreement(
        scale=counts.scale,
        pictures=int(pictures),
        silent=_defined(ratio(counts.silent.sum(), pictures)),
        spearman=estimates(_spearman)[0],
        kappa=estimates(lambda table: _kappa(_confusion(table)))[0],
        right=estimates(lambda table: _right(_confusion(table), third))[0],
        balanced=estimates(lambda table: _balanced(_confusion(table), third))[0],
        by_chance=_defined((shares**2).sum()),
        tones=tuple(
            ToneSummary(tone, int(histogram.sum() + mute), int(mute), _quartiles(histogram), above)
            for tone, histogram, mute, above in spreads
        ),
    )


def _defined(value: Figure | np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


def _quantile_bin(histogram: Counts, share: float) -> int:
    """The lowest bin up to which at least this share of the pictures lie."""
    return int(np.searchsorted(histogram.cumsum(), share * histogram.sum() - 1e-9))


def _quartiles(histogram: Counts) -> tuple[float, float, float] | None:
    if not histogram.sum():
        return None
    low, middle, high = (_quantile_bin(histogram, share) - 89.5 for share in (0.25, 0.5, 0.75))
    return low, middle, high


def _mid_ranks(counts: Counts) -> Figure:
    """The mean rank of what ties in each place, less the mean of all ranks, `(..., places)`."""
    ranks = counts.cumsum(axis=-1) - counts / 2
    return np.asarray(ranks - counts.sum(axis=-1, keepdims=True) / 2, dtype=np.float64)


def _spearman(table: Counts) -> Figure:
    """Pearson's correlation of the mid-ranks; nan where tones or angles are all the same."""
    tones, angles = table.sum(axis=-1), table.sum(axis=-2)
    x, y = _mid_ranks(tones), _mid_ranks(angles)
    both = np.einsum("...tb,...t,...b->...", table, x, y)
    return ratio(both, np.sqrt((tones * x**2).sum(axis=-1) * (angles * y**2).sum(axis=-1)))


def _confusion(table: Counts) -> Counts:
    """Declared tones against angles cut in the declared shares, `(..., tones, tones)`.

    A bin gets the tone within whose share of all pictures its middle rank falls.
    """
    tones, angles = table.sum(axis=-1), table.sum(axis=-2)
    middle = angles.cumsum(axis=-1) - angles / 2
    given = (middle[..., :, np.newaxis] >= tones.cumsum(axis=-1)[..., np.newaxis, :-1]).sum(axis=-1)
    chosen = given[..., :, np.newaxis] == np.arange(table.shape[-2])
    return np.asarray(table @ chosen.astype(np.int64), dtype=np.int64)


def _kappa(confusion: Counts) -> Figure:
    """Cohen's kappa, 1 − Σ w O / Σ w E with w = (i − j)², of what is observed and the margins alone give."""
    places = np.arange(confusion.shape[-1])
    weights = (places[:, np.newaxis] - places) ** 2
    rows, columns = confusion.sum(axis=-1), confusion.sum(axis=-2)
    expected = rows[..., :, np.newaxis] * columns[..., np.newaxis, :]
    observed = (weights * confusion).sum(axis=(-2, -1)) * confusion.sum(axis=(-2, -1))
    return 1 - ratio(observed, (weights * expected).sum(axis=(-2, -1)))


def _by_third(confusion: Counts, third: Counts) -> Counts:
    member = (third[:, np.newaxis] == np.arange(third.max() + 1)).astype(np.int64)
    return np.asarray(member.T @ confusion @ member, dtype=np.int64)


def _right(confusion: Counts, third: Counts) -> Figure:
    folded = _by_third(confusion, third)
    return ratio(np.trace(folded, axis1=-2, axis2=-1), folded.sum(axis=(-2, -1)))


def _balanced(confusion: Counts, third: Counts) -> Figure:
    folded = _by_third(confusion, third)
    return mean_defined(ratio(np.diagonal(folded, axis1=-2, axis2=-1), folded.sum(axis=-1)))


def _above_darker(table: Counts) -> Figure:
    """P(angle of a tone > angle of the next darker) + P(equal) / 2, `(..., tones − 1)`."""
    darker, lighter = table[..., :-1, :], table[..., 1:, :]
    below = darker.cumsum(axis=-1) - darker / 2
    pairs = darker.sum(axis=-1) * lighter.sum(axis=-1)
    return ratio((lighter * below).sum(axis=-1), pairs)
