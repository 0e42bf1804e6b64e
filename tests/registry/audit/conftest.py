"""Whoever signs heads of the chain, and a time stamping authority of our own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registry.registry import Registry

if TYPE_CHECKING:
    from registry.people.signatory import KeySignatory
    from tests.registry.audit.stamping import Authority


@pytest.fixture
def operator(key: "Callable[[str], KeySignatory]", tmp_path: Path) -> "Callable[[Registry], KeySignatory]":
    """Makes Anna, an operator, the first person of a registry."""

    def add(registry: Registry) -> "KeySignatory":
        signatory = key("anna")
        registry.add_person("anna", tmp_path / "anna.pub", roles=["operator"])
        return signatory

    return add


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> "Authority":
    """A time stamping authority."""
    pytest.importorskip("cryptography", reason="a time stamping authority needs the extra stamp")
    from tests.registry.audit.stamping import make_authority

    return make_authority(tmp_path_factory.mktemp("authority"))
