"""What `--check` found, as tables for a terminal of 80 columns."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from training.jobs.preflight.matrix import THIN, UNLABELLED, MatrixRow
from training.jobs.preflight.preflight import Preflight

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
            told = "" if row.told is None else "yes" if row.told else "no"
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
        untold = sum(sum(row.pictures.values()) for row in mine if row.told is False)
        table.add_row(Text(client), *map(str, (*held, untold)))
    return table
