"""What a benchmark prints: its conditions as a list, and its figures as a Markdown table to be pasted."""

import os
import platform
from collections.abc import Mapping, Sequence

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
