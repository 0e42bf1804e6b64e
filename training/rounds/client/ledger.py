"""The ledger of releases: what was disclosed of the same pictures decides what may be disclosed now.

Sums over two populations that differ by few patients tell these patients, whatever each sum is over: of the
test pictures before and after one more was taken, of all pictures and of one per lesion, of a clinic and its
ward. So before sums over some sets of pictures leave a client, the sets are held against all sets of earlier
releases of the same kind (over rounds, stages, splits and models; where the ledger outlives a run, over
runs), two releases at a time. Where they would differ by fewer patients than the job's minimum,

1. pictures that were in none of the earlier sets are held back, if they are of fewer patients than that;
2. else the smallest set is left out, and the next, until the rest differs enough or not at all.

What is left leaves, and is written down before it does.

Exact counts between thresholds that the coordinator names have an account of their own (`is_first_request`):
those of one picture differ between two sets of thresholds a hair apart. So of each model one set is answered,
and one set of thresholds decides which lesions the nodes of the tree of diagnoses are asked of.

A release tells a sum for each of some disjoint sets of pictures: subgroups, say. Sums of one release may be
added up, and those of another subtracted: what is left is a sum over the pictures by which the two unions
differ. The smallest such difference is a minimum cut. Take the sets of both releases as nodes, and one node
more for all pictures outside; between two nodes stand the patients whose pictures are in both. A union of
sets of each release is one side of a cut, and the patients that the cut goes through are those of the
difference.

The census tells how many pictures of each split, subgroup and class a client has, and is exact. Of two whose
pictures differ by one patient the difference is what this patient has, whatever the difference comes from:
another selection, another seed of the splits, another share of labels, lesions in place of pictures, a
picture that was mended, a patient who came or withdrew. So every census is a release. Where a hospital's
policy asks for it, a run is refused whose pictures differ from those of an earlier run by fewer patients than
the job's minimum: by split and subgroup, with labels and without, two runs at a time, by the rule of answers.
A split and subgroup of which nothing is left, or nothing was there, is no matter of differences. Pictures
that both runs have with a label are held against each other by class, too: those of so many patients have
another class, or of none.

Departures: combinations of three releases and more are not looked at; of patients who are gone together it is
disclosed how many had which class; a tone that is put right changes numbers too, and is only seen where a
picture comes to another split or subgroup by it.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from training.algorithms.client import Client, ReleaseStore
from training.data.dataset import Examples, PictureList
from training.errors import DataError


@dataclass(frozen=True)
class Release:
    """Disjoint sets of pictures of which sums were disclosed.

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

    @classmethod
    def from_rows(cls, rows: NDArray[np.int64]) -> "Release":
        """The release that `to_rows` wrote down."""
        return cls(rows[1:, 0], rows[1:, 1], rows[1:, 2])

    def to_rows(self, kind: str) -> NDArray[np.int64]:
        """A release as `(1 + pictures, 3)`: the kind, then picture, patient and set of each picture."""
        head = np.array([[0, 0, kind_number(kind)]], dtype=np.int64)
        return np.concatenate([head, np.column_stack([self.pictures, self.patients, self.sets])])

    def where(self, keep: NDArray[np.bool_]) -> "Release":
        """Some of its pictures."""
        return Release(self.pictures[keep], self.patients[keep], self.sets[keep])

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
    number, part = connected_components(between > 0, directed=False)
    parts = (np.flatnonzero(part == each) for each in range(number))
    return min((_of_connected(between[np.ix_(of, of)]) for of in parts if len(of) > 1), default=np.inf)


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


LOGGER = logging.getLogger("dermfed.releases")

ANSWERS, EMBEDDING_SUMS, GRADIENTS = "answers", "embeddings", "gradients"
CENSUS_NUMBERS, CLASS_NUMBERS = "census", "classes"
"""What sums are of: counts and likelihoods of answers, sums of embeddings, gradients, or numbers.

One kind does not subtract from another. `CensusAccount` keeps those of numbers of pictures, by split and
subgroup and by class.
"""


def disclosable(client: Client, kind: str, sets: Mapping[str, Examples]) -> dict[str, Examples]:
    """The sets, or what is left of them, of which sums of a kind may leave; they are written down.

    A set of fewer patients than the job's minimum is left out, and so is what would tell so few apart
    together with what was disclosed before.

    Args:
        client: whose pictures; its account of releases, and the job's minimum.
        kind: of what the sums are.
        sets: disjoint, by name.

    Raises:
        MessageError: the account cannot be kept.
    """
    store, least = client.releases, client.min_count
    kept = {name: part for name, part in sets.items() if part.num_people >= max(least, 1)}
    if not kept or least <= 1 or store.has(client.id, digest_of(kind, identities_of(kept))):
        return kept
    earlier = [Release.from_rows(rows) for rows in store.all(client.id) if rows[0, 2] == kind_number(kind)]
    kept, lines = apart_from(earlier, kept, least, client.id)
    for line in lines:
        warn_once(store, line)
    if kept:
        left = identities_of(kept)
        store.add(client.id, digest_of(kind, left), Release.of(left).to_rows(kind))
    return kept


def is_first_request(store: ReleaseStore, client: str, model: str, request: str, least: int) -> bool:
    """Whether nothing else was asked about this model before; the first request is written down.

    Args:
        store: the account.
        client: whose pictures.
        model: what names the model, and what is counted.
        request: all that it asks; the same again is the first.
        least: the fewest patients of whom sums may be disclosed; at 1, every request counts as the first.

    Raises:
        MessageError: the account cannot be kept.
    """
    owner, digest = f"{client}\n{model}", hashlib.sha256(request.encode()).hexdigest()[:32]
    if least <= 1 or store.has(owner, digest):
        return True
    if any(True for _ in store.all(owner)):
        return False
    store.add(owner, digest, np.zeros((0, 3), dtype=np.int64))
    return True


def warn_once(store: ReleaseStore, line: str) -> None:
    """Log a warning the first time."""
    if line not in store.said:
        LOGGER.warning(line)
        store.said.add(line)


def apart_from(
    earlier: Iterable[Release], sets: Mapping[str, Examples], least: int, client: str
) -> tuple[dict[str, Examples], list[str]]:
    """The sets, or what is left of them, that differ enough from every earlier release, or not at all.

    With a line for each thing that is held back or left out.
    """
    kept, releases, lines = dict(sets), list(earlier), []
    while kept:
        near = next((each for each in releases if difference(kept, each, least) < least), None)
        if near is None:
            break
        shorter = held_back(kept, near, least)
        if shorter is not None:
            before, after = (sum(map(len, of.values())) for of in (kept, shorter))
            lines.append(
                f"{client}: {before - after} pictures are held back: counts with them and earlier ones "
                f"without would tell fewer than {least} patients apart (privacy.min_count)"
            )
            kept = shorter
            continue
        smallest = min(kept, key=lambda name: len(kept[name]))
        lines.append(
            f"{client}: nothing is told of {smallest}: with what was told before, it would tell fewer than "
            f"{least} patients apart (privacy.min_count)"
        )
        del kept[smallest]
    return kept, lines


def held_back(sets: Mapping[str, Examples], earlier: Release, least: int) -> dict[str, Examples] | None:
    """The sets without pictures that an earlier release did not have; None where that does not help."""
    shorter = {
        name: part.where(np.isin(part.identities[:, 0], earlier.pictures)) for name, part in sets.items()
    }
    shorter = {name: part for name, part in shorter.items() if part.num_people >= least}
    dropped = np.concatenate(
        [part.identities[~np.isin(part.identities[:, 0], earlier.pictures), 1] for part in sets.values()]
    )
    few = 0 < len(np.unique(dropped)) < least
    return shorter if few and shorter and difference(shorter, earlier, least) >= least else None


def difference(sets: Mapping[str, Examples], earlier: Release, least: int) -> float:
    """The smallest difference between these sets and an earlier release, where it is below `least`."""
    return smallest_difference(Release.of(identities_of(sets)), earlier, least)


def digest_of(kind: str, sets: Iterable[NDArray[np.int64]]) -> str:
    """What names a release, whatever the order of its sets and of their pictures."""
    parts = sorted(hashlib.sha256(part[np.argsort(part[:, 0])].tobytes()).digest() for part in sets)
    return hashlib.sha256(kind.encode() + b"".join(parts)).hexdigest()[:32]


def identities_of(sets: Mapping[str, Examples]) -> list[NDArray[np.int64]]:
    """The pictures of each set and their patients, each `(pictures, 2)`."""
    return [part.identities for part in sets.values()]


def kind_number(kind: str) -> int:
    """A kind as it is written down."""
    return (ANSWERS, EMBEDDING_SUMS, CENSUS_NUMBERS, CLASS_NUMBERS, GRADIENTS).index(kind)


@dataclass(frozen=True)
class CensusAccount:
    """What one client disclosed of how many pictures it has.

    Attributes:
        store: what was disclosed before, over all runs.
        client: whose pictures.
    """

    store: ReleaseStore
    client: str

    def refuse_near(self, pictures: PictureList, least: int) -> None:
        """Refuse numbers that differ from earlier ones by too few patients.

        Raises:
            DataError: saying by how many, and what to do.
        """
        now = {kind_number(kind): Release.of(sets) for kind, sets in kinds_of(pictures).items()}
        for rows in self.store.all(self.client):
            kind = int(rows[0, 2])
            if kind not in now:
                continue
            one, other = now[kind], Release.from_rows(rows)
            if kind == kind_number(CLASS_NUMBERS):
                both = np.intersect1d(one.pictures, other.pictures)
                one, other = (of.where(np.isin(of.pictures, both)) for of in (one, other))
            apart = patients_apart(one, other, least)
            if apart < least:
                raise DataError(
                    f"numbers of these pictures differ by fewer than {least} patients ({apart:g}) of one "
                    "split and subgroup, or class, from those that an earlier run was told, and "
                    "privacy.census_apart of policy.yaml asks for as many. Where patients withdrew, take "
                    "part when there are enough of them; where patients came, or the job selects, maps or "
                    "splits otherwise, start with the manifest and the job of that run until there are"
                )

    def remember(self, pictures: PictureList) -> None:
        """Write down what is disclosed now."""
        for kind, sets in kinds_of(pictures).items():
            digest = digest_of(kind, sets)
            if not self.store.has(self.client, digest):
                self.store.add(self.client, digest, Release.of(sets).to_rows(kind))


def kinds_of(pictures: PictureList) -> dict[str, list[NDArray[np.int64]]]:
    """The sets of pictures that a census counts, by the kind of release."""
    return {CENSUS_NUMBERS: pictures.sets(), CLASS_NUMBERS: pictures.classes()}


def patients_apart(one: Release, other: Release, enough: int) -> float:
    """The fewest patients, above 0, by whom sums of the one differ from sums of the other; inf for enough.

    A set that has pictures of one set of the other release alone, as that has of it, is held against that:
    either number by itself is disclosed anyway, however small. Where sets are cut in other ways, any unions
    are.
    """
    numbers, others = np.unique(one.sets), np.unique(other.sets)
    members = {number: one.pictures[one.sets == number] for number in numbers.tolist()}
    theirs = {number: other.pictures[other.sets == number] for number in others.tolist()}
    meets = {
        number: [there for there, pictures in theirs.items() if np.isin(mine, pictures).any()]
        for number, mine in members.items()
    }
    times = Counter(there for met in meets.values() for there in met)

    def among(release: Release, numbers: Sequence[int]) -> Release:
        return release.where(np.isin(release.sets, numbers))

    smallest: float = np.inf
    mixed: tuple[list[int], list[int]] = [], []
    for number, met in meets.items():
        if len(met) == 1 and times[met[0]] == 1:
            few = len(patients_between(among(one, [number]), among(other, met)))
            smallest = min(smallest, few) if 0 < few < enough else smallest
        elif met:
            mixed[0].append(number)
            mixed[1].extend(met)
    if not mixed[0]:
        return smallest
    return min(smallest, smallest_difference(among(one, mixed[0]), among(other, mixed[1]), enough))


def patients_between(one: Release, other: Release) -> NDArray[np.int64]:
    """Whose pictures are in one of two releases alone."""
    mine, theirs = (~np.isin(a.pictures, b.pictures) for a, b in ((one, other), (other, one)))
    return np.unique(np.concatenate([one.patients[mine], other.patients[theirs]]))
