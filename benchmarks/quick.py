"""How a benchmark is started, and its form of seconds: `--quick`.

`--quick` stands for the smallest options at which each path of a script still runs, so that a test can tell
a script that works from one that does not. Its figures say nothing. Runs are kept in a folder that is gone
afterwards, recipes are cut to a round or two (`recipe_runs`), and in place of the published pictures there
are drawn ones in the same folders (`drawn_folders`): DERMFED_DATA is not needed.

A script that lacks what it needs says what, and ends with the exit code 77, as test programs of automake do.
"""

import os
import sys
import tempfile
from collections.abc import Callable
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
            from drawn_folders import draw_folders

            os.environ["DERMFED_DATA"] = str(draw_folders(Path(scratch) / "data"))
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
