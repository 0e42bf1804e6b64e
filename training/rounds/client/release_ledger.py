"""The door that counts go through: what was told before of the same pictures decides what may be told now.

Sums over two populations that differ by few patients tell these patients, whatever each sum is over: of the
test pictures before and after one more was taken, of all pictures and of one per lesion, of a clinic and its
ward. So before sums over some sets of pictures leave a client, the sets are held against all sets of earlier
releases of the same kind (over rounds, stages, splits and models; where the ledger outlives a run, over
runs), two releases at a time (`training.rounds.client.differences`). Where they would differ by fewer
patients than the job's minimum,

1. pictures that were in none of the earlier sets are held back, if they are of fewer patients than that;
2. else the smallest set is left out, and the next, until the rest differs enough or by nobody.

What is left leaves, and is written down before it does.

Exact counts between thresholds that the coordinator names have an account of their own (`is_first_question`):
those of one picture differ between two sets of thresholds a hair apart. So of each model one set is answered,
and one set of thresholds decides which lesions the nodes of the tree of diagnoses are asked of.

Departures: combinations of three releases and more are not looked at.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from training.algorithms.release_store import ReleaseStore
from training.data.dataset import Examples
from training.rounds.client.differences import Release, smallest_difference

LOGGER = logging.getLogger("dermfed.releases")

ANSWERS, EMBEDDING_SUMS, GRADIENTS = "answers", "embeddings", "gradients"
CENSUS_NUMBERS, CLASS_NUMBERS = "census", "classes"
"""What sums are of: counts and likelihoods of answers, sums of embeddings, gradients, or numbers.

One kind does not subtract from another. `census_account` keeps those of numbers of pictures, by split and
subgroup and by class.
"""


def admit(
    store: ReleaseStore, client: str, kind: str, sets: Mapping[str, Examples], least: int
) -> dict[str, Examples]:
    """The sets, or what is left of them, of which sums of a kind may leave; they are written down.

    Args:
        store: what was told before.
        client: whose pictures.
        kind: of what sums are told.
        sets: disjoint, by name.
        least: the fewest patients of a set, and of a difference to earlier releases.

    Raises:
        MessageError: the account cannot be kept.
    """
    kept = {name: part for name, part in sets.items() if len(part)}
    if not kept or least <= 1 or store.has(client, digest_of(kind, kept)):
        return kept
    earlier = [release_of(rows) for rows in store.all(client) if rows[0, 2] == kind_number(kind)]
    kept, lines = apart_from(earlier, kept, least, client)
    for line in lines:
        warn_once(store, line)
    if kept:
        store.add(client, digest_of(kind, kept), rows_of(kind, kept))
    return kept


def is_first_question(store: ReleaseStore, client: str, model: str, question: str, least: int) -> bool:
    """Whether nothing else was asked about this model before; the first question is written down.

    Args:
        store: the account.
        client: whose pictures.
        model: what names the model, and what is counted.
        question: all that it asks; the same again is the first.
        least: the fewest patients that may be told of; where it is 1, every question counts as the first.

    Raises:
        MessageError: the account cannot be kept.
    """
    owner, digest = f"{client}\n{model}", hashlib.sha256(question.encode()).hexdigest()[:32]
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
    """The sets, or what is left of them, that differ enough from every earlier release, or by nobody.

    Beside them a line for each thing that is held back or left out.
    """
    kept, releases, lines = dict(sets), list(earlier), []
    while kept:
        near = next((told for told in releases if difference(kept, told, least) < least), None)
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


def held_back(sets: Mapping[str, Examples], told: Release, least: int) -> dict[str, Examples] | None:
    """The sets without pictures that an earlier release did not have; None where that does not help."""
    shorter = {name: part.where(np.isin(part.identities[:, 0], told.pictures)) for name, part in sets.items()}
    shorter = {name: part for name, part in shorter.items() if part.num_people >= least}
    dropped = np.concatenate(
        [part.identities[~np.isin(part.identities[:, 0], told.pictures), 1] for part in sets.values()]
    )
    few = 0 < len(np.unique(dropped)) < least
    return shorter if few and shorter and difference(shorter, told, least) >= least else None


def difference(sets: Mapping[str, Examples], told: Release, least: int) -> float:
    """The smallest difference between these sets and an earlier release, where it is below `least`."""
    return smallest_difference(Release.of([part.identities for part in sets.values()]), told, least)


def rows_of(kind: str, sets: Mapping[str, Examples]) -> NDArray[np.int64]:
    """A release as `(1 + pictures, 3)`: the kind, then picture, patient and set of each picture."""
    head = np.array([[0, 0, kind_number(kind)]], dtype=np.int64)
    release = Release.of([part.identities for part in sets.values()])
    return np.concatenate([head, np.column_stack([release.pictures, release.patients, release.sets])])


def release_of(rows: NDArray[np.int64]) -> Release:
    """The release that `rows_of` wrote down."""
    return Release(rows[1:, 0], rows[1:, 1], rows[1:, 2])


def digest_of(kind: str, sets: Mapping[str, Examples]) -> str:
    """What names a release, whatever the order of its sets and of their pictures."""
    parts = sorted(
        hashlib.sha256(part.identities[np.argsort(part.identities[:, 0])].tobytes()).digest()
        for part in sets.values()
    )
    return hashlib.sha256(kind.encode() + b"".join(parts)).hexdigest()[:32]


def kind_number(kind: str) -> int:
    """A kind as it is written down."""
    return (ANSWERS, EMBEDDING_SUMS, CENSUS_NUMBERS, CLASS_NUMBERS, GRADIENTS).index(kind)
