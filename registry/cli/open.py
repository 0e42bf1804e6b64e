"""Opens the registry for a command, and imports then what speaks to a database: `--help` needs none."""

from gc import freeze
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from registry.environment import OUTCOMES, PASSWORD, SIGNING_KEY, outcomes_url
from registry.errors import InvalidName

if TYPE_CHECKING:
    from registry.outcomes.store import OutcomeStore
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


def open_outcomes(url: str | None, option: str, *, create: bool) -> "OutcomeStore":
    """The database of outcomes that `url` names, or `DERMFED_OUTCOMES_URL`.

    Args:
        url: as it was given.
        option: by which option.
        create: whether one that is not there is made.

    Raises:
        InvalidName: neither names one.
        RegistryError: it cannot be opened.
    """
    from registry.outcomes.store import OutcomeStore

    named = outcomes_url(url)
    if named is None:
        raise InvalidName(
            f"no database of outcomes is named; set {OUTCOMES} to the one that the service writes to, or say "
            f"{option} sqlite:////srv/dermfed/outcomes.db"
        )
    return OutcomeStore.open(named, create=create)
