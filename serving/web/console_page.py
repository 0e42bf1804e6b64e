"""The console: what a promotion would change, the command that does it, and what was done to the model."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from registry.bundle.errors import BundleError
from registry.bundle.labels import GLOBAL
from registry.errors import RegistryError
from registry.gate_report import Comparison, set_title
from registry.records import Event, Release, Version, Withdrawal
from registry.registry import Registry
from registry.views.records import NOT_SIGNED, OVERRIDDEN, EventView, event_view
from serving.web.rendering import render

MANY: Final = 100
"""Versions of one subgroup that can be chosen, those that were added last."""

LONGEST: Final = 10
"""Digits of a version's number; more are none that a registry has given out."""

WITHOUT: Final = "without:"
"""How a choice begins that leaves a subgroup without a version of its own."""


@dataclass(frozen=True)
class Choice:
    """What was chosen.

    Attributes:
        model: the model's name; None where there is none.
        alias: under which alias.
        versions: the versions named.
        without: subgroups that are to have no version of their own.
    """

    model: str | None
    alias: str
    versions: tuple[int, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One subgroup, with what may answer for it.

    Attributes:
        subgroup: its name.
        running: its version in the running release; None where it has none of its own.
        versions: that can be chosen, the newest first.
        older: how many older ones there are.
        chosen: the value that was chosen; empty for what runs.
        may_go: whether it may be left without.
    """

    subgroup: str
    running: int | None
    versions: tuple[Version, ...]
    older: int
    chosen: str
    may_go: bool


def read_choice(
    query: Sequence[tuple[str, str]], models: Sequence[str], default_model: str | None, default_alias: str
) -> Choice:
    """The choice in an address; what is not understood in it is left out, and so shown as not chosen."""
    given: dict[str, list[str]] = {}
    for name, value in query:
        given.setdefault(name, []).append(value)
    asked = (given.get("model") or [""])[0]
    model = next((one for one in (asked, default_model, *models) if one in models), None)
    alias = (given.get("alias") or [""])[0].strip() or default_alias
    chosen = given.get("choose", [])
    if model not in given.get("of", [model]):  # these were versions of another model
        chosen = []
    return Choice(
        model=model,
        alias=alias,
        versions=tuple(
            int(one)
            for one in dict.fromkeys(chosen)
            if one.isascii() and one.isdigit() and len(one) <= LONGEST
        ),
        without=tuple(one.removeprefix(WITHOUT) for one in dict.fromkeys(chosen) if one.startswith(WITHOUT)),
    )


def rows(
    choice: Choice, versions: Sequence[Version], release: Release | None, withdrawn: Collection[int]
) -> list[Row]:
    """A row for the global model and then one for each subgroup of the model.

    Args:
        choice: what was chosen.
        versions: of the model, in the order of adding.
        release: that runs under the alias.
        withdrawn: the numbers of versions that were withdrawn: none of these can be chosen.
    """
    by_subgroup: dict[str, list[Version]] = {}
    for version in reversed(versions):
        by_subgroup.setdefault(version.subgroup.name, []).append(version)
    return [
        _row(name, [one for one in found if one.number not in withdrawn], choice, release)
        for name, found in sorted(by_subgroup.items(), key=lambda one: (one[0] != GLOBAL, one[0]))
    ]


def _row(name: str, found: Sequence[Version], choice: Choice, release: Release | None) -> Row:
    running = None if release is None else release.for_subgroup(name)
    chosen = next((str(one.number) for one in found if one.number in choice.versions), "")
    if name in choice.without:
        chosen = WITHOUT + name
    shown = [one for place, one in enumerate(found) if place < MANY or str(one.number) == chosen]
    return Row(
        subgroup=name,
        running=None if running is None else running.number,
        versions=tuple(shown),
        older=len(found) - len(shown),
        chosen=chosen,
        may_go=running is not None and name != GLOBAL,
    )


NEWEST: Final = 50
"""Events that are shown."""

_TOLD: Final = {"withdrawn": "WITHDRAWN", "stopped": "STOPPED"}


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
        comparison: what would change; None where nothing was chosen, or the comparison failed.
        trouble: why the comparison failed; empty where it did not.
        history: what was done, the newest first, each with what must not be overlooked in a word.
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
    history: Sequence[tuple[EventView, str]] = ()
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
        history=[
            (event_view(event, forged), OVERRIDDEN if event.overridden else _TOLD.get(event.kind, ""))
            for event in reversed(events)
        ],
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
        not_signed=NOT_SIGNED,
    )


def promoted(choice: Choice) -> str:
    """The versions, alias and omitted subgroups of a choice, as `dermfed-registry promote` takes them."""
    left_out = [option for name in choice.without for option in ("--without", name)]
    return shlex.join([choice.model or "", *map(str, choice.versions), "--to", choice.alias, *left_out])


def _compare(registry: Registry, choice: Choice) -> tuple[Comparison | None, str]:
    """What would change, or why the comparison failed."""
    if choice.model is None or not (choice.versions or choice.without):
        return None, ""
    try:
        found = registry.compare(choice.model, choice.versions, to=choice.alias, without=choice.without)
    except (RegistryError, BundleError) as error:
        return None, str(error)
    return found, ""
