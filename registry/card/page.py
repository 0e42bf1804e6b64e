"""The card as a page that needs nothing from elsewhere: no script, no font, no address.

Whether anything is wrong with what a card is of: one sentence, what each matter is, and what to do.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from registry.bundle.text import shown
from registry.card import contents, sections
from registry.card.contents import answering, key_figures, named
from registry.card.sections import figure, interval
from registry.card.sentences import FEW, NEVER_REPORTS, count_of, ends_of

Level = Literal["wrong", "look", "fine"]


@dataclass(frozen=True)
class Matter:
    """Something that somebody has to know.

    Attributes:
        text: what it is, a sentence.
        todo: what to do about it, a sentence.
        wrong: whether it is wrong, and not just to be known.
    """

    text: str
    todo: str
    wrong: bool = False


@dataclass(frozen=True)
class Standing:
    """Whether anything is wrong.

    Attributes:
        matters: what there is, the worst first.
    """

    matters: tuple[Matter, ...]

    @property
    def level(self) -> Level:
        """How bad it is."""
        if any(one.wrong for one in self.matters):
            return "wrong"
        return "look" if self.matters else "fine"

    @property
    def sentence(self) -> str:
        """The same for people."""
        wrong = sum(one.wrong for one in self.matters)
        if wrong:
            return f"Something is wrong: {_things(wrong)} to act on."
        if self.matters:
            said = _things(len(self.matters))
            return f"Nothing is broken. {said[0].upper()}{said[1:]} to know before relying on it."
        return "Nothing is known to be wrong."


def standing(card: Mapping[str, Any]) -> Standing:
    """The standing of what `release_card` gives."""
    return Standing(tuple(sorted(_matters(card), key=lambda one: not one.wrong)))


_READ: Final = "Read what is unknown of it, below, before relying on its answers for them."


def _matters(card: Mapping[str, Any]) -> Iterator[Matter]:
    versions = card["versions"]
    if gone := _named(one for one in versions if one.get("withdrawn")):
        yield Matter(f"Withdrawn: {gone}.", "Promote another; nobody may be answered by it.", wrong=True)
    for alarm in (alarm for one in versions for alarm in one.get("alarms", ())):
        yield Matter(
            f"{alarm[0].upper()}{alarm[1:]}.",
            "Go back to the release before, or close the alarm with a reason: `dermfed-registry field`.",
            wrong=True,
        )
    if unknown := _named(one for one in versions if not one["metrics"] and not one["by_subgroup"]):
        yield Matter(
            f"Without test figures: {unknown}. How well it answers is unknown.",
            "Test it before anybody is answered by it.",
        )
    if silent := _named(one for one in versions if one["how_to_use"]["report"] == NEVER_REPORTS):
        yield Matter(
            f"Refers every picture and never reports: {silent}.",
            "Calibrate it on more pictures, or expect to see every lesion yourself.",
        )
    if unsure := _named(one for one in versions if one["calibration"]["conformal"]["guarantee"] == "none"):
        yield Matter(f"Prediction sets that promise nothing: {unsure}.", "Calibrate it on more lesions.")
    if untested := sorted({name for one in versions for name in one["data"]["absent"]}):
        yield Matter(f"Never tested on {', '.join(untested)}.", _READ)
    counted = [(name, count_of(row.get("n"))) for name, _, row in answering(versions)]
    if few := [f"{name} ({n})" for name, n in counted if n is not None and n < FEW]:
        yield Matter(f"Fewer than {FEW} test pictures of {', '.join(few)}: figures can be far off.", _READ)


def _named(versions: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(map(named, versions))


def _things(number: int) -> str:
    return "one thing" if number == 1 else f"{number} things"


def card_page(card: Mapping[str, Any]) -> str:
    """The page of what `release_card` gives."""
    return str(_templates().get_template("card.html").render(card=card, **_shared(card)))


def _shared(card: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says once, since all versions of a release have it alike, and of each version."""
    versions = card["versions"]
    first = versions[0]
    alike = {
        name: all(one.get(name) == first.get(name) for one in versions)
        for name in ("labels", "picture", "case")
    }
    return {
        "first": first,
        "alike": alike,
        "served": _served(card["served"]),
        "shown": [_shown(version, alike) for version in versions],
        "labels": sections.labels(first),
        "picture": sections.picture(first),
        "taken": contents.taken(first),
        "standing": standing(card),
        "key": key_figures(versions),
    }


def _shown(version: Mapping[str, Any], alike: Mapping[str, bool]) -> dict[str, Any]:
    tested = (sections.by_subgroup(version), sections.by_class(version), sections.tones(version))
    fair = (sections.fairness(version), sections.differences(version), *sections.intersections(version))
    return {
        "title": _title(version),
        "card": version,
        "tested": [table for table in tested if table is not None],
        "fair": [table for table in fair if table is not None],
        "confidence": sections.confidence(version),
        "patterns": contents.patterns(version),
        "taken": [] if alike["case"] else contents.taken(version),
        "data": sections.data(version),
        "clients": sections.clients(version),
        "lineage": sections.lineage(version),
        "labels": None if alike["labels"] else sections.labels(version),
        "picture": None if alike["picture"] else sections.picture(version),
    }


def _title(version: Mapping[str, Any]) -> str:
    name = version["subgroup"]["name"]
    withdrawn = ", WITHDRAWN" if version.get("withdrawn") else ""
    return name if version["version"] is None else f"{name}: version {version['version']}{withdrawn}"


def _served(served: Mapping[str, Any] | None) -> str:
    """The gate's measure of the whole release, in a sentence."""
    if served is None:
        return ""
    if served["untested"]:
        return f"How it serves {', '.join(served['untested'])} was never tested."
    if served["best"] is None or served["worst"] is None:
        return "How far apart it serves skin tones is unknown: fewer than two have test figures."
    best, worst = served["best"], served["worst"]
    spread = f"{figure(served['value'])} {interval(ends_of(served['interval']))}".rstrip()
    return (
        f"Each skin tone with the version that answers for it: accuracy is highest for {best['subgroup']}, "
        f"{figure(best['value'])} on {best['n']} pictures, and lowest for {worst['subgroup']}, "
        f"{figure(worst['value'])} on {worst['n']} pictures; they are {spread} apart."
    )


@cache
def _templates() -> Environment:
    """The templates; whatever is put into one is escaped."""
    return Environment(
        loader=PackageLoader("registry.card", "."),
        autoescape=True,
        finalize=shown_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def shown_text(value: Any) -> Any:
    """A text with what is not seen spelt out, as pages put it in; what is HTML already stays."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value
