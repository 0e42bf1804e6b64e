"""`dermfed-registry keys`: make, list, rotate and revoke keys to the service."""

from datetime import timedelta
from typing import Annotated

import typer

from registry.bundle.plain_text import shown_name
from registry.cli.arguments import AsJson
from registry.cli.open import Key, open_registry, open_signing
from registry.cli.output import answer, as_data
from registry.records import ROTATION_GRACE, SCOPES, moment
from registry.rendering.records import key_table

ADD_EXAMPLES = (
    "ward-3",
    "'dermatology app' --scope diagnose --scope read --per-minute 60",
    "prometheus --scope operate --expires 365 --json",
)
KEYS_LIST_EXAMPLES = ("", "--json")
ROTATE_EXAMPLES = ("0123456789ab", "0123456789ab --grace 1 --json")
REVOKE_EXAMPLES = ("0123456789ab",)

_Id = Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.")]
_KEEP = "keep the line above, it is not shown again"


def keys_add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom or what the key is for.")],
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", metavar="SCOPE", help=f"What it may ask for: {', '.join(SCOPES)}. By default all."
        ),
    ] = None,
    expires: Annotated[
        float | None, typer.Option(metavar="DAYS", help="For how long it is good; by default for ever.")
    ] = None,
    per_minute: Annotated[
        int | None,
        typer.Option(metavar="N", help="Requests a minute; by default what the service grants to any key."),
    ] = None,
    signing: Key = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. Its secret is printed once, and kept nowhere.

    Scopes: diagnose is sending pictures, read is seeing what is served and model cards, operate is seeing
    metrics and the operator's view.
    """
    with open_signing(context, signing) as registry:
        key, secret = registry.create_key(
            name, scopes=scopes or SCOPES, expires=_time("days", expires), per_minute=per_minute
        )
    until = "" if key.expires is None else f", good until {moment(key.expires)}"
    text = f"{secret}\nkey {key.id} for {shown_name(key.name)} ({', '.join(key.scopes)}{until}): {_KEEP}"
    answer({**as_data(key), "secret": secret}, text, as_json)


def keys_list(context: typer.Context, as_json: AsJson = False) -> None:
    """List keys, those that are over too."""
    with open_registry(context) as registry:
        keys = registry.keys()
    answer(as_data(keys), key_table(keys) if keys else "no key yet", as_json)


def keys_rotate(
    context: typer.Context,
    id: _Id,
    grace: Annotated[
        float, typer.Option(metavar="HOURS", help="For how long the old key stays good.")
    ] = ROTATION_GRACE / timedelta(hours=1),
    signing: Key = None,
    as_json: AsJson = False,
) -> None:
    """Make a key in the place of another, with a secret of its own.

    Name, scopes and rate are the old one's, and it is good for as long as the old one was to be. Both are
    good until the grace is over. The new secret is printed once, and kept nowhere.
    """
    with open_signing(context, signing) as registry:
        done = registry.rotate_key(id, grace=_time("hours", grace) or timedelta(0))
    old, key = done.old, done.key
    made = f"{done.secret}\nkey {key.id} for {shown_name(key.name)}: {_KEEP}"
    text = f"{made}\nkey {old.id} is good until {moment(old.expires)}"
    answer({"old": as_data(old), "key": {**as_data(key), "secret": done.secret}}, text, as_json)


def keys_revoke(context: typer.Context, id: _Id, signing: Key = None, as_json: AsJson = False) -> None:
    """Revoke a key for good."""
    with open_signing(context, signing) as registry:
        key = registry.revoke_key(id)
    answer(as_data(key), key_table([key]), as_json)


def _time(unit: str, count: float | None) -> timedelta | None:
    """So many of a unit; what is no time at all is the longest, which no key can be good for."""
    if count is None:
        return None
    try:
        return timedelta(**{unit: count})
    except (OverflowError, ValueError):
        return timedelta.max
