"""The account of numbers of pictures: those of a run are held against what was told to earlier runs.

The census tells how many pictures of each split, subgroup and class a client has, and is exact. Of two whose
pictures differ by one patient the difference is what this patient has. Where a hospital's policy asks for it,
a run is refused whose census would differ so: pictures and patients of each split and subgroup are held
against those of every earlier census, two at a time, by the rule that answers go by
(`training.federation.client.differences`): unions of them are equal, or differ by the job's minimum of
patients. A number by itself is told however small it is, so that a split and subgroup of which nothing is
left, or nothing was there, is no matter of differences.

Departures: classes are not told apart, so that of patients who are gone together it is told how many had
which; combinations of three censuses and more are not looked at; a label or a tone that is put right changes
numbers too, and is only seen where a picture comes to another split or subgroup by it.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.algorithms.release_store import ReleaseStore
from training.data.picture_list import PICTURE, PictureList
from training.errors import DataError
from training.federation.client.differences import Release, smallest_difference
from training.federation.client.release_ledger import CENSUS_NUMBERS, kind_number, release_of


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
        if self.store.has(self.client, digest_of(pictures)):
            return
        now = Release.of(pictures.sets())
        for rows in self.store.all(self.client):
            if rows[0, 2] != kind_number(CENSUS_NUMBERS):
                continue
            apart = patients_apart(now, release_of(rows), least)
            if apart < least:
                raise DataError(
                    f"numbers of these pictures differ by fewer than {least} patients ({apart:g}) of one "
                    "split and subgroup from those that an earlier run was told, and privacy.census_apart of "
                    "policy.yaml asks for as many. Where somebody withdrew, write the manifest anew with "
                    f"`dermfed-data withdraw … --beside {least - 1}`; where patients came, or splits are "
                    "drawn anew, start with the manifest of that run until there are enough of them"
                )

    def remember(self, pictures: PictureList) -> None:
        """Write down what is told now."""
        digest = digest_of(pictures)
        if not self.store.has(self.client, digest):
            release = Release.of(pictures.sets())
            head = np.array([[0, 0, kind_number(CENSUS_NUMBERS)]], dtype=np.int64)
            body = np.column_stack([release.pictures, release.patients, release.sets])
            self.store.add(self.client, digest, np.concatenate([head, body]))


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


def of_sets(release: Release, numbers: Sequence[int]) -> Release:
    """Some sets of a release."""
    keep = np.isin(release.sets, numbers)
    return Release(release.pictures[keep], release.patients[keep], release.sets[keep])


def digest_of(pictures: PictureList) -> str:
    """What names a census in the store, whatever the order of pictures."""
    rows = pictures.rows[np.argsort(pictures.rows[:, PICTURE], kind="stable")]
    return hashlib.sha256(CENSUS_NUMBERS.encode() + rows.tobytes()).hexdigest()[:32]
