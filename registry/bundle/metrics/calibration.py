"""Calibration metrics and their limits: does confidence match how often answers are right?

ECE and MCE are those of paper 002, equations 13 and 14. Confidence is the highest probability, seen as the
middle of its bin.

A spread, a gap, a standard deviation, a calibration error: each is a **distance**, a size T(v) of a vector of
independent parts (accuracies, or gaps between confidence and accuracy), with T(v + w) ≤ T(v) + T(w). It is
never below 0 and grows with noise: noise e in the parts makes T(v + e) larger than T(v) on average, and where
v = 0 all of it is noise. Since T(v̂) ≤ T(v) + T(v̂ − v),

    low = max(0, T(v̂) − Q_0.95[T(e)]),

with e drawn from normal distributions that have the parts' limits as their 0.025- and 0.975-quantiles. T(v)
is the largest of some linear forms of v; T(v̂) is at least what the one is at v̂ that is T at v, so that an
upper limit which is valid for each of them is valid for T.

The parts of the calibration errors are acc(B_v) − conf(B_v) in the bins of the reliability diagram, with the
exact limits of acc(B_v).

- ECE = Σ_v |B_v|/n |acc(B_v) − conf(B_v)| is at least |acc − conf| of all pictures, which has exact limits.
  Its upper limit is that of this one or of the form that ECE has near what was seen, whichever is higher: acc
  − conf of the bins that are too little confident, and conf − acc of the others, two proportions (MOVER).
- MCE is the largest part: its upper limit is the farthest limit of any.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts import Counts
from registry.bundle.metrics.intervals import Figure, Limits, Sample, Z, exact_limits, ratio

RELIABILITY_BINS = 15


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: one entry per bin B_v, every array `(..., bins)`.

    Attributes:
        lower: the lowest confidence of the bin; nan for an empty bin, as in the next three.
        upper: the highest confidence of the bin.
        confidence: conf(B_v), the mean confidence.
        accuracy: acc(B_v), the share of right answers.
        n: |B_v|, the number of pictures.
    """

    lower: Figure
    upper: Figure
    confidence: Figure
    accuracy: Figure
    n: NDArray[np.int64]


def reliability(counts: Counts, bins: int = RELIABILITY_BINS) -> Reliability:
    """Mean confidence against accuracy in `bins` bins of equally many pictures.

    They cannot divide the pictures of one score bin, so they are as equal as whole score
    bins allow: a score bin belongs to the v-th part of the pictures in which its middle picture lies.
    """
    scale = counts.bins
    total = counts.confidence.sum(axis=-2)
    n = total.sum(axis=-1, keepdims=True)
    middle_twice = 2 * np.cumsum(total, axis=-1) - total
    part = np.minimum(middle_twice * bins // np.maximum(2 * n, 1), bins - 1)
    member = (part[..., np.newaxis, :] == np.arange(bins)[:, np.newaxis]) & (total > 0)[..., np.newaxis, :]

    size = (member * total[..., np.newaxis, :]).sum(axis=-1)
    right = (member * counts.confidence[..., np.newaxis, 1, :]).sum(axis=-1)
    confidence = (member * (total * scale.middles)[..., np.newaxis, :]).sum(axis=-1)
    first, last = member.argmax(axis=-1), len(scale) - member[..., ::-1].argmax(axis=-1)
    return Reliability(
        lower=np.where(size > 0, scale.edges[first], np.nan),
        upper=np.where(size > 0, scale.edges[last], np.nan),
        confidence=ratio(confidence, size),
        accuracy=ratio(right, size),
        n=size,
    )


def ece(counts: Counts, bins: int = RELIABILITY_BINS) -> Figure:
    """Expected calibration error, sum_v |B_v| / s |acc(B_v) - conf(B_v)| with s all pictures (Eq. 13)."""
    diagram = reliability(counts, bins)
    gaps = np.abs(diagram.accuracy - diagram.confidence)
    return ratio(np.where(diagram.n > 0, diagram.n * gaps, 0.0).sum(axis=-1), diagram.n.sum(axis=-1))


def mce(counts: Counts, bins: int = RELIABILITY_BINS) -> Figure:
    """Maximum calibration error, max_v |acc(B_v) - conf(B_v)| (Eq. 14)."""
    diagram = reliability(counts, bins)
    gaps = np.where(diagram.n > 0, np.abs(diagram.accuracy - diagram.confidence), -1.0).max(axis=-1)
    return np.where(diagram.n.sum(axis=-1) > 0, gaps, np.nan)


_DRAWS = 1000
_AT_ONCE = 25  # of them; all of those of a thousand clients would take a quarter of a gigabyte
_LEVEL = 0.95

Size = Callable[[Figure], Figure]
"""T, along the last axis: `(..., parts)` to `(...)`."""


@dataclass(frozen=True)
class Distance:
    """A size of a vector of parts.

    Attributes:
        size: T.
        parts: v̂ with the limits of each part, `(..., parts)`.
        high: the upper limit of T, `(...)`.
        floor: a lower limit of T that is known besides, `(...)`.
    """

    size: Size
    parts: Limits
    high: Figure
    floor: Figure | float = 0.0

    @property
    def value(self) -> Figure:
        """T(v̂), `(...)`."""
        return self.size(self.parts.value)

    def limits(self) -> Limits:
        """T(v̂) and its limits, `(...)`; the same parts always give the same."""
        sizes = np.concatenate([self.size(errors) for errors in drawn_in_turn(self.parts)])
        noise = np.quantile(sizes, _LEVEL, axis=0)
        low = np.maximum(self.value - noise, self.floor)
        return Limits(self.value, np.where(np.isnan(self.value), np.nan, low), self.high)


def drawn(parts: Limits) -> Figure:
    """Draws of e, `(draws, ..., parts)`."""
    return np.concatenate(list(drawn_in_turn(parts)))


def drawn_in_turn(parts: Limits) -> Iterator[Figure]:
    """The same draws, some of them at once."""
    random = np.random.Generator(np.random.PCG64(0))
    above, below = ((parts.high - parts.value) / Z, (parts.value - parts.low) / Z)
    for _ in range(0, _DRAWS, _AT_ONCE):
        normal = random.standard_normal((_AT_ONCE, *parts.value.shape))
        yield np.where(normal > 0, above, below) * normal


def mean_distance(several: Sequence[Distance]) -> Distance:
    """The mean of distances with parts of their own `(parts,)`, which is one too."""
    places = np.cumsum([each.parts.value.shape[-1] for each in several])[:-1]

    def size(vector: Figure) -> Figure:
        pieces = np.split(vector, places, axis=-1)
        return np.asarray(
            np.mean([of.size(piece) for of, piece in zip(several, pieces, strict=True)], axis=0)
        )

    joined = (
        np.concatenate([getattr(each.parts, name) for each in several], axis=-1)
        for name in ("value", "low", "high")
    )
    value = np.mean([each.value for each in several], axis=0)
    above = np.sqrt(np.sum([(each.high - each.value) ** 2 for each in several], axis=0)) / len(several)
    return Distance(size, Limits(*joined), value + above)


class _Diagram:
    """A reliability diagram of independent pictures, every array `(..., bins)` and without nan.

    Attributes:
        n: pictures of each bin, as many as independent ones.
        right: those of them that are answered rightly.
        share: of all pictures.
        confidence: the mean confidence.
    """

    def __init__(self, sample: Sample[Counts]) -> None:
        found = reliability(sample.counts)
        held = found.n > 0
        support = sample.counts.confusion.sum(axis=-1).astype(np.float64)
        self.n = found.n / sample.effect.of_pictures(support)[..., np.newaxis]
        self.right = np.where(held, found.accuracy, 0.0) * self.n
        self.confidence = np.where(held, found.confidence, 0.0)
        self.share = ratio(found.n, found.n.sum(axis=-1, keepdims=True))
        accuracy = exact_limits(self.right, self.n)
        self.gaps = Limits(
            *(
                np.where(held, each - self.confidence, 0.0)
                for each in (accuracy.value, accuracy.low, accuracy.high)
            )
        )

    def pooled(self, bins: NDArray[np.bool_]) -> tuple[Figure, Limits]:
        """The share of pictures in some bins, and the exact limits of how many are right in them, `(...)`."""
        right, n = (np.where(bins, each, 0.0).sum(axis=-1) for each in (self.right, self.n))
        return np.where(bins, self.share, 0.0).sum(axis=-1), exact_limits(right, n)


def expected_error(sample: Sample[Counts]) -> Distance:
    """ECE, `(...)`."""
    diagram = _Diagram(sample)

    def size(gaps: Figure) -> Figure:
        return np.asarray((diagram.share * np.abs(gaps)).sum(axis=-1))

    modest = diagram.gaps.value >= 0
    under, at_right = diagram.pooled(modest)
    over, at_wrong = diagram.pooled(~modest)
    up = np.hypot(under * (at_right.high - at_right.value), over * (at_wrong.value - at_wrong.low))
    _, accuracy = diagram.pooled(np.ones_like(modest))
    confidence = (diagram.share * diagram.confidence).sum(axis=-1)
    too_low, too_high = accuracy.low - confidence, accuracy.high - confidence
    high = np.maximum(size(diagram.gaps.value) + up, np.maximum(-too_low, too_high))
    return Distance(size, diagram.gaps, high, np.maximum(np.maximum(too_low, -too_high), 0.0))


def largest_error(sample: Sample[Counts]) -> Distance:
    """MCE, `(...)`."""
    diagram = _Diagram(sample)
    known = diagram.share[..., 0] * 0  # nan where there is no picture

    def size(gaps: Figure) -> Figure:
        return np.asarray(np.abs(gaps).max(axis=-1) + known)

    high = np.maximum(size(diagram.gaps.low), size(diagram.gaps.high))
    return Distance(size, diagram.gaps, high)
