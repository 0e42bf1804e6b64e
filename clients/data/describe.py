"""`dermfed-data describe`: counts of pictures and lesions by label, subgroup and split."""

from collections import Counter
from dataclasses import dataclass

from rich.table import Table

from clients.data.manifest import IMAGE_KIND, Manifest, Row, number_lesions
from registry.bundle.cases import KNOWN, UNKNOWN, UNKNOWN_KIND


@dataclass(frozen=True, order=True)
class Cell:
    """The count of one combination of label, subgroup and split; empty strings are "not known".

    Attributes:
        split: train, validation, calibration or test.
        scale: the skin tone scale; empty where subgroups are not tones.
        subgroup: the tone, or the value of the column that was asked for.
        label: the diagnosis' code.
    """

    split: str
    scale: str
    subgroup: str
    label: str


@dataclass(frozen=True)
class Description:
    """Counts of a manifest.

    Attributes:
        pictures: how many.
        lesions: how many they show; a picture without a lesion counts as one.
        patients: how many are named.
        subgroups: what subgroups are: a column's name, or `skin_tone`.
        cells: pictures in each cell that has any, sorted.
        kinds: lesions by their pictures' kinds as the manifest spells them, `close-up+dermoscopic`.
        known: of how many lesions a picture's row tells each fact that has a vocabulary.
    """

    pictures: int
    lesions: int
    patients: int
    subgroups: str
    cells: dict[Cell, int]
    kinds: dict[str, int]
    known: dict[str, int]


def describe_manifest(manifest: Manifest, column: str | None = None) -> Description:
    """Count by label, subgroup and split.

    Args:
        manifest: what to count.
        column: whose values are the subgroups; by default they are skin tones.

    Raises:
        UnknownColumnError: the manifest has no such column.
    """
    if column is not None:
        manifest.require(column)

    def cell(row: Row) -> Cell:
        if column is not None:
            return Cell(row.split, "", row.value(column), row.label)
        return Cell(row.split, row.skin_tone_scale if row.skin_tone else "", row.skin_tone, row.label)

    rows = manifest.rows
    counts = Counter(map(cell, rows))
    lesions: dict[int, list[Row]] = {}
    for row, number in zip(rows, number_lesions(rows).tolist(), strict=True):
        lesions.setdefault(number, []).append(row)
    kinds = Counter(
        "+".join(sorted(row.value(IMAGE_KIND) or UNKNOWN_KIND for row in pictures))
        for pictures in lesions.values()
    )
    told = [name for name in KNOWN if name in manifest.columns]
    return Description(
        pictures=len(rows),
        lesions=len(lesions),
        patients=len({row.patient_id for row in rows if row.patient_id}),
        subgroups=column or "skin_tone",
        cells=dict(sorted(counts.items())),
        kinds=dict(sorted(kinds.items())),
        known={
            name: sum(
                any(row.value(name).lower() not in UNKNOWN for row in mine) for mine in lesions.values()
            )
            for name in told
        },
    )


def tabulate(description: Description) -> list[Table]:
    """One table per split and scale: labels down, subgroups across."""
    tables = []
    cells = description.cells
    for split, scale in sorted({(cell.split, cell.scale) for cell in cells}):
        mine = {cell: count for cell, count in cells.items() if (cell.split, cell.scale) == (split, scale)}
        subgroups = sorted(
            {cell.subgroup for cell in mine}, key=lambda name: (len(name) if scale else 0, name)
        )
        title = ", ".join(filter(None, (scale or description.subgroups, split)))
        table = Table("label", title=title)
        for subgroup in subgroups:
            table.add_column(subgroup or "undeclared", justify="right")
        table.add_column("all", justify="right")
        for label in sorted({cell.label for cell in mine}):
            counts = [mine.get(Cell(split, scale, subgroup, label), 0) for subgroup in subgroups]
            table.add_row(label or "unlabelled", *(str(count or "") for count in counts), str(sum(counts)))
        tables.append(table)
    return tables
