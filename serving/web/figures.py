"""The figures of an answer, a row each: every field that says how the page shows it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from serving.protocol.fields import PROBABILITY, Unit, facts
from serving.protocol.schemas import Answer, Diagnosis
from serving.web.numbers import NOT_KNOWN, percent

FIRST: Final = ("malignancy",)
"""The parts of an answer that a clinician reads first; the others follow in their own order."""


@dataclass(frozen=True)
class Row:
    """One figure, as texts."""

    title: str
    text: str
    note: str


def figures(diagnosis: Diagnosis) -> list[Row]:
    """The rows of an answer, those of its parts that are read first before all others."""
    rest = [name for name in type(diagnosis).model_fields if name not in FIRST]
    parts = [getattr(diagnosis, name) for name in (*FIRST, *rest)]
    return [row for part in (*parts, diagnosis) if isinstance(part, Answer) for row in _rows(part)]


def _rows(part: Answer) -> Iterator[Row]:
    said = facts(type(part))
    if any(fact.page for _, _, fact in said):
        texts = {name: _text(getattr(part, name), fact.unit) for name, _, fact in said}
        for name, _, fact in said:
            if fact.page is not None and not (fact.optional and getattr(part, name) is None):
                yield Row(fact.page.title, texts[name], fact.page.note.format(**texts))


def _text(value: Any, unit: Unit | None) -> str:
    """A value for people."""
    if unit == PROBABILITY:
        return percent(value)
    if value is None:
        return NOT_KNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    said = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{said} {unit.name}" if unit else said
