"""An empty database of outcomes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.outcomes.store import OutcomeStore


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the database is."""
    return f"sqlite:///{tmp_path / 'outcomes.db'}"


@pytest.fixture
def store(url: str) -> Iterator[OutcomeStore]:
    """An empty database of outcomes."""
    opened = OutcomeStore.open(url)
    yield opened
    opened.close()
