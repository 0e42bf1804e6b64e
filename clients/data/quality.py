"""The quality of a manifest: counts with their thin cells, what is missing or broken, and what to do.

`dermfed-data describe`: counts of pictures and lesions by label, subgroup and split.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import median

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image
from rich.table import Table

from clients.data.check import KINDS, ManifestProblem, ProblemKind, check_manifest
from clients.data.manifest import (
    HOSPITALS,
    IMAGE_KIND,
    Manifest,
    Row,
    components,
    linkage_keys,
    number_lesions,
)
from clients.data.manifest_file import scan_manifests
from clients.data.output import LISTED
from clients.data.picture_files import PictureReader, UnreadablePictureError, locate
from clients.data.taxonomy import describe
from registry.bundle.cases import KNOWN, UNKNOWN, UNKNOWN_KIND
from registry.bundle.skin_tone import SCALES
from registry.bundle.text import PAGE_FOLDER
from training.data.dataset import SPLITS
from training.privacy.settings import PrivacyConfig

TO_TELL = 30  # pictures; of fewer, figures of a group are withheld or say next to nothing
FEWEST_PATIENTS: int = PrivacyConfig().min_count  # of fewer, a client tells nothing
ALWAYS = ("label", "skin_tone", "lesion_id", "patient_id")  # told of, if no cell is filled, too
SMALL = 128  # pixels of the shorter side, what the recipes for use look at


@dataclass(frozen=True)
class Count:
    """One cell of a table of counts: pictures, and the patients that they are of."""

    pictures: int
    patients: int

    @property
    def thin(self) -> bool:
        """Whether too few to tell much by: under `TO_TELL` pictures or `FEWEST_PATIENTS` patients."""
        return self.pictures < TO_TELL or self.patients < FEWEST_PATIENTS


@dataclass(frozen=True)
class Counts:
    """Labels by the values of a column.

    Attributes:
        title: what is counted.
        columns: the values, the last of them all together.
        rows: of each label, the last of them all together, a count for each column.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Count, ...]], ...]


@dataclass(frozen=True)
class Finding:
    """The problems of one kind; their causes, the most frequent first, each with its number."""

    about: ProblemKind
    problems: tuple[ManifestProblem, ...]

    @property
    def causes(self) -> list[tuple[str, int]]:
        """By cause, how many problems of pictures there are, the most frequent first."""
        return Counter(problem.cause for problem in self.problems if problem.cause).most_common()


@dataclass(frozen=True)
class Quality:
    """What is known of a manifest's quality."""

    name: str
    pictures: int
    lesions: int
    patients: int
    named_patients: bool
    counts: tuple[Counts, ...]
    missing: tuple[tuple[str, int, str], ...]
    broken: tuple[Finding, ...]
    sizes: tuple[tuple[str, str], ...]
    imbalance: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()

    @property
    def thin(self) -> int:
        """How many cells of all tables are thin, the sums aside."""
        return sum(count.thin for table in self.counts for _, row in table.rows[:-1] for count in row[:-1])


def quality_of(*paths: Path) -> Quality:
    """Read a manifest, or several as one, and all pictures.

    Raises:
        ManifestError: a file is no manifest at all.
    """
    manifest = scan_manifests(paths).manifest
    report = check_manifest(*paths)
    rows = manifest.rows
    patients = components([linkage_keys(row) for row in rows]).tolist()
    return Quality(
        name=", ".join(path.name for path in paths),
        pictures=len(rows),
        lesions=len(set(number_lesions(rows).tolist())),
        patients=len(set(patients)),
        named_patients=any(row.patient_id for row in rows),
        counts=_tables(manifest, patients),
        missing=_missing(manifest),
        broken=tuple(
            Finding(KINDS[kind], tuple(problem for problem in report.problems if problem.kind == kind))
            for kind in dict.fromkeys(problem.kind for problem in report.problems)
        ),
        notes=report.notes,
        sizes=_sizes(manifest),
        imbalance=_imbalance(rows),
    )


def _tables(manifest: Manifest, patients: Sequence[int]) -> tuple[Counts, ...]:
    rows, tables = manifest.rows, list[Counts]()

    def add(title: str, values: Sequence[str], order: Sequence[str] = ()) -> None:
        tables.append(_table(title, rows, patients, values, order))

    scales = Counter(row.skin_tone_scale for row in rows if row.skin_tone)
    for scale, _ in scales.most_common():
        tones = [row.skin_tone if row.skin_tone_scale == scale else "" for row in rows]
        add(f"Labels by skin tone, {scale}", tones, SCALES.get(scale, ()))
    if any(row.split for row in rows):
        add("Labels by split", manifest.values("split"), SPLITS)
    for name in manifest.extra_columns:
        if name.lower() in HOSPITALS and len(set(manifest.values(name))) <= TO_TELL:
            add(f"Labels by {name}", manifest.values(name))
    if not tables:
        add("Labels", [""] * len(rows))
    return tuple(tables)


def _table(
    title: str,
    rows: Sequence[Row],
    patients: Sequence[int],
    values: Sequence[str],
    order: Sequence[str],
) -> Counts:
    """Count labels by the value of each row; values in `order` first, those that are not known last."""
    seen = set(values)
    columns = [each for each in order if each in seen or seen & set(order)]
    columns += sorted(seen - {*order, ""}) + [""] * ("" in seen)
    cells: dict[tuple[str, str], list[int]] = {}
    for row, patient, value in zip(rows, patients, values, strict=True):
        cells.setdefault((row.label, value), []).append(patient)
    labels = [label for label, _ in Counter(row.label for row in rows if row.label).most_common()]
    labels += [""] * any(not row.label for row in rows)

    def count(of_label: str | None, of_value: str | None) -> Count:
        members = [
            patient
            for (label, each), found in cells.items()
            if of_label in (None, label) and of_value in (None, each)
            for patient in found
        ]
        return Count(len(members), len(set(members)))

    return Counts(
        title,
        (*(each or "not known" for each in columns), "all"),
        tuple(
            (
                "all" if label is None else label or "no label",
                tuple(count(label, each) for each in [*columns, None]),
            )
            for label in [*labels, None]
        ),
    )


def _missing(manifest: Manifest) -> tuple[tuple[str, int, str], ...]:
    """Columns with empty cells, how many, and what to do."""
    advice = {
        "label": "Pictures without one are not learned from by supervised training, and judge no model.",
        "skin_tone": "Declare it at the visit, with its scale: a picture without one counts in no group.",
        "lesion_id": "Without one each picture is a lesion of its own, and two of one may be on two sides.",
        "patient_id": "Without one a lesion stands for a patient, whose lesions may be on two sides.",
        "site": "A fact of a case; it may be missing.",
        IMAGE_KIND: "Close-ups and dermoscopic pictures are told apart by it, where lesions are diagnosed.",
        "age": "A fact of a case; it may be missing.",
        "sex": "A fact of a case; it may be missing.",
    }
    found = []
    for column, what in advice.items():
        empty = sum(row.value(column).lower() in UNKNOWN for row in manifest.rows)
        if empty and (column in ALWAYS or empty < len(manifest.rows)):
            found.append((column, empty, what))
    return tuple(found)


def _sizes(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    """The sizes of the pictures that can be opened, from their heads alone."""
    sizes, forms = [], Counter[str]()
    with PictureReader() as reader:
        for row in manifest.rows:
            try:
                with Image.open(BytesIO(reader.read(locate(row.image, manifest.folder)))) as picture:
                    sizes.append(picture.size)
                    forms[str(picture.format)] += 1
            except (UnreadablePictureError, OSError, ValueError, Image.DecompressionBombError):
                continue  # told among what is broken
    if not sizes:
        return ()
    shorter = sorted(min(size) for size in sizes)
    common = ", ".join(
        f"{width} × {height} ({count})" for (width, height), count in Counter(sizes).most_common(5)
    )
    small = sum(side < SMALL for side in shorter)
    return (
        ("Pictures that can be opened", f"{len(sizes)} of {len(manifest.rows)}"),
        ("Formats", ", ".join(f"{form} ({count})" for form, count in forms.most_common())),
        ("Commonest sizes, pixels", common),
        ("Shorter side, pixels", f"{shorter[0]} to {shorter[-1]}, median {median(shorter):g}"),
        (f"Shorter side under {SMALL} pixels", f"{small}; they are enlarged for the recipes for use"),
    )


def _imbalance(rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    """A few figures on how unequal labels and tones are."""
    labels = Counter(row.label for row in rows if row.label)
    if not labels:
        return ()
    (most, many), *_, (least, few) = [*labels.most_common(1), *labels.most_common()[-1:]]
    told = [("Commonest and rarest label", f"{most} ({many}) and {least} ({few}), {many / few:.1f} to 1")]
    kinds = {label: describe(label).malignancy for label in labels}
    known = [row for row in rows if row.label and kinds[row.label] in ("malignant", "benign", "premalignant")]
    for name, of in [("Malignant", known), *_by_tone(known)]:
        malignant = sum(kinds[row.label] == "malignant" for row in of)
        if of:
            told.append((name, f"{malignant} of {len(of)} ({malignant / len(of):.0%})"))
    unknown = sorted(label for label, kind in kinds.items() if kind == "unknown")
    if unknown:
        told.append(("Not known to be malignant or benign", ", ".join(unknown)))
    return tuple(told)


def _by_tone(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    tones: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.skin_tone:
            tones.setdefault((row.skin_tone_scale, row.skin_tone), []).append(row)
    ordered = sorted(tones, key=lambda of: (of[0], len(of[1]), of[1]))
    return [(f"Malignant of {scale} {tone}", tones[scale, tone]) for scale, tone in ordered]


MOST = 500  # problems of a kind that the page spells out


def quality_page(of: Quality, *, names: bool = True) -> str:
    """The page.

    Args:
        of: what is known.
        names: whether file names, and the texts that contain them, are on it.
    """
    environment = Environment(
        loader=FileSystemLoader([Path(__file__).parent, PAGE_FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    limits = {"to_tell": TO_TELL, "fewest": FEWEST_PATIENTS, "listed": LISTED, "most": MOST}
    return environment.get_template("quality.html").render(of=of, names=names, always=ALWAYS, **limits)


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
