"""An empty database of outcomes, of either kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.outcomes.store import OutcomeStore


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the database is."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'outcomes.db'}"
    return str(request.getfixturevalue("empty_database"))


@pytest.fixture
def store(url: str) -> Iterator[OutcomeStore]:
    """An empty database of outcomes."""
    opened = OutcomeStore.open(url)
    yield opened
    opened.close()
