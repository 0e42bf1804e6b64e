"""What was chosen on the console's page, as its address says it, and what there is to choose from."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from registry.bundle.labels import GLOBAL
from registry.records import Release, Version

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

    @property
    def anything(self) -> bool:
        """Whether there is something to compare."""
        return bool(self.versions or self.without)


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
    """A row for everybody and then one for each subgroup of the model.

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
