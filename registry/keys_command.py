"""`dermfed-registry keys`: make, list and revoke keys to the service."""

import json
from typing import Annotated, Any

import typer

from registry.printing import as_data, key_table
from registry.registry import Registry

ADD_EXAMPLES = ("ward-3", "'dermatology, second floor' --json")
LIST_EXAMPLES = ("", "--json")
REVOKE_EXAMPLES = ("0123456789ab",)

_AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]


def keys_add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom or what the key is for.")],
    as_json: _AsJson = False,
) -> None:
    """Make a key. Its secret is printed once, and kept nowhere."""
    with Registry.open(*context.obj) as registry:
        key, secret = registry.create_key(name)
    text = f"{secret}\nkey {key.id} for {key.name}: keep the line above, it is not shown again"
    _answer({**as_data(key), "secret": secret}, text, as_json)


def keys_list(context: typer.Context, as_json: _AsJson = False) -> None:
    """List keys, revoked ones too."""
    with Registry.open(*context.obj) as registry:
        keys = registry.keys()
    _answer(as_data(keys), key_table(keys) if keys else "no key yet", as_json)


def keys_revoke(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.")],
    as_json: _AsJson = False,
) -> None:
    """Revoke a key for good."""
    with Registry.open(*context.obj) as registry:
        key = registry.revoke_key(id)
    _answer(as_data(key), key_table([key]), as_json)


def _answer(answer: Any, text: str, as_json: bool) -> None:
    typer.echo(json.dumps(answer, indent=2) if as_json else text)
