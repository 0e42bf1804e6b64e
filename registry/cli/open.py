"""Opens the registry for a command, and imports then what speaks to a database: `--help` needs none."""

from gc import freeze
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from registry.environment import PASSWORD, SIGNING_KEY

if TYPE_CHECKING:
    from registry.registry import Registry

Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help=f"Your private key in PEM, which signs this; by default {SIGNING_KEY}. Its password is read "
        f"from {PASSWORD}.",
    ),
]

AsPromoter = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="The private key of whoever will promote, whose own approval does not count; nothing is signed. "
        f"By default {SIGNING_KEY}; its password is read from {PASSWORD}.",
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
    from registry.registry import key_signatory

    signatory = key_signatory(key)
    return open_registry(context).signed_by(signatory)
