"""How many patients the difference between two releases may come down to (differencing attacks).

A release tells a sum for each of some disjoint sets of pictures: subgroups, say. Sums of one release may be
added up, and those of another subtracted: what is left is a sum over the pictures by which the two unions
differ. The smallest such difference is a minimum cut. Take the sets of both releases as nodes, and one node
more for all pictures outside; between two nodes stand the patients whose pictures are in both. A union of
sets of each release is one side of a cut, and the patients that the cut goes through are those of the
difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Release:
    """Disjoint sets of pictures of which sums were told.

    Attributes:
        pictures: an identity of each picture, the same in every run, `(n,)` int64.
        patients: an identity of each picture's patient, `(n,)` int64.
        sets: the set that each picture is in, `(n,)` int64.
    """

    pictures: NDArray[np.int64]
    patients: NDArray[np.int64]
    sets: NDArray[np.int64]

    @classmethod
    def of(cls, identities: Sequence[NDArray[np.int64]]) -> "Release":
        """The release of some sets, each `(pictures, 2)`: picture and patient."""
        whole = np.concatenate([np.empty((0, 2), dtype=np.int64), *identities])
        numbers = np.repeat(np.arange(len(identities)), [len(each) for each in identities])
        return cls(whole[:, 0], whole[:, 1], numbers)

    def __len__(self) -> int:
        return len(self.pictures)


def smallest_difference(one: Release, other: Release, enough: int) -> float:
    """The fewest patients, above 0, by whom a union of sets of the one differs from a union of the other's.

    Infinite where every difference is of `enough` patients or more. Below that, a patient whose pictures are
    in several places counts in each as part of one, so that this is never more than the true number.
    """
    met = overlaps(one, other)
    nodes = np.arange(int(met[:, 1:].max(initial=0)) + 1)
    while True:
        # Where enough patients stand between two nodes, no cut between them matters: they become one node.
        apart = met[:, 1] != met[:, 2]
        met = np.unique(np.column_stack([met[apart, 0], np.sort(met[apart, 1:], axis=1)]), axis=0)
        pairs, number = np.unique(met[:, 1:], axis=0, return_counts=True)
        if not (number >= enough).any():
            break
        keep, gone = pairs[number >= enough][0]
        met[:, 1:][met[:, 1:] == gone] = keep
    between = np.zeros((len(nodes), len(nodes)))
    _, owner, shares = np.unique(met[:, 0], return_inverse=True, return_counts=True)
    np.add.at(between, (met[:, 1], met[:, 2]), 1 / shares[owner.reshape(-1)])
    found = smallest_cut(between + between.T)
    return found if found < enough else np.inf


def overlaps(one: Release, other: Release) -> NDArray[np.int64]:
    """Who has pictures between which nodes: rows of patient and two nodes, `(rows, 3)`.

    Nodes are the sets of one, then those of the other, then what is outside of a release.
    """
    pictures, places = np.unique(np.concatenate([one.pictures, other.pictures]), return_inverse=True)
    mine, theirs = places[: len(one)], places[len(one) :]
    first = int(one.sets.max(initial=-1)) + 1
    outside = first + int(other.sets.max(initial=-1)) + 1
    ends = np.full((len(pictures), 2), outside, dtype=np.int64)
    ends[mine, 0], ends[theirs, 1] = one.sets, first + other.sets
    patients = np.empty(len(pictures), dtype=np.int64)
    patients[theirs], patients[mine] = other.patients, one.patients
    return np.unique(np.column_stack([patients, ends]), axis=0)


def smallest_cut(between: NDArray[np.float64]) -> float:
    """The smallest cut above 0 of a graph with these weights (Stoer & Wagner 1997)."""
    cuts = [_of_connected(between[np.ix_(part, part)]) for part in _connected(between > 0) if len(part) > 1]
    return min(cuts, default=np.inf)


def _connected(linked: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """The nodes of each connected part of a graph."""
    left, parts = set(range(len(linked))), []
    while left:
        part, edge = set(), {left.pop()}
        while edge:
            part |= edge
            edge = {int(node) for at in edge for node in np.flatnonzero(linked[at])} - part
        left -= part
        parts.append(np.array(sorted(part), dtype=np.int64))
    return parts


def _of_connected(weights: NDArray[np.float64]) -> float:
    """The minimum cut of a connected graph: the least cut of a phase, nodes merged until one is left."""
    weights = weights.copy()
    np.fill_diagonal(weights, 0)
    smallest = np.inf
    nodes = list(range(len(weights)))
    while len(nodes) > 1:
        order, tied = [nodes[0]], weights[nodes[0]].copy()
        while len(order) < len(nodes):
            rest = [node for node in nodes if node not in order]
            order.append(max(rest, key=lambda node: float(tied[node])))
            tied += weights[order[-1]]
        last, before = order[-1], order[-2]
        smallest = min(smallest, float(weights[last, nodes].sum()))
        weights[before] += weights[last]
        weights[:, before] += weights[:, last]
        weights[before, before] = 0
        nodes.remove(last)
        weights[last] = weights[:, last] = 0
    return smallest
