"""`dermfed-outcomes`: what became of the patients, from a file of the hospital's pathology and into one.

`dermfed-registry field`: how the versions of a model do in the field, and which promises are broken.

Figures of the field and alarms as `dermfed-registry field` tells them: text and data.
"""

import csv
import os
import sys
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import numpy as np
import typer

from registry.bundle.text import shown
from registry.cli.common import (
    REFUSED,
    AsJson,
    Key,
    Model,
    Reason,
    answer,
    as_data,
    open_outcomes,
    open_signing,
    run,
)
from registry.environment import OUTCOMES
from registry.errors import DatabaseError, InvalidName, NotFound, PersonRefused
from registry.outcomes.alarms import Alarm, said
from registry.views.records import event_lines
from registry.views.tables import columns, lines_of

if TYPE_CHECKING:
    from registry.bundle.metrics.intervals import Limits
    from registry.outcomes.alarms import FoundAlarm, Look
    from registry.outcomes.intake import Line
    from registry.outcomes.monitoring import Kept, SubgroupInField
    from registry.outcomes.records import OutcomeRefused
    from registry.registry import Registry

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
    from registry.outcomes.intake import import_outcomes, read_outcomes

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
    from registry.outcomes.intake import current_outcomes, write_outcomes

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


EXAMPLES = (
    "demo",
    "demo --outcomes sqlite:////srv/dermfed/outcomes.db --json",
    "demo --close 1 --reason 'a file of old outcomes, imported at once; the board has looked at it'",
)


def field(
    context: typer.Context,
    model: Model,
    outcomes: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"The database of outcomes. By default {OUTCOMES}."),
    ] = None,
    close: Annotated[
        int | None, typer.Option(metavar="N", help="Close this alarm for good; needs --reason.")
    ] = None,
    reason: Reason = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show figures of the field by version and subgroup, and promises that were broken.

    They are of answers that the service has kept, and of outcomes that came back. A broken promise is an
    alarm, which history keeps until somebody closes it with a reason; a promise is watched anew from then
    on. Exit code 1: an alarm is open.
    """
    with open_signing(context, key) as registry:
        if close is not None:
            event = registry.close_alarm(model, close, reason=reason)
            answer({"event": as_data(event)}, event_lines(event), as_json)
        else:
            _show(registry, model, outcomes, as_json)


def _show(registry: "Registry", model: str, outcomes: str | None, as_json: bool) -> None:
    found, untold = _looked(registry, model, outcomes)
    if not found.report and not found.open:
        raise NotFound(
            f"no answer of {model} is kept in the database of outcomes; the service keeps them where "
            f"{OUTCOMES} names a database"
        )
    data = {"subgroups": field_data(found), "alarms": alarm_data(found)}
    answer(data, "\n".join([field_text(found), *untold]), as_json)
    if found.open:
        raise typer.Exit(REFUSED)


def _looked(registry: "Registry", model: str, outcomes: str | None) -> "tuple[Look, list[str]]":
    """A look whose alarms history knows; why it does not, where it cannot be told."""
    with open_outcomes(outcomes, "--outcomes", create=False) as store:
        found = registry.field(model, store)
        if not found.report and not found.open:
            return found, []
        try:
            if not registry.tell_alarms(model, found):
                return found, []
        except (PersonRefused, DatabaseError) as error:
            return found, [f"History has not been told: {error}"]
        return registry.field(model, store), []


HEADER = (
    *("version", "subgroup", "answered", "outcomes", "malignant"),
    *("sensitivity", "corrected", "specificity", "corrected", "set held it"),
)
NOTE = (
    "Sensitivity and specificity are those at the working point, with 95 % intervals: first among the "
    "followed up, then corrected for who is (Begg and Greenes 1983). The correction holds where following up "
    "depends on the answer alone; where clinicians also follow up what they doubt, it accuses too much."
)


def field_text(found: "Look") -> str:
    """Figures, one subgroup on each line; below, all alarms, the open ones first."""
    text = [columns(HEADER, [_row(one) for one in found.report]), "", NOTE]
    told = sorted(found.alarms, key=lambda one: (not one.is_open, one.number))
    lines = [_unwatched(one, kept) for one in found.report for kept in one.kept if not kept.windows]
    lines += [_alarm(one) for one in told if one.is_open]
    lines += [f"OPEN, and not in history yet: {said(one)}. {_TO_DO}" for one in found.untold]
    lines += [str(one) for one in told if not one.is_open]
    return "\n".join([*text, *(["", lines_of(lines)] if lines else [])])


_TO_DO = "Withdraw the version, go back to the release before, or close the alarm with a reason"


def _alarm(one: Alarm) -> str:
    found = one.found
    evidence = f"{found.outcomes:,} outcomes, evidence {found.evidence:.3g} of {found.limit:.3g}"
    return f"OPEN: {one} ({evidence}). {_TO_DO}"


def _unwatched(one: "SubgroupInField", kept: "Kept") -> str:
    promise = kept.promise
    return (
        f"NOT WATCHED: the {promise.what} of {promise.least:.2f} that version {one.version} promises "
        f"{one.subgroup}: too few outcomes have come of one side of the working point, or of both"
    )


def _row(one: "SubgroupInField") -> list[str]:
    of = one.figures
    return [
        f"{one.version} ({one.made_for})",
        one.subgroup,
        f"{of.answered:,}",
        f"{of.confirmed:,}",
        f"{of.malignant:,}",
        *map(_told, (of.seen_sensitivity, of.sensitivity, of.seen_specificity, of.specificity, one.coverage)),
    ]


def _told(limits: "Limits") -> str:
    ends = f"{float(limits.low):.2f} to {float(limits.high):.2f}"
    return f"unknown ({ends})" if np.isnan(limits.value) else f"{float(limits.value):.2f} ({ends})"


def field_data(found: "Look") -> list[dict[str, Any]]:
    """Figures and promises of each version and subgroup."""
    return [_data(one) for one in found.report]


def alarm_data(found: "Look") -> list[dict[str, Any]]:
    """Every alarm; those that history does not know have no number."""
    return [*map(_alarm_data, found.alarms), *map(_found_data, found.untold)]


def _alarm_data(one: Alarm) -> dict[str, Any]:
    closed = (
        None
        if one.closed is None
        else {"time": one.closed.isoformat(), "by": one.closed_by, "reason": one.why}
    )
    return {**_found_data(one.found), "number": one.number, "event": one.event, "closed": closed}


def _found_data(one: "FoundAlarm") -> dict[str, Any]:
    return {
        "number": None,
        "version": one.version,
        "subgroup": one.subgroup,
        "of": one.of,
        "least": one.least,
        "day": str(one.day),
        "found": one.found.isoformat(),
        "evidence": one.evidence,
        "limit": one.limit,
        "outcomes": one.outcomes,
        "closed": None,
    }


def _data(one: "SubgroupInField") -> dict[str, Any]:
    of = one.figures
    figures = {
        "sensitivity": {"seen": _limits(of.seen_sensitivity), "corrected": _limits(of.sensitivity)},
        "specificity": {"seen": _limits(of.seen_specificity), "corrected": _limits(of.specificity)},
        "coverage": {"seen": _limits(one.coverage)},
    }
    return {
        "version": one.version,
        "made_for": one.made_for,
        "subgroup": one.subgroup,
        "since": str(one.since),
        "answered": of.answered,
        "outcomes": of.confirmed,
        "malignant": of.malignant,
        "reported": one.reported,
        "figures": figures,
        "promises": [
            {
                "of": kept.promise.what,
                "least": kept.promise.least,
                "why": kept.promise.why,
                "outcomes": kept.outcomes,
                "evidence": kept.evidence,
                "limit": kept.limit,
                "broken_on": None if kept.broken_on is None else str(kept.broken_on),
                "windows": kept.windows,
            }
            for kept in one.kept
        ],
    }


def _limits(limits: "Limits") -> dict[str, Any]:
    value = None if np.isnan(limits.value) else float(limits.value)
    return {"value": value, "interval": [float(limits.low), float(limits.high)]}
