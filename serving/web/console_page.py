"""The console: what a promotion would change, the command that does it, and what was done to the model."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.bundle.errors import BundleError
from registry.bundle.labels import GLOBAL
from registry.errors import RegistryError
from registry.gate_report import set_title
from registry.records import Release, Version
from registry.registry import Registry
from registry.views.records import NOT_SIGNED, OVERRIDDEN, event_view
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


NEWEST: Final = 50
"""Events that are shown."""

_TOLD: Final = {"withdrawn": "WITHDRAWN", "stopped": "STOPPED"}


def console_page(
    registry: Registry, query: Sequence[tuple[str, str]], default_model: str | None, default_alias: str
) -> str:
    """The page; it reads the registry and blocks, so run it in a thread.

    Raises:
        RegistryError: the registry cannot be read.
    """
    models = registry.models()
    choice = read_choice(query, models, default_model, default_alias)
    return render(
        "console.html",
        here="console",
        seen={"models": models, **(_read(registry, choice.model, choice) if choice.model else {})},
        choice=choice,
        without=WITHOUT,
        promoted=promoted(choice),
        set_title=set_title,
        not_signed=NOT_SIGNED,
    )


def _read(registry: Registry, model: str, choice: Choice) -> dict[str, Any]:
    """What is known of a model: what can be chosen, what would change, and what was done."""
    aliases, withdrawn = registry.aliases(model), registry.withdrawals(model)
    events = registry.history(model, NEWEST)
    forged = registry.forged(events)
    comparison, trouble = None, ""
    if choice.versions or choice.without:
        try:
            comparison = registry.compare(model, choice.versions, to=choice.alias, without=choice.without)
        except (RegistryError, BundleError) as error:
            trouble = str(error)
    numbers = {one.number for one in withdrawn}
    by_subgroup: dict[str, list[Version]] = {}
    for version in reversed(registry.versions(model)):
        may_be_chosen = by_subgroup.setdefault(version.subgroup.name, [])
        if version.number not in numbers:
            may_be_chosen.append(version)
    return {
        "rows": [
            _row(name, found, choice, aliases.get(choice.alias))
            for name, found in sorted(by_subgroup.items(), key=lambda one: (one[0] != GLOBAL, one[0]))
        ],
        "aliases": aliases,
        "stopped": registry.stopped(model),
        "withdrawn": withdrawn,
        "comparison": comparison,
        "trouble": trouble,
        # The newest first, each with what must not be overlooked in a word.
        "history": [
            (event_view(event, forged), OVERRIDDEN if event.overridden else _TOLD.get(event.kind, ""))
            for event in reversed(events)
        ],
        "older": max(registry.history_length(model) - NEWEST, 0),
    }


def _row(name: str, found: Sequence[Version], choice: Choice, release: Release | None) -> dict[str, Any]:
    """One subgroup, with what runs and what may be chosen for it, the newest first."""
    running = None if release is None else release.for_subgroup(name)
    chosen = next((str(one.number) for one in found if one.number in choice.versions), "")
    if name in choice.without:
        chosen = WITHOUT + name
    shown = [one for place, one in enumerate(found) if place < MANY or str(one.number) == chosen]
    return {
        "subgroup": name,
        "running": None if running is None else running.number,
        "versions": shown,
        "older": len(found) - len(shown),
        "chosen": chosen,
        "may_go": running is not None and name != GLOBAL,
    }


def promoted(choice: Choice) -> str:
    """The versions, alias and omitted subgroups of a choice, as `dermfed-registry promote` takes them."""
    left_out = [option for name in choice.without for option in ("--without", name)]
    return shlex.join([choice.model or "", *map(str, choice.versions), "--to", choice.alias, *left_out])
