"""The card as a page that needs nothing from elsewhere: no script, no font, no address."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from registry.bundle.plain_text import shown
from registry.card import cases, sections
from registry.card.answering import key_figures
from registry.card.figures import ends_of
from registry.card.standing import standing
from registry.card.tables import figure, interval


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
        "taken": cases.taken(first),
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
        "patterns": cases.patterns(version),
        "taken": [] if alike["case"] else cases.taken(version),
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
