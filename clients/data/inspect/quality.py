"""The quality of a manifest: counts with their thin cells, what is missing or broken, and what to do."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from statistics import median

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from clients.data.inspect.check import COLUMNS as HOSPITALS
from clients.data.inspect.check import KINDS, CheckReport, ManifestProblem, check_manifest
from clients.data.manifests.csv_file import scan_manifests
from clients.data.manifests.manifest import (
    IMAGE_KIND,
    Manifest,
    Row,
    components,
    linkage_keys,
    number_lesions,
)
from clients.data.output import LISTED
from clients.data.pictures.files import PictureReader, UnreadablePictureError, locate
from clients.data.taxonomy import describe
from registry.bundle.cases import UNKNOWN
from registry.bundle.skin_tone import SCALES
from registry.bundle.text import PAGE_FOLDER
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
    """An issue to fix, or to know of.

    Attributes:
        title: what it is.
        count: how many rows or times.
        next: what to do.
        causes: the problems by cause, each with its number, the most frequent first.
        texts: where, with names of files; not shown where names are hidden.
        may_stay: whether a job runs with it.
    """

    title: str
    count: int
    next: str
    causes: tuple[tuple[str, int], ...] = ()
    texts: tuple[str, ...] = ()
    may_stay: bool = False


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
        broken=_broken(report),
        notes=report.notes,
        sizes=_sizes(manifest),
        imbalance=_imbalance(rows),
    )


def _tables(manifest: Manifest, patients: Sequence[int]) -> tuple[Counts, ...]:
    rows = manifest.rows
    scales = Counter(row.skin_tone_scale for row in rows if row.skin_tone)
    tables = []
    for scale, _ in scales.most_common():

        def tone(row: Row, scale: str = scale) -> str:
            return row.skin_tone if row.skin_tone_scale == scale else ""

        tables.append(_table(f"Labels by skin tone, {scale}", rows, patients, tone, SCALES.get(scale, ())))
    if any(row.split for row in rows):
        order = ("train", "validation", "calibration", "test")
        tables.append(_table("Labels by split", rows, patients, lambda row: row.split, order))
    named = [name for name in manifest.extra_columns if name.lower() in HOSPITALS]
    for name in [name for name in named if len(set(manifest.values(name))) <= TO_TELL]:

        def hospital(row: Row, name: str = name) -> str:
            return row.value(name)

        tables.append(_table(f"Labels by {name}", rows, patients, hospital, ()))
    return tuple(tables) or (_table("Labels", rows, patients, lambda row: "", ()),)


def _table(
    title: str,
    rows: Sequence[Row],
    patients: Sequence[int],
    value: Callable[[Row], str],
    order: Sequence[str],
) -> Counts:
    """Count labels by a value; values in `order` first, those that are not known last."""
    seen = {value(row) for row in rows}
    values = [each for each in order if each in seen or seen & set(order)]
    values += sorted(seen - {*order, ""}) + [""] * ("" in seen)
    cells: dict[tuple[str, str], list[int]] = {}
    for row, patient in zip(rows, patients, strict=True):
        cells.setdefault((row.label, value(row)), []).append(patient)
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
        (*(each or "not known" for each in values), "all"),
        tuple(
            (
                "all" if label is None else label or "no label",
                tuple(count(label, each) for each in [*values, None]),
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


def _broken(report: CheckReport) -> tuple[Finding, ...]:
    """The problems that `check` finds, by kind and cause."""
    by_kind: dict[str, list[ManifestProblem]] = {}
    for problem in report.problems:
        by_kind.setdefault(problem.kind, []).append(problem)
    findings = []
    for kind, problems in by_kind.items():
        about = KINDS[kind]
        causes = Counter(problem.cause for problem in problems if problem.cause)
        texts = tuple(problem.text for problem in problems)
        findings.append(
            Finding(
                about.title, len(problems), about.next, tuple(causes.most_common()), texts, about.may_stay
            )
        )
    return tuple(findings)


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
    return (
        _environment()
        .get_template("quality.html")
        .render(
            of=of,
            names=names,
            to_tell=TO_TELL,
            fewest=FEWEST_PATIENTS,
            listed=LISTED,
            always=ALWAYS,
            most=MOST,
        )
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader([Path(__file__).parent, PAGE_FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
