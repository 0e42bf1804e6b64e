"""How every command answers: JSON for programs (`--json`), or text for people."""

import json
import shutil
import sys
from typing import Any

from pydantic import TypeAdapter

REFUSED = 1
"""The exit code where the question was understood and the answer is no."""


def as_data(record: Any) -> Any:
    """A record, or a tuple or dict of them, as what JSON can hold."""
    return TypeAdapter(type(record)).dump_python(record, mode="json")


def answer(data: Any, text: str, as_json: bool) -> None:
    """Print what a command found, for a program or for a person."""
    print(json.dumps(data, indent=2) if as_json else text)


def terminal_columns() -> int | None:
    """How wide the terminal is that the answer goes to; nothing where it goes into a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
