"""`dermfed-outcomes`: outcomes from a CSV file and into one; `dermfed-registry field`: metrics and alarms."""

import csv
import os
import sys
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

from registry.bundle.text import shown
from registry.cli.common import (
    Call,
    Model,
    Reason,
    ShowVersion,
    argument,
    as_data,
    command,
    open_outcomes,
    option,
    program,
    run,
)
from registry.environment import OUTCOMES
from registry.errors import DatabaseError, InvalidName, NotFound, PersonRefused
from registry.views.tables import columns, lines_of

if TYPE_CHECKING:
    from registry.outcomes.alarms import Monitoring
    from registry.outcomes.intake import Line
    from registry.outcomes.metrics import SubgroupReport
    from registry.outcomes.store import OutcomeRefused, Taken
    from registry.registry import Registry

MOST_SHOWN = 20  # refused lines that are shown one by one

app = program("dermfed-outcomes")

Url = Annotated[
    str | None,
    option(
        "URL",
        "The database of outcomes, sqlite:///path/outcomes.db or postgresql://user@host/name. By "
        f"default {OUTCOMES}.",
        "--url",
    ),
]


@app.callback()
def dermfed_outcomes(_version: ShowVersion = False) -> None:
    """What lesions turned out to be: outcomes of answers that the service has kept.

    Exit codes: 0 done; 1 some outcomes were refused; 2 wrong use or bad input.
    """


@command(
    "import",
    "outcomes.csv",
    "outcomes.csv --refused refused.csv --url sqlite:////srv/dermfed/outcomes.db",
    of=app,
)
def import_(
    call: Call,
    file: Annotated[Path, argument("FILE", "A CSV file; `-` for standard input.")],
    refused: Annotated[
        Path | None, option("CSV", "Write refused lines there as they are, with the reason, to mend.")
    ] = None,
    url: Url = None,
) -> None:
    """Import outcomes from a CSV file with the columns id, label, confirmed_by, date and perhaps corrects.

    `id` is that of the diagnosis, `label` a code of the version that answered (an empty one withdraws the
    outcome), `confirmed_by` is histopathology, dermatologist or follow-up, `date` is YEAR-MONTH-DAY. A line
    with `yes` under `corrects` may replace another outcome. Lines that are known already change nothing, so
    a file whose import was cut short is simply imported again.
    """
    from registry.outcomes.intake import import_outcomes, read_outcomes

    lines = 0
    with ExitStack() as stack:
        writer = csv.writer(stack.enter_context(_own_file(refused))) if refused else None
        if writer:
            writer.writerow(["line", "why", "text"])

        def refuse(line: "Line", why: "OutcomeRefused") -> None:
            nonlocal lines
            lines += 1
            if writer:
                writer.writerow([line.number, shown(str(why)), shown(line.text)])
            if lines <= MOST_SHOWN:
                print(shown(f"line {line.number}: {why.unquoted}"), file=sys.stderr)

        store = stack.enter_context(open_outcomes(url, "--url"))
        source = stack.enter_context(sys.stdin.buffer if str(file) == "-" else file.open("rb"))
        accepted = import_outcomes(store, read_outcomes(source), refuse)
    if lines > MOST_SHOWN:
        where = f"all are in {refused}" if refused else "write them to a file with --refused"
        print(shown(f"and {lines - MOST_SHOWN:,} more; {where}"), file=sys.stderr)
    kinds: tuple[Taken, ...] = ("new", "corrected", "withdrawn", "known already")
    data = {kind.replace(" ", "_"): accepted[kind] for kind in kinds} | {"refused": lines}
    text = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in data.items())
    call.answer(data, f"{sum(data.values()):,} outcomes: {text}", refused=bool(lines))


@command("export", "outcomes.csv", "- --model skin-lesion | gzip > outcomes.csv.gz", of=app)
def export(
    call: Call,
    file: Annotated[Path, argument("FILE", "The file to write; `-` for standard output.")],
    model: Annotated[str | None, option("MODEL", "Outcomes of its versions alone; by default all.")] = None,
    url: Url = None,
) -> None:
    """Export outcomes to a CSV file with the columns id, label, confirmed_by, date, model, version.

    They are as known now; a withdrawn one has an empty label. Ids lead back to patients for anyone who noted
    them: only the owner can read the file.
    """
    from registry.outcomes.intake import export_outcomes

    with (
        open_outcomes(url, "--url") as store,
        nullcontext(sys.stdout) if str(file) == "-" else _own_file(file) as target,
    ):
        written = export_outcomes(store, target, model)
    if str(file) != "-":
        call.answer({"file": str(file), "outcomes": written}, shown(f"{file}: {written:,} outcomes"))


@command("forget", "--days 730", of=app)
def forget(
    call: Call, days: Annotated[int, option("N", "Keep answers of so many days.", min=1)], url: Url = None
) -> None:
    """Remove older answers with their outcomes and counts; they count in no metric any more."""
    before = datetime.now(UTC).date() - timedelta(days=days)
    with open_outcomes(url, "--url") as store:
        removed = store.forget(before)
    text = f"{removed:,} answers from before {before} removed"
    call.answer({"before": str(before), "removed": removed}, text)


def _own_file(path: Path) -> TextIO:
    """A new file that only its owner can read.

    Raises:
        InvalidName: the file exists.
    """
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="")
    except FileExistsError as error:
        raise InvalidName(f"{path} is there already; name another file, or move it away") from error


def main() -> None:
    """The console script."""
    run(app)


@command(
    "field",
    "demo",
    "demo --outcomes sqlite:////srv/dermfed/outcomes.db --json",
    "demo --close 1 --reason 'a file of old outcomes, imported at once; the board has looked at it'",
    signs=True,
)
def field(
    call: Call,
    model: Model,
    outcomes: Annotated[
        str | None, option("URL", f"The database of outcomes. By default {OUTCOMES}.")
    ] = None,
    close: Annotated[int | None, option("N", "Close this alarm for good; needs --reason.")] = None,
    reason: Reason = None,
) -> None:
    """Show post-deployment metrics by version and subgroup, and alarms: targets that are missed.

    Metrics are of answers that the service has kept and of their outcomes. New alarms are recorded in history
    and stay open until they are closed with a reason; then the target is monitored again from the next day
    on. Exit code 1: an alarm is open.
    """
    with call.registry() as registry:
        if close is not None:
            call.event(registry.close_alarm(model, close, reason=reason))
            return
        found, issue = _recorded(registry, model, outcomes)
    if not found.subgroups and not found.open:
        raise NotFound(
            f"no answer of {model} is stored in the database of outcomes; the service stores them where "
            f"{OUTCOMES} names a database"
        )
    subgroups = [as_data(one) for one in found.subgroups]
    for one in subgroups:
        one |= {"figures": one.pop("metrics"), "promises": one.pop("targets")}
    data = {"subgroups": subgroups, "alarms": [as_data(one) for one in found.alarms]}
    call.answer(data, _text(found) + issue, refused=bool(found.open))


def _recorded(registry: "Registry", model: str, outcomes: str | None) -> "tuple[Monitoring, str]":
    """Metrics and alarms after new alarms were recorded; why they were not, if they cannot be."""
    with open_outcomes(outcomes, "--outcomes") as store:
        found = registry.field(model, store)
        try:
            if registry.record_alarms(model, found):
                found = registry.field(model, store)
        except (PersonRefused, DatabaseError) as error:
            return found, f"\nNew alarms cannot be recorded in history: {error}"
        return found, ""


HEADER = (
    *("version", "subgroup", "answered", "outcomes", "malignant"),
    *("sensitivity", "corrected", "specificity", "corrected", "set contained it"),
)
NOTE = (
    "Sensitivity and specificity are those at the working point, with 95 % intervals: first among patients "
    "with an outcome, then corrected for who is followed up (Begg and Greenes 1983). The correction is right "
    "where follow-up depends on the answer alone; where clinicians also follow up what they doubt, it is too "
    "low, and alarms accuse versions that meet their targets."
)


def _text(found: "Monitoring") -> str:
    """A line for each subgroup; then targets that are not monitored, and all alarms, the open ones first."""
    lines = [
        f"NOT MONITORED: the {target.of} of {target.least:.2f} of version {one.version} for {one.subgroup}: "
        "too few outcomes have come of one side of the working point, or of both"
        for one in found.subgroups
        for target in one.targets
        if not target.windows
    ]
    for alarm in found.open:
        evidence = f"{alarm.outcomes:,} outcomes, evidence {alarm.evidence:.3g} of {alarm.limit:.3g}"
        recorded = "" if alarm.number else "; not in history yet"
        to_do = "Withdraw the version, roll back, or close the alarm with a reason"
        lines.append(f"OPEN: {alarm} ({evidence}{recorded}). {to_do}")
    lines += [str(one) for one in found.alarms if one.closed]
    triage = [_triage(one) for one in found.subgroups if one.triage]
    rows = [_row(one) for one in found.subgroups]
    return "\n".join(
        [
            columns(HEADER, rows),
            "",
            NOTE,
            *(["", *triage] if triage else []),
            *(["", lines_of(lines)] if lines else []),
        ]
    )


def _triage(one: "SubgroupReport") -> str:
    """What became of the lesions of each level of triage, among those with an outcome."""
    said = []
    for of in one.triage:
        kinds = ", ".join(f"{code} {n:,}" for code, n in of.malignant.items())
        low, high = of.share.interval
        limits = f" ({low:.2f} to {high:.2f})" if of.outcomes else ""
        said.append(f"{of.level} {of.outcomes:,}, malignant {sum(of.malignant.values()):,}{limits}: {kinds}")
    return f"Triage of version {one.version} for {one.subgroup}, lesions with an outcome: {'; '.join(said)}."


def _row(one: "SubgroupReport") -> list[str]:
    of = one.metrics
    assert of is not None  # the owner of the database sees all
    shares = (of.sensitivity.seen, of.sensitivity.corrected, of.specificity.seen, of.specificity.corrected)
    cells = []
    for share in (*shares, of.coverage.seen):
        value = "unknown" if share.value is None else f"{share.value:.2f}"
        cells.append(f"{value} ({share.interval[0]:.2f} to {share.interval[1]:.2f})")
    counts = [f"{n:,}" for n in (one.answered, one.outcomes, one.malignant or 0)]
    return [f"{one.version} ({one.made_for})", one.subgroup, *counts, *cells]


if __name__ == "__main__":
    main()
