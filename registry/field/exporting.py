"""Counts of the field as a file for a hospital's node, which adds them up with those of other hospitals."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import numpy as np

from registry.bundle.counts.field_counts import FieldCell, FieldFile, FieldStratum
from registry.field.seen import FLAGGED, Seen, by_subgroup, seen
from registry.outcomes.counts import field_counts
from registry.outcomes.store import OutcomeStore


@dataclass(frozen=True)
class FieldExport:
    """The file, and what is not in it.

    Attributes:
        file: the counts.
        left_out: versions whose bundle is not known any more, or that have no working point.
    """

    file: FieldFile
    left_out: tuple[int, ...]


def export_field(
    store: OutcomeStore, model: str, digest_of: Callable[[int], str | None], today: date
) -> FieldExport:
    """The counts of every version of a model, by subgroup.

    Args:
        store: where answers and outcomes are.
        model: its name.
        digest_of: gives the digest of a version's bundle by its number; None where it is not known any more.
        today: the day on which they are counted.

    Raises:
        DatabaseError: the outcomes cannot be read.
    """
    cells, left_out = [], set()
    for version, subgroup, those in by_subgroup(field_counts(store, model)):
        found, digest = seen(those), digest_of(version)
        if digest is None or not found.has_working_point:
            left_out.add(version)
            continue
        cells.append(FieldCell(version=digest, subgroup=subgroup, strata=_strata(found)))
    return FieldExport(FieldFile(model=model, until=today, cells=tuple(cells)), tuple(sorted(left_out)))


def _strata(found: Seen) -> tuple[FieldStratum, ...]:
    strata = found.strata
    in_set = np.bincount(found.stratum[found.in_set], minlength=len(FLAGGED))
    return tuple(
        FieldStratum(
            flagged=bool(flagged),
            answered=int(answered),
            confirmed=int(confirmed),
            malignant=int(malignant),
            in_set=int(held),
        )
        for flagged, answered, confirmed, malignant, held in zip(
            strata.flagged, strata.answered, strata.confirmed, strata.malignant, in_set, strict=True
        )
    )
