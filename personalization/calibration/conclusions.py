"""Thresholds of conclusions: of each node of the tree of diagnoses at most a share of them is wrong.

Levels are calibrated in order, finest first, each on the lesions of which finer ones concluded nothing; the
node of highest probability is asked (`registry.bundle.conclusions`). At up to five thresholds,
proposed by coverage alone, x of the n(t) lesions at or above t are none of the node's classes. The limit of
the share is exact where t was fixed (Clopper & Pearson 1934):

    high(x) = B(1 − δ_v; x + 1, n(t) − x),  B(q; a, b) the q-quantile of Beta(a, b).

Thresholds are tested in a fixed sequence, the strictest first, each at δ_v; the first with high(x) over the
target ends it, and the one before is taken. δ is shared over the levels, and in a level over those nodes that
have so many lesions that all of them right would show something; a level without any leaves its share to the
next. For a target of .1 at δ_v = .005 it takes 51 lesions.

What is asked at a level depends on thresholds that were fitted to the same lesions: those under which nothing
is ruled out, and those of finer levels. Limits are therefore nominal; docs/results/honesty.md has how
often they are broken.

Hospitals count neighbours in runs. All lesions of a run count at or below its lowest score and wrong ones at
or above its highest, so that merged histograms show no smaller share of wrong ones than there is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from personalization.calibration.at_thresholds import LEVEL, STEPS, CountsAt, upper_limit
from registry.bundle.conclusions import Node, NodeRule, Tree
from registry.bundle.score_bins import SCORE_BINS, highest, lowest, merge


def count_nodes(
    tree: Tree,
    level: int,
    probabilities: NDArray[np.float32],
    labels: NDArray[np.int64],
    ruled_out: NDArray[np.bool_],
    thresholds: NDArray[np.int64],
    patients: NDArray[np.int64],
    smallest_cell: int,
) -> NDArray[np.int64]:
    """The histograms of the lesions at which each node of a level is asked: all, and wrong ones.

    Args:
        tree: of diagnoses.
        level: its place in the tree.
        probabilities: `(lesions, classes)`.
        labels: class indices, `(lesions,)`.
        ruled_out: by triage, `(lesions,)`.
        thresholds: of all nodes, `(nodes,)`; those of finer levels decide what is left over.
        patients: of each lesion, `(lesions,)`.
        smallest_cell: the fewest patients of a run; of a node with fewer nothing is counted.

    Returns:
        `(nodes of the level, 2, bins)`.
    """
    nodes = tree.levels[level]
    finer = sum(len(before) for before in tree.levels[:level])
    before = np.where(np.arange(len(tree.nodes)) < finer, thresholds, SCORE_BINS)
    left = tree.concluded(probabilities, ruled_out, before) < 0
    asked, bins = tree.asked(level, probabilities, ruled_out)
    found = np.zeros((len(nodes), 2, SCORE_BINS), dtype=np.int64)
    for place, node in enumerate(nodes):
        own = left & (asked == place)
        if len(np.unique(patients[own])) < smallest_cell:
            continue
        wrong = ~np.isin(labels[own], node.classes)
        of_all = merge(bins[own], patients[own], smallest_cell, lowest)
        of_wrong = merge(bins[own], patients[own], smallest_cell, below_next)[wrong]
        found[place] = [np.bincount(of, minlength=SCORE_BINS) for of in (of_all, of_wrong)]
    return found


def below_next(bins: NDArray[np.int64], below: int | None, above: int | None) -> int:
    """Just below the bin at which the run above is counted."""
    return highest(bins, below, None if above is None else above - 1)


@dataclass(frozen=True)
class LevelTest:
    """What is tested at a level.

    Attributes:
        nodes: of the level.
        target: the share of wrong conclusions that is allowed.
        failures: δ of the level.
        proposed: thresholds of each node to count at, score bins, rising.
    """

    nodes: tuple[Node, ...]
    target: float
    failures: float
    proposed: tuple[tuple[int, ...], ...]

    @property
    def able(self) -> int:
        """How many nodes have lesions enough to show anything."""
        return sum(map(bool, self.proposed))

    def fit(self, counts: Sequence[CountsAt]) -> list[NodeRule]:
        """The rules of the nodes of which the target is shown.

        Args:
            counts: of each node at the thresholds that were proposed, of all lesions (0) and wrong ones (1).
        """
        rules = []
        for node, at in zip(self.nodes, counts, strict=True):
            taken = None
            of_all, wrong = at.from_here
            for threshold, n, x in reversed(list(zip(at.thresholds, of_all, wrong, strict=True))):
                high = float(upper_limit(np.minimum(x, n), n, 1 - self.failures / self.able))
                if high > self.target:
                    break
                taken = NodeRule(
                    level=node.level,
                    code=node.code,
                    threshold_bin=threshold,
                    n=n,
                    wrong=min(x, n),
                    risk_high=high,
                )
            rules += [] if taken is None else [taken]
        return rules


def propose_level(
    nodes: tuple[Node, ...], histograms: NDArray[np.int64], target: float, failures: float
) -> LevelTest:
    """What to test at a level: coverage alone decides.

    Of each node that can show anything, thresholds that conclude another fifth of its lesions each; without
    those that could show nothing with every lesion right.

    Args:
        nodes: of the level.
        histograms: of all lesions at which each node is asked, `(nodes, bins)`.
        target: the share of wrong conclusions that is allowed.
        failures: δ of the level.
    """
    n = histograms.sum(axis=1)
    able = len(nodes)
    while able and (fewer := int((least_right(n, failures / able) <= target).sum())) < able:
        able = fewer
    proposed = tuple(
        _fifths(row, target, failures / able)
        if able and least_right(total, failures / able) <= target
        else ()
        for row, total in zip(histograms, n, strict=True)
    )
    return LevelTest(nodes, target, failures, proposed)


def least_right(n: NDArray[np.int64], failures: float) -> NDArray[np.float64]:
    """The upper limit of the share that is wrong where none of n is."""
    return upper_limit(np.zeros_like(n), n, 1 - failures)


def _fifths(histogram: NDArray[np.int64], target: float, failures: float) -> tuple[int, ...]:
    from_here = histogram[::-1].cumsum()[::-1]
    occupied = np.flatnonzero(histogram)
    steps = np.ceil(from_here[0] * np.arange(1, STEPS + 1) / STEPS)
    bins = {int(at[0]) for most in steps if len(at := occupied[from_here[occupied] <= most])}
    return tuple(sorted(t for t in bins if least_right(from_here[t], failures) <= target))


def share_of(level: int, levels: int, spent: float) -> float:
    """δ of a level, where `spent` of 1 − `LEVEL` was given to finer ones that tested something."""
    return (1 - LEVEL - spent) / (levels - level)
