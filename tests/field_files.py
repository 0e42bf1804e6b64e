"""Counts of the field, as a hospital's registry writes them."""

from datetime import date

from registry.bundle.counts.field_counts import FieldCell, FieldFile, FieldStratum

FIRST, SECOND = (f"sha256:{letter * 64}" for letter in "ab")


def stratum(
    flagged: bool, answered: int, confirmed: int, malignant: int, in_set: int | None = None
) -> FieldStratum:
    """One; by default the sets of all held what it was."""
    held = confirmed if in_set is None else in_set
    return FieldStratum(
        flagged=flagged, answered=answered, confirmed=confirmed, malignant=malignant, in_set=held
    )


def cell(*strata: FieldStratum, version: str = FIRST, subgroup: str = "dark") -> FieldCell:
    """The answers of a version to a subgroup."""
    return FieldCell(version=version, subgroup=subgroup, strata=strata)


def file(*cells: FieldCell) -> FieldFile:
    """What a hospital knows."""
    return FieldFile(model="demo", until=date(2026, 6, 1), cells=cells)
