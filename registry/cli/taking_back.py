"""`dermfed-registry stop` and `withdraw`: what answers no more."""

from typing import Annotated

import typer

from registry.cli.arguments import AsJson, Model, NeededReason, Numbers
from registry.cli.open import Key, open_signing
from registry.cli.output import answer, as_data
from registry.rendering.records import event_lines

STOP_EXAMPLES = ("demo --alias production --reason 'complaints from the ward'",)
WITHDRAW_EXAMPLES = (
    "demo 5 --reason 'misses melanoma on type VI'",
    "demo 4 5 --reason 'trained on wrong labels' --json",
)


def stop(
    context: typer.Context,
    model: Model,
    alias: Annotated[str, typer.Option(metavar="ALIAS", help="The alias that is to point to nothing.")],
    reason: NeededReason,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Have nothing answer under an alias.

    Services say so and refuse. `rollback` goes back to what ran before; `promote` begins anew, and carries
    nothing over.
    """
    with open_signing(context, key) as registry:
        event = registry.stop(model, alias=alias, reason=reason)
    found = {"event": None if event is None else as_data(event)}
    nothing = f"nothing to do: {alias} of {model} is stopped already"
    answer(found, nothing if event is None else event_lines(event), as_json)


def withdraw(
    context: typer.Context,
    model: Model,
    numbers: Numbers,
    reason: NeededReason,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Have harmful versions answer no more, anywhere, ever.

    Each alias whose release holds one goes back to the newest release before it that holds none, or is
    stopped where there is none; services follow within two seconds. A withdrawn version is never promoted,
    approved, gone back to, exported or imported again. There is no way back: add another version.
    """
    with open_signing(context, key) as registry:
        done = registry.withdraw(model, numbers, reason=reason)
    if done is None:
        answer({"event": None, "moved": [], "same_file": []}, "nothing to do: withdrawn already", as_json)
        return
    lines = [event_lines(event) for event in (done.event, *done.moved)]
    if not done.moved:
        lines.append("no alias points to a release that holds it")
    if done.same_file:
        others = ", ".join(f"version {number} of {name}" for name, number in done.same_file)
        have, them = ("has", "it") if len(done.same_file) == 1 else ("have", "them")
        lines.append(f"note: {others} {have} the same model.onnx; withdraw {them} too if that is what harms")
    answer(as_data(done), "\n".join(lines), as_json)
