"""Opens the registry for a command, and imports then what speaks to a database: `--help` needs none."""

import os
from gc import freeze
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from registry.people.signatory import KeySignatory
    from registry.registry import Registry

PASSWORD, SIGNING_KEY = "DERMFED_KEY_PASSWORD", "DERMFED_SIGNING_KEY"

Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help=f"Your private key in PEM, which signs this; by default {SIGNING_KEY}. Its password is read "
        f"from {PASSWORD}.",
    ),
]


def open_registry(context: typer.Context) -> "Registry":
    """The registry that `--url` and `--store` name.

    Raises:
        RegistryError: it cannot be opened.
    """
    from registry.registry import Registry

    freeze()  # what was imported stays to the end: not for the collector to look through
    return Registry.open(*context.obj)


def open_signing(context: typer.Context, key: Path | None) -> "Registry":
    """The same, for whoever signs what they do: with this key, or that of `DERMFED_SIGNING_KEY`, if any.

    Raises:
        KeyUnusable: the file holds no private key that can be used.
        RegistryError: the registry cannot be opened.
    """
    signatory = _signatory(key)
    return open_registry(context).signed_by(signatory)


def _signatory(key: Path | None) -> "KeySignatory | None":
    named = os.environ.get(SIGNING_KEY, "")
    file = key or (Path(named) if named else None)
    if file is None:
        return None
    from registry.people.signatory import KeySignatory  # cryptography is an extra, and only this needs it

    return KeySignatory.read(file, os.environ.get(PASSWORD))
