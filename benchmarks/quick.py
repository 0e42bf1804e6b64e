"""What every benchmark uses: how it starts, its short form `--quick`, and the tables it prints.

`--quick` sets the smallest options at which each path of a script still runs, so that a test can tell a
script that works from one that does not; its figures mean nothing. Runs go to a temporary folder, recipes are
cut to a round or two (`recipe_runs`), and drawn pictures replace MILK10k's: DERMFED_DATA is not needed.

A script that lacks what it needs says what, and ends with the exit code 77, as test programs of automake do.
"""

import csv
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

LACKING = 77
SCRATCH = "{scratch}"  # in an option: the folder that is gone afterwards
ASKED = "DERMFED_BENCHMARK_QUICK"  # processes that a script starts see it too


def start(main: Callable[..., Any], *quick: str, pictures: bool = False) -> None:
    """Read the command line and do what it asks.

    Args:
        main: the benchmark, its parameters the options.
        quick: the options for which `--quick` stands; with several, the script runs once with each. What is
            given beside `--quick` counts more.
        pictures: whether it looks at the pictures of DERMFED_DATA.
    """
    app = typer.Typer(add_completion=False)
    app.command(epilog=f"--quick stands for: {', then '.join(quick)}")(main)
    given = sys.argv[1:]
    if "--quick" not in given:
        if pictures and "--help" not in given:
            need_data()
        app()
        return
    given.remove("--quick")
    with tempfile.TemporaryDirectory(prefix="quick-") as scratch:
        os.environ |= {ASKED: "1", "DERMFED_CACHE": f"{scratch}/cache"}
        if pictures:
            os.environ["DERMFED_DATA"] = str(draw_folder(Path(scratch) / "data"))
        for options in quick:
            code = app([*options.replace(SCRATCH, scratch).split(), *given], standalone_mode=False)
            if code:
                raise SystemExit(code)


def is_quick() -> bool:
    """Whether this is the form of seconds."""
    return ASKED in os.environ


def need_data() -> None:
    """Ends where DERMFED_DATA does not say where the published pictures are."""
    if not Path(os.environ.get("DERMFED_DATA") or "/nowhere").is_dir():
        lack("DERMFED_DATA names no folder; set it to the one that holds the published pictures")


def need_module(name: str, install: str) -> None:
    """Ends where a module is not installed, and says how to install it."""
    if find_spec(name) is None:
        lack(f"the module {name} is not installed; `{install}` does it")


def lack(what: str) -> None:
    """Ends the script, which lacks something."""
    print(f"needs: {what}", file=sys.stderr)
    raise SystemExit(LACKING)


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
        f"Python {platform.python_version()}, torch {version('torch')}"
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


SIZE = 64
MILK10K_CODES = ("AKIEC", "BCC", "BEN_OTH", "BKL", "DF", "INF", "MAL_OTH", "MEL", "NV", "SCCKA", "VASC")
TONES = range(6)
KINDS = ("clinical: close-up", "dermoscopic")
SITES = ("head_neck_face", "trunk", "hand", "foot", "upper extremity", "lower extremity")


def draw_folder(data: Path, each: int = 6) -> Path:
    """MILK10k as it is published, but small and drawn: `each` lesions of every diagnosis and tone.

    Returns `data`, which holds its folder; of every lesion there is a picture of each kind.
    """
    folder = data / "milk10k"
    folder.mkdir(parents=True)
    truth, metadata = [], []
    places = [(code, tone) for _ in range(each) for code in MILK10K_CODES for tone in TONES]
    for lesion, (code, tone) in enumerate(places):
        name = f"IL_{lesion:07d}"
        truth.append({"lesion_id": name, **{other: float(other == code) for other in MILK10K_CODES}})
        for kind in KINDS:
            metadata.append(
                {
                    "lesion_id": name,
                    "image_type": kind,
                    "isic_id": f"ISIC_{len(metadata):07d}",
                    "skin_tone_class": tone,
                    "site": SITES[lesion % len(SITES)],
                    "age_approx": 20 + lesion % 60,
                    "sex": ("female", "male")[lesion % 2],
                }
            )
    for name, rows in (("GroundTruth", truth), ("Metadata", metadata)):
        header = list(rows[0])
        write_table(folder / f"MILK10k_Training_{name}.csv", header, [list(row.values()) for row in rows])

    from PIL import Image

    from clients.data.synthetic import case_of, draw

    for index, row in enumerate(metadata):
        Image.fromarray(draw(case_of(1, index), SIZE)).save(folder / f"{row['isic_id']}.jpg", quality=90)
    return data
