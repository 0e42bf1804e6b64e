"""Folds of a hospital's training patients, for models of which each is trained without one fold.

A patient's fold follows from the digest by which linked pictures (of a lesion, of a patient, duplicates) are
known in every run, and from the number of folds of its subgroup. The job's seed does not change it, nor does
another patient as long as that number stays, so that two runs do not tell sums over folds that differ by a
few patients; where it changes, the account of releases decides.

A sum over one fold is what a coordinator may learn that sends models of its own making. So every subgroup has
the most folds, up to those of the job, of which each has the job's least number of its patients; one of fewer
than twice that number is in one fold, and one of fewer than that number in those of the largest subgroup.
Which model leaves a single fold out is drawn from the hospital's and the subgroup's names, or small subgroups
of all hospitals would be missing from the same one.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from training.data.dataset import DatasetView, Examples, Split
from training.errors import DataError


def in_folds(examples: Examples, client: str, subgroups: Sequence[str], most: int, least: int) -> Examples:
    """The examples with the fold of each.

    Args:
        examples: one client's, of the split that is trained on.
        client: its name.
        subgroups: the names of the subgroups.
        most: how many models are trained, each without one fold.
        least: the fewest labelled patients that a subgroup has in a fold.
    """
    people, owners = np.unique(examples.people, return_inverse=True)
    labelled = examples.labels >= 0
    patients = {
        group: len(np.unique(owners[labelled & (examples.subgroups == group)]))
        for group in np.unique(examples.subgroups).tolist()
    }
    largest = max(patients, key=lambda group: patients[group], default=0)
    # A patient of several subgroups goes by the one of the lowest number; of few patients none has its own.
    home = np.full(len(people), np.iinfo(np.int64).max)
    told = np.array([group if patients[group] >= least else largest for group in examples.subgroups.tolist()])
    np.minimum.at(home, owners, told.astype(np.int64))
    folds = {group: min(most, max(1, n // max(least, 1))) for group, n in patients.items()}
    first = {group: drawn(client, subgroups[group] if group >= 0 else "") % most for group in patients}
    mixed = mix(people)
    while True:
        fold = np.zeros(len(people), dtype=np.int64)
        for group, number in folds.items():
            own = home == group
            fold[own] = (first[group] + (mixed[own] % np.uint64(number)).astype(np.int64)) % most
        few = {
            int(group)
            for each, n in patients.items()
            if n >= least
            for group in homes_of_few(examples, owners, home, fold[owners], each, least)
        }
        if not few:
            return replace(examples, folds=fold[owners])
        if all(folds[group] == 1 for group in few):
            return replace(examples, folds=np.full(len(examples), drawn(client, "") % most))
        folds |= {group: max(1, folds[group] - 1) for group in few}


def by_fold(parts: Mapping[str, Examples]) -> dict[str, Examples]:
    """Every part in folds, `NAME/FOLD`; the parts themselves where there are none."""
    found = {}
    for name, part in parts.items():
        if part.folds is None:
            found[name] = part
        else:
            numbers = np.unique(part.folds).tolist()
            found |= {f"{name}/{number}": part.where(part.folds == number) for number in numbers}
    return found


def homes_of_few(
    examples: Examples,
    owners: NDArray[np.int64],
    home: NDArray[np.int64],
    folds: NDArray[np.int64],
    group: int,
    least: int,
) -> NDArray[np.int64]:
    """By which subgroups those patients have their folds whom one subgroup has too few of in a fold."""
    of_group = np.flatnonzero((examples.subgroups == group) & (examples.labels >= 0))
    pairs = np.unique(np.column_stack([folds[of_group], owners[of_group]]), axis=0)
    numbers, counts = np.unique(pairs[:, 0], return_counts=True)
    short = np.isin(pairs[:, 0], numbers[counts < least])
    found: NDArray[np.int64] = np.unique(home[pairs[short, 1]])
    return found


def drawn(client: str, subgroup: str) -> int:
    """A number that follows from two names."""
    return int.from_bytes(hashlib.sha256(f"fold\n{client}\n{subgroup}".encode()).digest()[:4], "big")


def mix(people: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Numbers without any order left in them (the finaliser of SplitMix64; Steele, Lea and Flood 2014)."""
    mixed = people.view(np.uint64)
    with np.errstate(over="ignore"):
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return found


@dataclass(frozen=True)
class OfPatients(DatasetView):
    """A dataset of which some splits are open, and in those that judge each patient has one picture.

    Noise on counts hides one patient. So it is the first labelled picture of each that is counted, always the
    same, whatever is asked; and a request whose answer has no noise finds the splits that judge closed.

    Attributes:
        open: the splits that may be looked at.
    """

    open: tuple[Split, ...]

    def examples(self, client: str, split: Split) -> Examples:
        """All training pictures, and of another split the first labelled picture of each patient.

        Raises:
            DataError: the split is not open to this request.
        """
        if split not in self.open:
            raise DataError(
                f"a request about {split} pictures of {client} was refused: its answer would leave without "
                "noise, and the job has privacy.counts.epsilon; leave that out, or the stage that asks"
            )
        examples = self.dataset.examples(client, split)
        if split == "train":
            return examples
        labelled = examples.where(examples.labels >= 0)
        first = np.zeros(len(labelled), dtype=np.bool_)
        first[np.unique(labelled.people, return_index=True)[1]] = True
        return labelled.where(first)
