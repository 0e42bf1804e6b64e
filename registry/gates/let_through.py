"""Which gate set let a release through, and which is in force now: told from the events alone.

A set that was loosened for one promotion and tightened again leaves a release that today's gates refuse.
History holds all of it; this puts it beside the release.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.gate_report import set_title
from registry.gates.narrowest import narrowest_first
from registry.records import Event, moment

_Key = tuple[str, int]


@dataclass(frozen=True)
class SetBy:
    """A gate set, and who put it in force.

    Attributes:
        model, number, alias: of the set; number 0 is the one that a registry begins with.
        digest: of its content; empty where no event tells it.
        actor: who set it; empty for number 0, as the next two.
        time: when.
        reason: why.
    """

    model: str
    number: int
    alias: str = ""
    digest: str = ""
    actor: str = ""
    time: datetime | None = None
    reason: str = ""

    def __str__(self) -> str:
        title = f"gate {set_title(self.model, self.number, self.alias)}"
        if self.time is None:
            return title
        return f"{title} (set by {self.actor} at {moment(self.time)}: {self.reason})"


@dataclass(frozen=True)
class LetThrough:
    """How a release came through the gates, beside those that are asked now.

    Attributes:
        alias: under which alias it was promoted.
        release: its id.
        event: the id of the promotion.
        overridden: whether a gate refused and was overridden.
        asked: the set that it was judged by.
        in_force: the set that is asked under the alias now.
        differs: whether these two are of other content.
        sentence: all of it.
    """

    alias: str
    release: int
    event: int
    overridden: bool
    asked: SetBy
    in_force: SetBy
    differs: bool
    sentence: str


def let_through(events: Sequence[Event], release: int, alias: str) -> LetThrough | None:
    """How a release came under an alias; None where no event tells what the gates said of it.

    Args:
        events: of the model, and those that changed the gates of all models, the oldest first.
        release: the release's id.
        alias: the alias.
    """
    found = [one for one in all_let_through(events).values() if (one.release, one.alias) == (release, alias)]
    return found[-1] if found else None


def all_let_through(events: Sequence[Event]) -> dict[int, LetThrough]:
    """How each release came through the gates, by the id of the promotion; `events` as of `let_through`."""
    known = _sets(events)
    in_force: dict[tuple[str, str], SetBy] = {}
    found = {}
    for event in events:
        if event.kind != "promoted" or event.gates is None or event.alias is None or event.release is None:
            continue
        where = event.model, event.alias
        if where not in in_force:
            in_force[where] = _in_force(known, *where)
        report = event.gates
        unknown = SetBy(report.set_model, report.set_number, report.set_alias)
        asked = known.get((report.set_model, report.set_number), unknown)
        found[event.id] = _one(event, event.alias, event.release, asked, in_force[where])
    return found


def _one(event: Event, alias: str, release: int, asked: SetBy, in_force: SetBy) -> LetThrough:
    same_set = (asked.model, asked.number) == (in_force.model, in_force.number)
    differs = not same_set and (asked.digest != in_force.digest or not asked.digest)
    how = "was promoted in spite of" if event.overridden else "was let through by"
    told = f"release {release} {how} {asked}"
    sentence = f"{told}; in force now is {in_force}" if differs else f"{told}, which asks the same as today"
    return LetThrough(alias, release, event.id, event.overridden, asked, in_force, differs, sentence)


def _in_force(known: Mapping[_Key, SetBy], model: str, alias: str) -> SetBy:
    """The set that is asked of a model under an alias: of the narrowest that there is."""
    for place in narrowest_first(model, alias):
        if found := [one for one in known.values() if (one.model, one.alias) == place]:
            return max(found, key=lambda one: one.number)
    return SetBy("", 0)


def _sets(events: Sequence[Event]) -> dict[_Key, SetBy]:
    """Every set that an event tells of, in the order of setting."""
    found: dict[_Key, SetBy] = {}
    for event in events:
        if event.kind != "gates-changed" or not event.details:
            continue
        after: Mapping[str, Any] = event.details["after"]
        found[after["model"], after["number"]] = SetBy(
            after["model"],
            after["number"],
            after.get("alias", ""),
            after["digest"],
            event.actor,
            event.time,
            event.reason or "",
        )
        before: Mapping[str, Any] = event.details["before"]
        if before["number"] == 0:  # its digest is told by whoever took its place
            found.setdefault(("", 0), SetBy("", 0, "", before["digest"]))
    return found
