"""What `dermfed-diagnose` asks about, and the formats of its answers.

It asks about pictures by themselves, or the lesions of a table with facts; it answers in text for a person,
JSON, or CSV for a spreadsheet.
"""

import csv
import errno
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from clients.api import Diagnosis, InvalidInput, Malignancy, TriageEvidence
from clients.data.output import sync_file, write_atomically
from registry.bundle.text import on_one_line
from training.terminal_table import print_table

NAME: Final = "case"
PICTURES: Final = ("image", "close_up", "dermoscopic", "overview")
FACTS: Final = ("age", "sex", "site")
TONE: Final = ("skin_tone", "skin_tone_scale")
OTHER_FACT: Final = "fact:"
"""What the name of a column begins with that is any other fact of the model."""


@dataclass(frozen=True)
class Lesion:
    """One lesion to request a diagnosis for.

    Attributes:
        name: identifies its answer.
        arguments: of `DermFed.diagnose`.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def read_lesions(path: Path) -> list[Lesion]:
    """The lesions of a CSV file, a row each; paths of pictures are relative to the file's folder.

    Raises:
        InvalidInput: the file cannot be read, has a column that is not sent, a row without a name of its own
            or without a picture, or names a picture that is not there.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            columns, rows = reader.fieldnames or (), list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} cannot be read as a CSV file ({error}); name another") from error
    allowed = (NAME, *PICTURES, *FACTS, *TONE)
    if wrong := [one for one in columns if one not in allowed and not one.startswith(OTHER_FACT)]:
        raise InvalidInput(
            f"{path} has the column {', '.join(wrong)}, which is not sent; columns are {', '.join(allowed)}, "
            f"and {OTHER_FACT}NAME for another fact of the model"
        )
    if NAME not in columns or not rows:
        raise InvalidInput(f"{path} has no column `{NAME}`, or no rows; give a name to each lesion")
    return list(_lesions(path, rows))


def _lesions(path: Path, rows: Sequence[Mapping[str | None, Any]]) -> Iterator[Lesion]:
    names: set[str] = set()
    for number, row in enumerate(rows, start=2):
        if not _is_whole(row):
            raise InvalidInput(f"{path}, line {number}: more or fewer cells than columns; mend it")
        cells = {str(column): cell.strip() for column, cell in row.items() if cell.strip()}
        name = cells.pop(NAME, "")
        if not name or name in names:
            raise InvalidInput(
                f"{path}, line {number}: {name or 'no name'}; each lesion has a name of its own"
            )
        names.add(name)
        pictures: dict[str, Path] = {
            column: path.parent / cells[column] for column in PICTURES if column in cells
        }
        if not pictures:
            raise InvalidInput(f"{path}, line {number}: no picture; name one in {', '.join(PICTURES)}")
        for picture in pictures.values():
            if not picture.is_file():
                raise InvalidInput(f"{path}, line {number}: there is no picture {picture}; mend its path")
        facts = {
            column.removeprefix(OTHER_FACT): cell
            for column, cell in cells.items()
            if column in FACTS or column.startswith(OTHER_FACT)
        }
        tone: dict[str, str] = {column: cells[column] for column in TONE if column in cells}
        yield Lesion(name, {**pictures, **tone, "facts": facts})


DECISIONS = {
    "report": "The findings may be reported",
    "refer": "A clinician has to look at this picture",
    "retake": "Take the picture again",
}
TRIAGE = {
    "urgent": "Urgent: a clinician has to see this lesion before others",
    "routine": "Routine: a clinician looks",
    "ruled-out": "Ruled out: each kind of malignancy is missed in at most {limit} of lesions",
}
SHOWN = {"subgroup": "for this skin tone", "global": "over all skin tones, not for each"}
PROMISES = {
    "subgroup": "holds the right one for {coverage} of pictures of this skin tone",
    "global": "holds the right one for {coverage} of pictures of all skin tones, not of each",
    "none": "nothing is promised",
}

# What a spreadsheet takes for the beginning of a formula, and what it skips to find one.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_BEFORE = ("\t", "\r", "\n")


class Output:
    """A sink for results, which holds on to the standard output it was made with: a progress bar replaces it.

    Attributes:
        scrolls: whether results go to the standard output as they come.
    """

    scrolls = True

    def __init__(self) -> None:
        self._out = sys.stdout

    def left(self, lesions: Sequence[Lesion]) -> Sequence[Lesion]:
        """The lesions that are still to be asked about."""
        return lesions

    def add(self, file: str, answer: Diagnosis | str) -> None:
        """Take the answer for one file: a diagnosis, or the text of the error in its place."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish what was begun."""


class AsText(Output):
    """One picture as text for a person: triage and the decision first, the disclaimer last."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(file=self._out, highlight=False)

    def add(self, file: str, answer: Diagnosis | str) -> None:
        """Print the diagnosis; an error was printed before."""
        if isinstance(answer, str):
            return
        triaged = list(_triage(answer))
        no_answer = bool(triaged) and answer.decision == "refer"
        meaning = "No diagnosis is sure enough to be reported" if no_answer else DECISIONS[answer.decision]
        first, *others = [*triaged, f"{answer.decision.upper()}. {meaning}."]
        for line in (f"{file}: {first}", *others):
            self._line(on_one_line(line))
        self._line("")
        table = Table("code", "finding", "malignancy", box=None, pad_edge=False)
        table.add_column("probability", justify="right")
        for finding in answer.findings:
            texts = (finding.code, finding.name, finding.malignancy, _number(finding.probability))
            table.add_row(*(Text(on_one_line(text)) for text in texts))
        if answer.findings:
            print_table(table, self._console)
            self._line("")
        for line in _facts(answer):
            self._line(on_one_line(line))
        self._line(f"\n{on_one_line(answer.disclaimer)}")

    def _line(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


class AsLines(Output):
    """One line of text per picture."""

    def add(self, file: str, answer: Diagnosis | str) -> None:
        """Print the line; an error was printed before."""
        if isinstance(answer, str):
            return
        top, risk = answer.top, answer.malignancy
        parts = [
            *([answer.triage] if answer.triage else []),
            answer.decision,
            *([f"{top.code} {_number(top.probability)}"] if top is not None else []),
            f"malignancy {_number(risk.probability)}{' (suspicious)' if risk.above else ''}",
            f"set {', '.join(answer.prediction_set.codes)}",
        ]
        typer.echo(f"{file}: {on_one_line('; '.join(parts))}", file=self._out)


class AsJson(Output):
    """The service's JSON with `file` and `error` in front: an object for one picture, else an array."""

    scrolls = False

    def __init__(self, single: bool) -> None:
        super().__init__()
        self._single = single
        self._answers: list[dict[str, Any]] = []

    def add(self, file: str, answer: Diagnosis | str) -> None:
        """Keep the answer until all are there."""
        said: dict[str, Any] = {"file": file, "error": None}
        if isinstance(answer, str):
            said["error"] = answer
        else:
            said |= answer.model_dump(mode="json", exclude_unset=True)
        self._answers.append(said)

    def close(self) -> None:
        """Print all answers."""
        if self._answers or not self._single:
            shown = self._answers[0] if self._single else self._answers
            typer.echo(json.dumps(shown, indent=2), file=self._out)


class AsCsv(Output):
    """A CSV row per picture, written as it comes."""

    COLUMNS = (
        *("file", "triage", "decision", "top_code", "probability", "malignancy", "set", "guarantee"),
        *("model", "version", "subgroup", "route", "warnings", "error"),
    )
    OF_CASES = ("pattern", "promised", "would_help")

    def __init__(self, path: Path | None, *, resume: bool = False, of_cases: bool = False) -> None:
        """Write to `path`, which the first row makes or replaces, or to the standard output.

        Args:
            path: None for the standard output.
            resume: whether the file begins with the diagnoses that it holds already.
            of_cases: whether what is told of cases is in it, too.

        Raises:
            InvalidInput: the file to go on with is none that this command has written.
            OSError: it cannot be read, or not be written.
        """
        self._columns = self.COLUMNS + (self.OF_CASES if of_cases else ())
        self._kept = _diagnosed(path, self._columns) if resume and path else []
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise OSError(errno.ENOENT, "name a file in a folder that exists")
        super().__init__()
        self.scrolls = path is None
        self._path = path
        self._begun = False

    def left(self, lesions: Sequence[Lesion]) -> Sequence[Lesion]:
        """The lesions that no row of an earlier run is about."""
        done = {row["file"] for row in self._kept}
        return [one for one in lesions if escape_formula(on_one_line(one.name)) not in done]

    def add(self, file: str, answer: Diagnosis | str) -> None:
        """Write one row."""
        if not self._begun:
            self._begin()
        row = {"file": file, **({"error": answer} if isinstance(answer, str) else _cells(answer))}
        self._write(
            [escape_formula(cell) if isinstance(cell, str) else cell for cell in map(row.get, self._columns)]
        )

    def close(self) -> None:
        """Close the file."""
        if self._begun and self._path is not None:
            self._out.close()

    def _begin(self) -> None:
        self._begun = True
        if self._path is None or not self._kept:
            if self._path is not None:
                self._out = self._path.open("w", encoding="utf-8", newline="")
            self._write(self._columns)
            return
        with write_atomically(self._path) as temporary:  # what is kept is there at every moment
            with temporary.open("w", encoding="utf-8", newline="") as self._out:
                self._write(self._columns)
                for row in self._kept:
                    self._write(row[column] for column in self._columns)
            sync_file(temporary)
        self._out = self._path.open("a", encoding="utf-8", newline="")

    def _write(self, cells: Iterable[object]) -> None:
        csv.writer(self._out, lineterminator="\n").writerow(cells)
        self._out.flush()


def _diagnosed(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of an earlier run that hold a diagnosis; none where there is no file.

    Rows with an error are left out, and so is a last row that breaks off: both are asked for again.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        rows = csv.DictReader(io.StringIO(text, newline=""))
        found, names = list(rows), rows.fieldnames
    except FileNotFoundError:
        return []
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is no CSV file ({error}); name another, or leave out --resume") from error
    if "\n" not in text and ",".join(columns).startswith(text):  # it broke off in the first line
        return []
    if tuple(names or ()) != tuple(columns):
        raise InvalidInput(
            f"{path} has other columns than dermfed-diagnose writes; name another file, or leave out --resume"
        )
    return [row for row in found if _is_whole(row) and row["decision"]]


def _is_whole(row: Mapping[str | None, Any]) -> bool:
    """Whether a row has a cell in every column, and none besides."""
    return None not in row and None not in row.values()


def _cells(diagnosis: Diagnosis) -> dict[str, object]:
    top, inputs = diagnosis.top, diagnosis.inputs
    return {
        "pattern": inputs and inputs.pattern,
        "promised": inputs and ("yes" if inputs.promised else "no"),
        "would_help": "; ".join(", ".join(one.missing) for one in diagnosis.would_help),
        "triage": diagnosis.triage,
        "decision": diagnosis.decision,
        "top_code": top and top.code,
        "probability": top and top.probability,
        "malignancy": diagnosis.malignancy.probability,
        "set": ";".join(diagnosis.prediction_set.codes),
        "guarantee": diagnosis.prediction_set.guarantee,
        "model": diagnosis.model.name,
        "version": diagnosis.model.version,
        "subgroup": diagnosis.model.subgroup,
        "route": diagnosis.model.route,
        "warnings": " ".join(diagnosis.warnings),
    }


def _facts(diagnosis: Diagnosis) -> Iterator[str]:
    """The lines below the table of findings."""
    kept, quality = diagnosis.prediction_set, diagnosis.quality
    promise = PROMISES[kept.guarantee].format(coverage=f"{kept.coverage:.0%}")
    codes = ", ".join(kept.codes) or "no class reaches the threshold"
    yield f"Possible: {codes} ({promise}; {kept.calibration_n} lesions)"
    yield _malignancy(diagnosis.malignancy)
    if (given := diagnosis.inputs) is not None:
        facts = ", ".join(f"{name} {value}" for name, value in given.facts.items()) or "no facts"
        promised = "a coverage is promised" if given.promised else "nothing is promised"
        yield f"Given: {', '.join(given.pictures)}; {facts} ({promised} for such cases)"
    for one in diagnosis.would_help:
        yield (
            f"Would help: {', '.join(one.missing)} (in calibration {one.fewer_classes:.1f} fewer classes "
            f"possible, {100 * one.more_reported:.0f} more of 100 lesions reported)"
        )
    if quality.issues or not quality.acceptable:
        judged = "acceptable" if quality.acceptable else "not acceptable"
        yield f"Quality: {judged}{': ' if quality.issues else ''}{' '.join(quality.issues)}"
    model = diagnosis.model
    yield f"Model: {model.name}, version {model.version}, for {model.subgroup} ({model.route})"
    yield from (f"Reason: {reason.text}" for reason in diagnosis.reasons)
    yield from (f"Warning: {warning}" for warning in diagnosis.warnings)


def _triage(diagnosis: Diagnosis) -> Iterator[str]:
    """Who has to see the lesion, and what was shown of that; nothing without triage."""
    evidence = diagnosis.triage_evidence
    if diagnosis.triage is None or evidence is None:
        return
    yield f"{TRIAGE[diagnosis.triage].format(limit=f'{evidence.missed.limit:.0%}')}."
    if evidence.guarantee == "none":
        yield "Nothing was shown of this triage for such a lesion."
        return
    yield from _limits(evidence)
    yield (
        f"Shown {SHOWN[evidence.guarantee]}, {evidence.basis}; each limit holds with "
        f"{evidence.confidence:.0%} confidence."
    )


def _limits(evidence: TriageEvidence) -> Iterator[str]:
    """A line for each limit that is kept; one that is not says why nothing is ruled out, or urgent."""
    missed, urgent = evidence.missed, evidence.false_alarms
    if all(one.high <= missed.limit for one in missed.kinds):
        for one in missed.kinds:
            yield f"{one.kind}: at most {_upper(one.high)} ruled out ({one.missed} of {one.n})"
    if urgent.high <= urgent.limit:
        yield f"not malignant: at most {_upper(urgent.high)} urgent ({urgent.seen} of {urgent.n})"


def _upper(limit: float) -> str:
    """An upper limit, never rounded down."""
    return f"{ceil(round(1000 * limit, 6)) / 10:g} %"


def _malignancy(risk: Malignancy) -> str:
    said = f"Malignancy: {_number(risk.probability)}"
    if risk.threshold is None:
        return said
    said += f", {'suspicious' if risk.above else 'below the working point'} ({risk.threshold:.3f})"
    if risk.sensitivity is None or risk.specificity is None:
        return said
    return (
        f"{said}; of {risk.n} malignant test pictures {risk.sensitivity:.1%} were suspicious, of others "
        f"{1 - risk.specificity:.1%}"
    )


def _number(probability: float | None) -> str:
    return "not known" if probability is None else f"{probability:.3f}"


def escape_formula(text: str) -> str:
    """The text, with an apostrophe in front where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_BEFORE) or text.lstrip().startswith(_FORMULA) else text
