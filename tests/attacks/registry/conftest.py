"""Registries to attack: those of the tests of the registry, on both databases."""

from tests.registry.audit.conftest import authority, operator
from tests.registry.conftest import (
    bundle,
    command,
    dark,
    empty_database,
    folders,
    graph,
    light,
    migrated,
    migrated_database,
    places,
    postgres,
    pytest_generate_tests,
    registry,
    start,
    tested,
    tones,
)

__all__ = [
    "authority",
    "bundle",
    "command",
    "dark",
    "empty_database",
    "folders",
    "graph",
    "light",
    "migrated",
    "migrated_database",
    "operator",
    "places",
    "postgres",
    "pytest_generate_tests",
    "registry",
    "start",
    "tested",
    "tones",
]
