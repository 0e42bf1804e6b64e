"""The console's page: choose, compare, copy the command; and what was done to the model."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from registry.bundle.errors import BundleError
from registry.errors import RegistryError
from registry.gate_report import Comparison, set_title
from registry.records import Event, Release, Withdrawal
from registry.registry import Registry
from registry.views.records import NOT_SIGNED, OVERRIDDEN, event_view
from registry.views.tables import lines_of
from serving.console.choosing import WITHOUT, Choice, Row, read_choice, rows
from serving.web.rendering import render

NEWEST: Final = 50
"""Events that are shown."""

_TOLD: Final = {"withdrawn": "WITHDRAWN", "stopped": "STOPPED"}


@dataclass(frozen=True)
class Done:
    """One event of a model's history.

    Attributes:
        lines: what was done, and what was said of it.
        gates: what gates said.
        time: when, in UTC.
        who: by whom.
        sure: how sure that is, in words; empty where it takes nobody in particular.
        forged: whether it says to be signed, and is not.
        stands_out: what must not be overlooked, in a word; empty where nothing.
    """

    lines: Sequence[str]
    gates: Sequence[str]
    time: str
    who: str
    sure: str
    forged: bool
    stands_out: str


@dataclass(frozen=True)
class Seen:
    """What is known of one model at one moment.

    Attributes:
        models: the names of all models.
        choice: what was chosen.
        rows: what can be chosen, by subgroup.
        aliases: where aliases point.
        stopped: aliases that point to nothing, with the event that stopped them.
        withdrawn: versions that were withdrawn.
        comparison: what would change; None where nothing was chosen, or it cannot be told.
        trouble: why it cannot be told; empty where it can.
        history: what was done, the newest first.
        older: how many older events there are.
    """

    models: Sequence[str]
    choice: Choice
    rows: Sequence[Row] = ()
    aliases: Mapping[str, Release] = field(default_factory=dict)
    stopped: Mapping[str, Event] = field(default_factory=dict)
    withdrawn: Sequence[Withdrawal] = ()
    comparison: Comparison | None = None
    trouble: str = ""
    history: Sequence[Done] = ()
    older: int = 0


def look(
    registry: Registry, query: Sequence[tuple[str, str]], default_model: str | None, default_alias: str
) -> Seen:
    """Reads what the page shows; blocks, so run it in a thread.

    Raises:
        RegistryError: the registry cannot be read.
    """
    models = registry.models()
    choice = read_choice(query, models, default_model, default_alias)
    if choice.model is None:
        return Seen(models, choice)
    aliases = registry.aliases(choice.model)
    withdrawn = registry.withdrawals(choice.model)
    numbers = {one.number for one in withdrawn}
    comparison, trouble = _compare(registry, choice)
    events = registry.history(choice.model, NEWEST)
    forged = registry.forged(events)
    return Seen(
        models=models,
        choice=choice,
        rows=rows(choice, registry.versions(choice.model), aliases.get(choice.alias), numbers),
        aliases=aliases,
        stopped=registry.stopped(choice.model),
        withdrawn=withdrawn,
        comparison=comparison,
        trouble=trouble,
        history=[_done(event, forged) for event in reversed(events)],
        older=max(registry.history_length(choice.model) - NEWEST, 0),
    )


def console_page(seen: Seen) -> str:
    """The page."""
    return render(
        "console.html",
        here="console",
        seen=seen,
        choice=seen.choice,
        without=WITHOUT,
        promoted=promoted(seen.choice),
        set_title=set_title,
    )


def promoted(choice: Choice) -> str:
    """The versions, alias and omitted subgroups of a choice, as `dermfed-registry promote` takes them."""
    left_out = [option for name in choice.without for option in ("--without", name)]
    return shlex.join([choice.model or "", *map(str, choice.versions), "--to", choice.alias, *left_out])


def _compare(registry: Registry, choice: Choice) -> tuple[Comparison | None, str]:
    """What would change, or why it cannot be told."""
    if choice.model is None or not choice.anything:
        return None, ""
    try:
        found = registry.compare(choice.model, choice.versions, to=choice.alias, without=choice.without)
    except (RegistryError, BundleError) as error:
        return None, str(error)
    return found, ""


def _done(event: Event, forged: Collection[int] | None) -> Done:
    """One event; `forged` as for `registry.views.records.event_view`."""
    view = event_view(event, forged)
    is_forged = view.signature == NOT_SIGNED
    return Done(
        lines=[lines_of([line]) for line in (view.title, *view.details)],
        gates=[lines_of([line]) for line in view.gates],
        time=view.time,
        who=view.actor,
        sure=f"{view.signature}: run dermfed-registry verify" if is_forged else view.signature,
        forged=is_forged,
        stands_out=OVERRIDDEN if event.overridden else _TOLD.get(event.kind, ""),
    )
