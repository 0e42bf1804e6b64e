"""What a model of cases takes, and what calibration found for each pattern of what is given, on the card."""

from collections.abc import Mapping
from typing import Any

from registry.bundle.counts.probability_text import probability_text
from registry.bundle.manifest.schema import BundleManifest
from registry.card.figures import UNKNOWN
from registry.card.use import percent
from registry.rendering.table import Cell, Row, Table


def cases_json(manifest: BundleManifest) -> dict[str, Any]:
    """`case` and `patterns` of a card; nothing for a model of single pictures."""
    if manifest.case is None:
        return {}
    patterns = []
    for rules in manifest.patterns:
        under = manifest.under(rules.pattern)
        patterns.append(
            {
                **rules.model_dump(mode="json"),
                "pattern": rules.pattern.name,
                "set_threshold": under.set_threshold,
                "confidence_threshold": under.report_threshold,
            }
        )
    return {"case": manifest.case.model_dump(mode="json"), "patterns": patterns}


def taken(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the model takes, as facts of the page; nothing for a model of single pictures."""
    case = card.get("case")
    if case is None:
        return []
    facts = [f"{fact['name']} ({_allowed(fact)})" for fact in case["facts"]]
    return [
        ("Pictures of a lesion", f"1 to {case['slots']}"),
        ("Kinds that it was trained on", ", ".join(case["kinds"]) or "none in particular"),
        ("Facts, each of which may be missing", "; ".join(facts) or "none"),
    ]


def patterns(card: Mapping[str, Any]) -> Table | None:
    """What calibration found for each pattern."""
    rows = tuple(
        Row(
            one["pattern"],
            (
                Cell(one["conformal"]["guarantee"]),
                Cell(f"{one['conformal']['n']:,}"),
                Cell(UNKNOWN if one["set_size"] is None else f"{one['set_size']:.2f}"),
                Cell(UNKNOWN if one["reported"] is None else percent(round(one["reported"], 3))),
                Cell(probability_text(one["confidence_threshold"])),
            ),
        )
        for one in card.get("patterns", ())
    )
    if not rows:
        return None
    return Table(
        "patterns",
        "What is given, and how sure the model then is",
        ("Given", "Promised", "Lesions", "Classes in a set", "Reported", "Reported from"),
        rows,
        "For anything else nothing is promised. Context is all facts, some context some of them.",
    )


def _allowed(fact: Mapping[str, Any]) -> str:
    if fact["kind"] == "number":
        return f"{fact['low']:g} to {fact['high']:g} {fact['unit']}".strip()
    return ", ".join(fact["values"])
