"""The console scripts: each is the `main` of its room, looked up once its name is known to be ours.

A script says `from dermfed.commands import serve`. Were it `from serving.cli import main`, another `serving`
would fail there, or run, before anything of ours could say so.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from io import TextIOWrapper
from typing import Any

from dermfed.own_names import refuse_foreign

COMMANDS = {
    "train": "training.run",
    "data": "clients.data.cli",
    "registry": "registry.cli.app",
    "outcomes": "registry.cli.outcomes",
    "serve": "serving.cli",
    "diagnose": "clients.diagnose",
    "node": "clients.node.cli",
}


def __getattr__(name: str) -> Callable[[], Any]:
    """The command's own `main`.

    Raises:
        AttributeError: there is no such command.
    """
    if name not in COMMANDS:
        raise AttributeError(f"dermfed has no command {name}; it has {', '.join(COMMANDS)}")
    refuse_foreign()
    if isinstance(
        sys.stdout, TextIOWrapper
    ):  # a file on Windows takes few letters; standard error spells them
        sys.stdout.reconfigure(errors="backslashreplace")
    main: Callable[[], Any] = import_module(COMMANDS[name]).main
    return main
