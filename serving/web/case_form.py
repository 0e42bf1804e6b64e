"""The fields of the form in which a lesion is given: pictures by their kinds and facts, as models take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from registry.bundle.cases import CaseInput, CategoryFact, Kind, NumberFact
from serving.releases.current_release import ServedRelease

ANY: Final = "image"
"""The field of a picture of no kind in particular."""

_PICTURES: Final[Mapping[Kind, tuple[str, str]]] = {
    "close-up": ("close_up", "A close-up of the lesion"),
    "dermoscopic": ("dermoscopic", "A dermoscopic picture of it"),
    "overview": ("overview", "A picture that shows where it is"),
}
_FACTS: Final[Mapping[str, str]] = {
    "age": "Age",
    "sex": "Sex",
    "site": "Where on the body",
}


@dataclass(frozen=True)
class PictureField:
    """A field for a file.

    Attributes:
        name: of the field.
        text: what it is called.
        needed: whether the form cannot be sent without it.
    """

    name: str
    text: str
    needed: bool = False


@dataclass(frozen=True)
class FactField:
    """A field for a fact.

    Attributes:
        name: of the field.
        text: what it is called, with its unit.
        given: what was given before; empty for nothing.
        choices: the values and what each is called; none for a number.
        low, high: the bounds of a number.
    """

    name: str
    text: str
    given: str
    choices: Sequence[tuple[str, str]] = ()
    low: float = 0
    high: float = 0


def pictures(state: ServedRelease) -> list[PictureField]:
    """The fields for pictures, of all models that are served."""
    cases = _cases(state)
    kinds = dict.fromkeys(kind for case in cases if case for kind in case.kinds)
    fields = [PictureField(*_PICTURES[kind]) for kind in kinds]
    if not kinds:
        return [PictureField(ANY, "A photograph of one lesion", needed=True)]
    if any(case is None or not case.kinds for case in cases):
        return [
            PictureField(ANY, "A photograph of one lesion, of no kind in particular"),
            *fields,
        ]
    return fields


def facts(state: ServedRelease, given: Mapping[str, str]) -> list[FactField]:
    """The fields for facts, of all models that are served.

    Args:
        state: what is served.
        given: the facts that the form says again.
    """
    known = {fact.name: fact for case in _cases(state) if case for fact in case.facts}
    return [
        FactField(
            name,
            _title(fact),
            given.get(name, ""),
            [] if fact.kind == "number" else [(value, plain(value)) for value in fact.values],
            *((fact.low, fact.high) if fact.kind == "number" else ()),
        )
        for name, fact in known.items()
    ]


def _title(fact: NumberFact | CategoryFact) -> str:
    said = _FACTS.get(fact.name) or plain(fact.name).capitalize()
    if fact.kind == "number" and fact.unit:
        return f"{said} ({fact.unit})"
    return said


def plain(name: str) -> str:
    """A name of the vocabulary for people: `head_neck` is `head neck`."""
    return name.replace("_", " ")


def _cases(state: ServedRelease) -> list[CaseInput | None]:
    """What each model takes; None for one of single pictures."""
    return [
        version.manifest.case for release in state.releases.values() for version in release.versions.values()
    ]
