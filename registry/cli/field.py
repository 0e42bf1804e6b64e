"""`dermfed-registry field`: how the versions of a model do in the field, and which promises are broken."""

from typing import TYPE_CHECKING, Annotated

import typer

from registry.cli.arguments import AsJson, Model, Reason
from registry.cli.open import Key, open_outcomes, open_signing
from registry.cli.output import REFUSED, answer, as_data
from registry.environment import OUTCOMES
from registry.errors import (
    DatabaseError,
    NotFound,
    PersonRefused,
)
from registry.rendering.records import event_lines

if TYPE_CHECKING:
    from registry.alarms.look import Look
    from registry.registry import Registry

EXAMPLES = (
    "demo",
    "demo --outcomes sqlite:////srv/dermfed/outcomes.db --json",
    "demo --close 1 --reason 'a file of old outcomes, imported at once; the board has looked at it'",
)


def field(
    context: typer.Context,
    model: Model,
    outcomes: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"The database of outcomes. By default {OUTCOMES}."),
    ] = None,
    close: Annotated[
        int | None, typer.Option(metavar="N", help="Close this alarm for good; needs --reason.")
    ] = None,
    reason: Reason = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show figures of the field by version and subgroup, and promises that were broken.

    They are of answers that the service has kept, and of outcomes that came back. A broken promise is an
    alarm, which history keeps until somebody closes it with a reason; a promise is watched anew from then
    on. Exit code 1: an alarm is open.
    """
    with open_signing(context, key) as registry:
        if close is not None:
            event = registry.close_alarm(model, close, reason=reason)
            answer({"event": as_data(event)}, event_lines(event), as_json)
        else:
            _show(registry, model, outcomes, as_json)


def _show(registry: "Registry", model: str, outcomes: str | None, as_json: bool) -> None:
    from registry.cli.field_text import alarm_data, field_data, field_text

    found, untold = _looked(registry, model, outcomes)
    if not found.report and not found.open:
        raise NotFound(
            f"no answer of {model} is kept in the database of outcomes; the service keeps them where "
            f"{OUTCOMES} names a database"
        )
    data = {"subgroups": field_data(found), "alarms": alarm_data(found)}
    answer(data, "\n".join([field_text(found), *untold]), as_json)
    if found.open:
        raise typer.Exit(REFUSED)


def _looked(registry: "Registry", model: str, outcomes: str | None) -> "tuple[Look, list[str]]":
    """A look whose alarms history knows; why it does not, where it cannot be told."""
    with open_outcomes(outcomes, "--outcomes", create=False) as store:
        found = registry.field(model, store)
        if not found.report and not found.open:
            return found, []
        try:
            if not registry.tell_alarms(model, found):
                return found, []
        except (PersonRefused, DatabaseError) as error:
            return found, [f"History has not been told: {error}"]
        return registry.field(model, store), []
