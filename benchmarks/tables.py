"""What a benchmark prints: its conditions as a list, and its figures as a Markdown table to be pasted.

Or writes: the same table as CSV, of which `figures.py` draws.
"""

import csv
import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch


def print_conditions(title: str, conditions: Mapping[str, object]) -> None:
    """The title, what was measured under which settings, and on which machine."""
    print(f"### {title}\n")
    for name, value in {**conditions, "machine": machine()}.items():
        print(f"- {name}: {value}")
    print(flush=True)


def machine() -> str:
    """Processor kind, cores, and the versions that figures depend on."""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A Markdown table; columns are padded so that it also reads well in a terminal."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(header))]
    cells.insert(1, ["-" * width for width in widths])
    for row in cells:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
    print(flush=True)


WITH_INTERVAL = re.compile(r"(\S+) \[(\S+), (\S+)\]")


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A CSV; after a column with intervals come its `<column> low` and `<column> high`."""
    cells = [[str(cell) for cell in row] for row in rows]
    split = [any(WITH_INTERVAL.fullmatch(row[place]) for row in cells) for place in range(len(header))]
    names = [
        part
        for name, parts in zip(header, split, strict=True)
        for part in ((name, f"{name} low", f"{name} high") if parts else (name,))
    ]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in cells:
            written: list[str] = []
            for cell, parts in zip(row, split, strict=True):
                found = WITH_INTERVAL.fullmatch(cell)
                written += (list(found.groups()) if found else [cell, "", ""]) if parts else [cell]
            writer.writerow(written)
