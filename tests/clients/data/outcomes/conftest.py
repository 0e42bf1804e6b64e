"""Tables as a hospital has them."""

import uuid
from pathlib import Path

import pytest

from clients.data.manifests.manifest import Manifest, Row
from clients.data.outcomes.tables import KnownOutcome


def answer_id(number: int) -> str:
    """The id of a diagnosis."""
    return str(uuid.UUID(int=number))


def outcome(
    number: int, label: str, source: str = "histopathology", date: str = "2026-03-31"
) -> KnownOutcome:
    """What became of the patient of that diagnosis."""
    return KnownOutcome(answer_id(number), label, source, date)


def by_id(*outcomes: KnownOutcome) -> dict[str, KnownOutcome]:
    """As a file of outcomes has them."""
    return {one.answer: one for one in outcomes}


def manifest(*rows: Row) -> Manifest:
    """A manifest in no folder."""
    return Manifest.of(rows, Path())


@pytest.fixture
def one() -> list[tuple[str, str]]:
    """The table of answers in which diagnosis 1 was of a.png."""
    return [("a.png", answer_id(1))]
