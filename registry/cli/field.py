"""`dermfed-registry field`: how the versions of a model do in the field, and which promises are broken."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from registry.cli.arguments import AsJson, Model, Reason
from registry.cli.field_counts import write_counts
from registry.cli.open import Key, open_outcomes, open_signing
from registry.cli.output import REFUSED, answer, as_data
from registry.environment import OUTCOMES
from registry.errors import (
    DatabaseError,
    InvalidName,
    NotFound,
    OutcomesNotNamed,
    PersonRefused,
    RegistryError,
)
from registry.rendering.records import event_lines

if TYPE_CHECKING:
    from registry.alarms.look import Look
    from registry.records import Event
    from registry.registry import Registry

EXAMPLES = (
    "demo",
    "demo --outcomes sqlite:////srv/dermfed/outcomes.db --json",
    "demo --name-outcomes",
    "demo --close 1 --reason 'a file of old outcomes, imported at once; the board has looked at it'",
    "demo --allow-withdraw production",
    "demo --act",
    "demo --counts field.json",
)


def field(
    context: typer.Context,
    model: Model,
    outcomes: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"The database of outcomes. By default {OUTCOMES}."),
    ] = None,
    name_outcomes: Annotated[
        bool,
        typer.Option(
            "--name-outcomes",
            help="Have history name this database of outcomes as the model's; in place of another one it "
            "needs --reason.",
        ),
    ] = False,
    close: Annotated[
        int | None, typer.Option(metavar="N", help="Close this alarm for good; needs --reason.")
    ] = None,
    allow_withdraw: Annotated[
        str | None,
        typer.Option(metavar="ALIAS", help="Let `--act` move this alias back when an alarm concerns it."),
    ] = None,
    forbid_withdraw: Annotated[str | None, typer.Option(metavar="ALIAS", help="Let it no longer.")] = None,
    act: Annotated[
        bool,
        typer.Option(
            "--act", help="Move the allowed aliases that an open alarm concerns; meant for a timer."
        ),
    ] = False,
    counts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the counts alone, for a node that adds them up."),
    ] = None,
    reason: Reason = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Show figures of the field by version and subgroup, and promises that were broken.

    They are of answers that the service has kept, and of outcomes that came back. A broken promise is an
    alarm, which history keeps until somebody closes it with a reason; a promise is watched anew from then
    on. With `--act`, each alias that was allowed to goes back to the newest release before without a
    withdrawn version or an open alarm, once for each alarm. Exit code 1: an alarm is open. With `--counts`
    nothing is judged: the counts are written, for `dermfed-node start --field`.
    """
    given = [each is not None for each in (close, allow_withdraw, forbid_withdraw, counts)]
    if sum([name_outcomes, act, *given]) > 1:
        raise InvalidName(
            "--name-outcomes, --close, --allow-withdraw, --forbid-withdraw, --act and --counts are asked one "
            "at a time"
        )
    with open_signing(context, key) as registry:
        if counts is not None:
            write_counts(registry, model, outcomes, counts, as_json)
        elif close is not None:
            _tell(registry.close_alarm(model, close, reason=reason), "", as_json)
        elif alias := allow_withdraw or forbid_withdraw:
            allowed = allow_withdraw is not None
            event = registry.allow_withdraw(model, alias, allowed=allowed, reason=reason)
            _tell(event, f"alarms {'may' if allowed else 'may not'} move {alias} of {model} already", as_json)
        elif name_outcomes:
            with open_outcomes(outcomes, "--outcomes", create=False) as store:
                event = registry.name_outcomes(model, store, reason=reason)
            _tell(event, "it is named already", as_json)
        elif act:
            _act(registry, model, outcomes, as_json)
        else:
            _show(registry, model, outcomes, as_json)


def _tell(event: "Event | None", nothing: str, as_json: bool) -> None:
    text = f"nothing to do: {nothing}" if event is None else event_lines(event)
    answer({"event": None if event is None else as_data(event)}, text, as_json)


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
        found = registry.field(model, store, before_naming=True)
        if not found.report and not found.open:
            return found, []
        try:
            registry.name_outcomes(model, store)
            if not registry.tell_alarms(model, found):
                return found, []
        except (PersonRefused, DatabaseError) as error:
            return found, [f"History has not been told: {error}"]
        return registry.field(model, store), []


def _act(registry: "Registry", model: str, outcomes: str | None, as_json: bool) -> None:
    """Acts on what history knows even where outcomes cannot be read now."""
    from registry.cli.field_text import open_data

    unread: RegistryError | None = None
    told: tuple[Event, ...] = ()
    try:
        with open_outcomes(outcomes, "--outcomes", create=False) as store:
            told = registry.tell_alarms(model, registry.field(model, store))
    except (DatabaseError, InvalidName, OutcomesNotNamed) as error:
        unread = error
    acted = registry.act_on_alarms(model)
    still = open_data(registry.alarms(model))
    data: dict[str, Any] = {
        "told": [as_data(one) for one in told],
        "moved": [as_data(one) for one in acted.moved],
        "stuck": list(acted.stuck),
        "open": still,
    }
    lines = [*map(event_lines, (*told, *acted.moved)), *acted.stuck]
    answer(data, "\n".join(lines) or ("an alarm is open" if still else "no alarm is open"), as_json)
    if unread is not None:
        raise unread
    if still:
        raise typer.Exit(REFUSED)
