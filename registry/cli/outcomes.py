"""`dermfed-outcomes`: what became of the patients, from a file of the hospital's pathology and into one."""

import csv
import os
import sys
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from registry.bundle.plain_text import shown
from registry.cli.arguments import AsJson
from registry.cli.open import open_outcomes
from registry.cli.output import REFUSED, answer
from registry.cli.run import run
from registry.environment import OUTCOMES
from registry.errors import InvalidName

if TYPE_CHECKING:
    from registry.outcomes.csv_file import Line
    from registry.outcomes.outcome import OutcomeRefused

MOST_TOLD = 20
"""Refused lines that are told one by one."""

app = typer.Typer(name="dermfed-outcomes", no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The database of outcomes, sqlite:///path/outcomes.db or postgresql://user@host/name. By "
        f"default {OUTCOMES}.",
    ),
]


@app.callback()
def dermfed_outcomes() -> None:
    """What became of the patients: outcomes for answers that the service has kept.

    Exit codes: 0 done; 1 some outcomes were refused; 2 wrong use or bad input.
    """


@app.command(
    "import",
    epilog="""Examples:

\b
  dermfed-outcomes import outcomes.csv
  dermfed-outcomes import outcomes.csv --refused refused.csv --url sqlite:////srv/dermfed/outcomes.db
""",
)
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV file; `-` for standard input.")],
    refused: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Write the refused lines there as they are, each with why; to be mended."
        ),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Import outcomes from a CSV file with the columns id, label, confirmed_by, date and perhaps corrects.

    `id` is that of the diagnosis, `label` a code of the version that answered (an empty one withdraws what
    was said before), `confirmed_by` is histopathology, dermatologist or follow-up, `date` is YEAR-MONTH-DAY.
    A line with `yes` under `corrects` may take the place of another outcome. Lines that are known already
    change nothing, so a file whose import was cut short is simply imported again.
    """
    from registry.outcomes.csv_file import read_outcomes
    from registry.outcomes.importing import import_outcomes

    told = _Refused(refused)
    with told, open_outcomes(url, "--url", create=False) as store:
        opened = sys.stdin.buffer if str(file) == "-" else file.open("rb")
        with opened as source:
            found = import_outcomes(store, read_outcomes(source), told.add)
    told.sum_up(found.refused)
    data = {**{name: found.taken[name] for name in ("new", "corrected", "withdrawn")}}
    data |= {"known_already": found.taken["known already"], "refused": found.refused}
    text = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in data.items())
    answer(data, f"{found.lines:,} outcomes: {text}", as_json)
    if found.refused:
        raise typer.Exit(REFUSED)


@app.command(
    "export",
    epilog="""Examples:

\b
  dermfed-outcomes export outcomes.csv
  dermfed-outcomes export - --model skin-lesion | gzip > outcomes.csv.gz
""",
)
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; `-` for standard output.")],
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Outcomes of its versions alone; by default all.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Export outcomes to a CSV file with the columns id, label, confirmed_by, date, model, version.

    They are as they stand now; one that was taken back has an empty label. Ids lead back to patients for
    whoever wrote them down: the file is its owner's alone.
    """
    from registry.outcomes.exporting import current_outcomes, write_outcomes

    with open_outcomes(url, "--url", create=False) as store:
        found = current_outcomes(store, model)
        with nullcontext(sys.stdout) if str(file) == "-" else _own_file(file) as target:
            written = write_outcomes(found, target)
    if str(file) != "-":
        answer({"file": str(file), "outcomes": written}, shown(f"{file}: {written:,} outcomes"), as_json)


@app.command(
    "forget",
    epilog="""Examples:

\b
  dermfed-outcomes forget --days 730
""",
)
def forget(
    days: Annotated[int, typer.Option(min=1, metavar="N", help="Keep those of so many days.")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Remove answers that are older, with their outcomes and counts: nothing of them can be told any more."""
    before = datetime.now(UTC).date() - timedelta(days=days)
    with open_outcomes(url, "--url", create=False) as store:
        removed = store.forget(before)
    answer(
        {"before": str(before), "removed": removed},
        f"{removed:,} answers from before {before} removed",
        as_json,
    )


def _own_file(path: Path) -> TextIO:
    """A new file that its owner alone reads.

    Raises:
        InvalidName: there is one already.
    """
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="")
    except FileExistsError as error:
        raise InvalidName(f"{path} is there already; name another file, or move it away") from error


class _Refused:
    """Where refused lines go: to a file, and the first of them to the terminal, without what they hold."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._told = 0

    def __enter__(self) -> "_Refused":
        if self._path is not None:
            self._file = _own_file(self._path)
            csv.writer(self._file).writerow(["line", "why", "text"])
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, line: "Line", why: "OutcomeRefused") -> None:
        """Takes a line that was refused."""
        if self._file is not None:
            csv.writer(self._file).writerow([line.number, shown(str(why)), shown(line.text)])
        if self._told < MOST_TOLD:
            self._told += 1
            print(shown(f"line {line.number}: {why.unquoted}"), file=sys.stderr)

    def sum_up(self, refused: int) -> None:
        """Says what was not told line by line."""
        if refused > self._told:
            where = f"all are in {self._path}" if self._path else "write them to a file with --refused"
            print(shown(f"and {refused - self._told:,} more; {where}"), file=sys.stderr)


def main() -> None:
    """The console script."""
    run(app)


if __name__ == "__main__":
    main()
