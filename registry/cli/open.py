"""Opens the registry for a command, and imports then what speaks to a database: `--help` needs none."""

from gc import freeze
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from registry.registry import Registry


def open_registry(context: typer.Context) -> "Registry":
    """The registry that `--url` and `--store` name.

    Raises:
        RegistryError: it cannot be opened.
    """
    from registry.registry import Registry

    freeze()  # what was imported stays to the end: not for the collector to look through
    return Registry.open(*context.obj)
