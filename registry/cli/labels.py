"""`dermfed-registry tag`, `untag`, `note` and `find`: what people say of versions, and finding them by it."""

from typing import Annotated

import typer

from registry.cli.arguments import AsJson, Model, Number
from registry.cli.open import Key, open_registry, open_signing
from registry.cli.output import answer, as_data
from registry.records import SEARCHED
from registry.rendering.records import event_lines
from registry.rendering.table import columns, printable

TAG_EXAMPLES = ("demo 5 reviewed", "demo 5 reviewed trial-2")
UNTAG_EXAMPLES = ("demo 5 trial-2",)
NOTE_EXAMPLES = ("demo 5 'weak on the soles of feet; see the ward\\'s list'",)
FIND_EXAMPLES = ("reviewed", "sha256:3f2a", "'soles of feet' --json")

Tags = Annotated[list[str], typer.Argument(metavar="TAG...", help="Short names, such as reviewed.")]


def tag(
    context: typer.Context, model: Model, number: Number, tags: Tags, key: Key = None, as_json: AsJson = False
) -> None:
    """Give a version tags, to find it by.

    A tag changes nothing of what answers. `list --tag` shows the versions that have one.
    """
    with open_signing(context, key) as registry:
        event = registry.tag(model, number, tags)
    found = {"event": None if event is None else as_data(event)}
    nothing = f"nothing to do: version {number} of {model} has these tags"
    answer(found, nothing if event is None else event_lines(event), as_json)


def untag(
    context: typer.Context, model: Model, number: Number, tags: Tags, key: Key = None, as_json: AsJson = False
) -> None:
    """Take tags away from a version; history keeps that it had them."""
    with open_signing(context, key) as registry:
        event = registry.untag(model, number, tags)
    answer({"event": as_data(event)}, event_lines(event), as_json)


def note(
    context: typer.Context,
    model: Model,
    number: Number,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be known of it.")],
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Write a note on a version, which `show` and history tell for ever.

    Write nothing of a patient: history is never changed.
    """
    with open_signing(context, key) as registry:
        event = registry.note(model, number, text)
    answer({"event": as_data(event)}, event_lines(event), as_json)


def find(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A part of a name, tag or note; or a digest.")],
    as_json: AsJson = False,
) -> None:
    """Find versions by names of models and subgroups, tags, notes, reasons of withdrawals, or digests.

    In any case; of digests the beginning, with or without sha256:. No bundle is opened: what is in manifests
    alone, such as recipe and clients, is not searched.
    """
    with open_registry(context) as registry:
        hits = registry.find(text)
    rows = [[one.model, str(one.number), one.subgroup, "; ".join(one.because)] for one in hits]
    told = columns(("model", "version", "subgroup", "found in"), rows) if rows else printable(f"no {text!r}")
    end = f"{len(hits)} found; searched: {', '.join(SEARCHED)}"
    answer({"searched": SEARCHED, "found": as_data(hits)}, f"{told}\n{end}", as_json)
