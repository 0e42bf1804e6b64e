"""What `dermfed-train` prints: of checks, comparisons and runs, as tables or JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from personalization.report.comparison import Comparison, comparison_data, comparison_table
from registry.bundle.metrics.patient import FIGURES as FIGURES_OF_PATIENTS
from registry.bundle.metrics.patient import TOO_FEW, Told, patient_figures
from registry.bundle.text import printable
from training.jobs.disclosure_report import COLUMNS, Seen
from training.jobs.preflight import THIN, UNLABELLED, MatrixRow, Preflight
from training.jobs.stages.probe import FIGURES, NOTHING
from training.terminal_table import print_table
from training.wiring import CheckedFederation

CLIENTS = 12  # whose pictures are shown by class; of more clients a line each is shown


def preflight_tables(found: Preflight) -> Iterator[Table]:
    """Who holds what."""
    clients = list(dict.fromkeys(row.client for row in found.matrix if row.client is not None))
    few = len(clients) <= CLIENTS
    shown = [row for row in found.matrix if row.client is None or few]
    for client in dict.fromkeys(row.client for row in shown):
        yield matrix_table(client, [row for row in shown if row.client == client], found.unit)
    if not few:
        yield clients_table(found.matrix, found.unit)


def matrix_table(client: str | None, rows: Sequence[MatrixRow], unit: str) -> Table:
    """One client's pictures or lesions by split and subgroup, a column a class."""
    classes = list(dict.fromkeys(name for row in rows for name in row.pictures if name != UNLABELLED))
    classes += [UNLABELLED] if any(UNLABELLED in row.pictures for row in rows) else []
    whose = "all hospitals together" if client is None else client
    table = Table(
        title=f"{unit.capitalize()} of {whose}",
        title_justify="left",
        caption=f"* fewer than {THIN}: too few to tell much" if any(row.thin for row in rows) else None,
        caption_justify="left",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for header in ("split", "subgroup"):
        table.add_column(header, overflow="fold")
    for name in classes:
        table.add_column(Text(name), justify="right", overflow="fold")
    if client is not None:
        table.add_column("patients", justify="right", overflow="fold")
        table.add_column("told", overflow="fold")
    split = None
    for row in rows:
        cells = [cell(row, name) for name in classes]
        if client is not None:
            told = "" if row.disclosed is None else "yes" if row.disclosed else "no"
            cells += [str(row.patients), told]
        table.add_row("" if row.split == split else row.split, Text(row.subgroup), *cells)
        split = row.split
    return table


def cell(row: MatrixRow, name: str) -> str:
    """How many pictures of a class, marked where they are few."""
    n = row.pictures.get(name, 0)
    return f"{n}*" if name in row.thin else str(n)


def clients_table(rows: Sequence[MatrixRow], unit: str) -> Table:
    """The pictures or lesions of each of many clients by split."""
    table = Table(
        title=f"{unit.capitalize()} by client", title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0)
    )
    splits = list(dict.fromkeys(row.split for row in rows))
    table.add_column("client", overflow="fold")
    for split in (*splits, "not told"):
        table.add_column(split, justify="right", overflow="fold")
    for client in dict.fromkeys(row.client for row in rows if row.client is not None):
        mine = [row for row in rows if row.client == client]
        held = [sum(sum(row.pictures.values()) for row in mine if row.split == split) for split in splits]
        untold = sum(sum(row.pictures.values()) for row in mine if row.disclosed is False)
        table.add_row(Text(client), *map(str, (*held, untold)))
    return table


PROBED = {  # what is printed of a probe
    "malignancy_auroc": "AUROC of malignancy",
    "malignant_sensitivity": "sensitivity",
    "malignant_specificity": "specificity",
    "macro_f1": "macro F1",
}
_FOUND = "malignant_sensitivity"


def print_comparison(comparison: Comparison, *, as_json: bool) -> None:
    """Finished runs side by side."""
    if as_json:
        print(json.dumps(comparison_data(comparison)))
    else:
        print_table(comparison_table(comparison))


def print_check(checked: Preflight, *, as_json: bool) -> None:
    """What is known of a run before it begins; as JSON who holds what alone, as ever."""
    if as_json:
        print(json.dumps(checked.census.table()))
        return
    for table in preflight_tables(checked):
        print_table(table)
        print()
    if checked.seconds is not None:
        print(f"a batch of the first stage that trains takes {checked.seconds:.2g} s on this machine")
    print_seen(checked.seen)
    print_notes(checked.notes)


def print_notes(notes: Sequence[str]) -> None:
    """What should be known before a run, a line each."""
    console = Console()
    for line in notes:
        console.print(f"! {printable(line)}", highlight=False, markup=False, soft_wrap=True)


def print_federation(checked: CheckedFederation, *, as_json: bool) -> None:
    """The hospitals of a federation, and who sees what of theirs."""
    hospitals = checked.hospitals
    if as_json:
        print(json.dumps(asdict(checked)))
        return
    print(
        f"{len(hospitals)} hospitals: {printable(', '.join(hospitals))}; the pictures are theirs, and not "
        "looked at here"
    )
    print_seen(checked.seen)
    print_notes(checked.notes)


def print_seen(seen: Sequence[Seen]) -> None:
    """Who sees what of a job."""
    table = Table(title="Who sees what", title_justify="left", show_lines=True)
    for header in COLUMNS:
        table.add_column(header, overflow="fold")
    for row in seen:
        table.add_row(*row.cells)
    print_table(table)


def print_summary(summary: Mapping[str, Any], out: Path, *, as_json: bool) -> None:
    """The figures that matter first, and where the rest is."""
    if as_json:
        print(json.dumps(summary))
        return
    if summary["test"]:
        print_patient_figures(summary["test"])
    print_probes(summary["stages"])
    for stage in summary["stages"]:
        if (told := stage["facts"].get("missing")) is not None:
            lost = ", ".join(
                f"{of['pictures']} of {of['held']} {name}" for name, of in told["by_subgroup"].items()
            )
            without = (
                f"missing: {told['clients']} of {told['of']} hospitals in the figures of {stage['name']}"
            )
            print(printable(f"{without}; test pictures: {lost or 'none'}; see the report"))
    for name, of in summary.get("not_counted", {}).items():
        missing = of["held"] - of["counted"]
        print(f"not counted: {missing} of {of['held']} test pictures of {printable(name)}; see the report")
    for row in summary["versions"]:
        print(f"registered: {row['model']} version {row['version']} ({row['subgroup']})")
    if (out / "report.html").exists():
        print(printable(f"report: {out / 'report.html'}"))
    else:
        print("report: none, since no stage judged a model on test pictures")
    print(printable(f"summary: {out / 'summary.json'}"))
    for finding in summary.get("findings", ()):
        text = printable(finding["text"])
        Console().print(f"! {text}", style="red", markup=False, highlight=False, soft_wrap=True)


def print_patient_figures(test: Mapping[str, Any]) -> None:
    """What counts for a patient, over all test pictures and by subgroup, each with its 95 % interval.

    Sensitivity is shown by kind of malignancy as well.
    """
    table = Table(box=SIMPLE, padding=(0, 0), show_edge=False)  # fits into 80 columns
    for title in ("test pictures", "malignant", "other", *FIGURES_OF_PATIENTS.values()):
        table.add_column(title, overflow="fold")
    for name, row in patient_figures(test).items():
        sides = ("unknown" if n is None else str(n) for n in (row.n_malignant, row.n_other))
        table.add_row(Text(name), *sides, *(narrow(row.figures[figure]) for figure in FIGURES_OF_PATIENTS))
        for kind, of in row.by_kind.items():
            shown = ("", "", TOO_FEW) if of is None else (str(of.n), "", narrow(of.figures[_FOUND]))
            table.add_row(Text(f"  {kind}"), *shown)
    print_table(table)


def narrow(figure: Told) -> str:
    """A figure with its interval below."""
    if figure.value is None or figure.interval is None:
        return str(figure)
    low, high = figure.interval
    return f"{figure.value:.3f}\n{low:.2f}-{high:.2f}"


def print_probes(stages: Sequence[Mapping[str, Any]]) -> None:
    """What probes found of a run's encoder, with 95 % intervals, where it has any."""
    table = Table("probe", "test pictures", "n", *PROBED.values())
    for stage in stages:
        asked = [kind for kind in FIGURES if stage["name"] == "probe" and kind in stage["facts"]]
        for kind in asked:
            of = stage["facts"][kind] or NOTHING
            for name, row in {"all": of, **of["by_subgroup"]}.items():
                table.add_row(kind, name, str(row["n"]), *(with_interval(row, key) for key in PROBED))
    if table.rows:
        print_table(table)


def with_interval(figures: Mapping[str, Any], key: str) -> str:
    """A metric and its interval; empty where it is not reported for these pictures."""
    value, ends = figures.get(key), figures["intervals"].get(key)
    if value is None:
        return ""
    return f"{value:.3f}" if ends is None else f"{value:.3f} [{ends[0]:.3f}, {ends[1]:.3f}]"
