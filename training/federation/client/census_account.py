"""The account of numbers of pictures: those of a run are held against what was told to earlier runs.

The census tells how many pictures of each split, subgroup and class a client has, and is exact. Of two whose
pictures differ by one patient the difference is what this patient has, whatever the difference comes from:
another selection, another seed of the splits, another share of labels, lesions in place of pictures, a
picture that was mended, a patient who came or withdrew. So every census is a release. Where a hospital's
policy asks for it, a run is refused whose pictures differ from those of an earlier run by fewer patients than
the job's minimum: by split and subgroup, with labels and without, two runs at a time, by the rule of answers
(`training.federation.client.differences`). A split and subgroup of which nothing is left, or nothing was
there, is no matter of differences. Pictures that both runs have with a label are held against each other by
class, too: those of so many patients have another class, or of none.

Departures: of patients who are gone together it is told how many had which class; combinations of three
censuses and more are not looked at; a tone that is put right changes numbers too, and is only seen where a
picture comes to another split or subgroup by it.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.algorithms.release_store import ReleaseStore
from training.data.dataset import PictureList
from training.errors import DataError
from training.federation.client.differences import Release, smallest_difference
from training.federation.client.release_ledger import CENSUS_NUMBERS, CLASS_NUMBERS, kind_number, release_of


@dataclass(frozen=True)
class CensusAccount:
    """What one client told of how many pictures it has.

    Attributes:
        store: what was told before, over all runs.
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
            one, other = now[kind], release_of(rows)
            if kind == kind_number(CLASS_NUMBERS):
                one, other = in_both(one, other), in_both(other, one)
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
        """Write down what is told now."""
        for kind, sets in kinds_of(pictures).items():
            digest = digest_of(kind, sets)
            if not self.store.has(self.client, digest):
                release = Release.of(sets)
                head = np.array([[0, 0, kind_number(kind)]], dtype=np.int64)
                body = np.column_stack([release.pictures, release.patients, release.sets])
                self.store.add(self.client, digest, np.concatenate([head, body]))


def kinds_of(pictures: PictureList) -> dict[str, list[NDArray[np.int64]]]:
    """The sets of pictures that a census counts, by the kind of release."""
    return {CENSUS_NUMBERS: pictures.sets(), CLASS_NUMBERS: pictures.classes()}


def patients_apart(one: Release, other: Release, enough: int) -> float:
    """The fewest patients, above 0, by whom sums of the one differ from sums of the other; inf for enough.

    A set that has pictures of one set of the other release alone, as that has of it, is held against that:
    either number by itself is told anyway, however small. Where sets are cut in other ways, any unions are.
    """
    numbers, others = np.unique(one.sets), np.unique(other.sets)
    members = {number: one.pictures[one.sets == number] for number in numbers.tolist()}
    theirs = {number: other.pictures[other.sets == number] for number in others.tolist()}
    meets = {
        number: [there for there, pictures in theirs.items() if np.isin(mine, pictures).any()]
        for number, mine in members.items()
    }
    times = Counter(there for met in meets.values() for there in met)
    smallest: float = np.inf
    mixed: tuple[list[int], list[int]] = [], []
    for number, met in meets.items():
        if len(met) == 1 and times[met[0]] == 1:
            few = len(patients_between(of_sets(one, [number]), of_sets(other, met)))
            smallest = min(smallest, few) if 0 < few < enough else smallest
        elif met:
            mixed[0].append(number)
            mixed[1].extend(met)
    if not mixed[0]:
        return smallest
    return min(smallest, smallest_difference(of_sets(one, mixed[0]), of_sets(other, mixed[1]), enough))


def patients_between(one: Release, other: Release) -> NDArray[np.int64]:
    """Whose pictures are in one of two releases alone."""
    mine, theirs = (~np.isin(a.pictures, b.pictures) for a, b in ((one, other), (other, one)))
    return np.unique(np.concatenate([one.patients[mine], other.patients[theirs]]))


def in_both(one: Release, other: Release) -> Release:
    """The pictures of the one that the other has, too."""
    keep = np.isin(one.pictures, other.pictures)
    return Release(one.pictures[keep], one.patients[keep], one.sets[keep])


def of_sets(release: Release, numbers: Sequence[int]) -> Release:
    """Some sets of a release."""
    keep = np.isin(release.sets, numbers)
    return Release(release.pictures[keep], release.patients[keep], release.sets[keep])


def digest_of(kind: str, sets: Sequence[NDArray[np.int64]]) -> str:
    """What names numbers of a kind in the store, whatever the order of pictures and sets."""
    parts = sorted(hashlib.sha256(part[np.argsort(part[:, 0])].tobytes()).digest() for part in sets)
    return hashlib.sha256(kind.encode() + b"".join(parts)).hexdigest()[:32]
