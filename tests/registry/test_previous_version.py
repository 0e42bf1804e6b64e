"""A registry that the previous version filled is opened, upgraded, checked, read and gone on with."""

import json
from typing import Any

import pytest

from tests.fixtures import PREVIOUS
from tests.fixtures.making.packed import unpack
from tests.registry.conftest import Places

FOLDER = PREVIOUS / "registry"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
MODEL = "small"


@pytest.fixture
def filled(places, kind, tmp_path) -> dict[str, Any]:
    """The stored registry at `places`; gives what its own version told of it."""
    unpack(FOLDER / "sqlite.tar.xz", places.store.parent)
    if kind == "postgresql":
        import psycopg

        with psycopg.connect(places.url, autocommit=True) as connection:
            connection.execute((FOLDER / "postgresql.sql").read_text())
    told: dict[str, Any] = EXPECTED[kind]
    return told


def test_it_is_upgraded_and_every_file_and_event_is_in_order(places: Places, filled, command):
    assert command("upgrade").code == 0
    ended = command("verify")
    assert (ended.code, ended.err) == (0, ""), ended.out
    assert command("verify", "--trust", FOLDER / "signer.pub").code == 0


def what_was_told(now: Any, before: Any) -> Any:
    """What is told now of what was told before: it may tell more."""
    if isinstance(now, dict) and isinstance(before, dict):
        return {key: what_was_told(now[key], value) for key, value in before.items() if key in now}
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        return [what_was_told(one, other) for one, other in zip(now, before, strict=True)]
    return now


def test_it_tells_what_it_told(places: Places, filled, command):
    command("upgrade")
    asked = {
        "versions": ("list", "--json"),
        "history": ("history", MODEL, "--json"),
        "keys": ("keys", "list", "--json"),
        "aliases": ("show", MODEL, "--alias", "production", "--json"),
        "gates": ("gates", "show", "--json"),
    }
    for name, arguments in asked.items():
        ended = command(*arguments)
        assert ended.code == 0, ended.err
        told = json.loads(ended.out)
        assert what_was_told(told, filled[name]) == filled[name], name
    kinds = [event["kind"] for event in filled["audit"]]
    assert {
        "added",
        "signed",
        "promoted",
        "gates-changed",
        "rolled-back",
        "key-created",
        "key-revoked",
    } <= set(kinds)
    assert any(event["overridden"] for event in filled["audit"])


def test_its_chain_of_events_is_the_same_line_for_line_and_goes_on(places: Places, filled, command):
    command("upgrade")
    before = [json.loads(line) for line in command("audit").out.splitlines()]
    assert before == filled["audit"]
    assert command("keys", "add", "later").code == 0
    after = [json.loads(line) for line in command("audit").out.splitlines()]
    assert after[: len(before)] == before
    assert after[len(before)]["previous"] == before[-1]["hash"]
    assert command("verify").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("add", *(PREVIOUS / "bundles" / name for name in ("dark", "global", "light"))),
        ("promote", MODEL, 4, "--to", "staging", "--override-gates", "--reason", "the next version"),
    ],
    ids=lambda words: words[0],
)
def test_its_models_name_the_machine_that_exported_them_and_are_refused(
    places: Places, filled, command, words
):
    """Their graphs are as torch leaves them."""
    command("upgrade")
    before = command("list", "--json").out
    ended = command(*words)
    assert ended.code == 1
    assert "metadata_props of node: 278" in ended.err
    assert command("list", "--json").out == before
    assert command("verify").code == 0


def test_a_stored_event_that_is_changed_is_found(places: Places, filled, command):
    command("upgrade")
    places.tamper("UPDATE events SET reason = 'another' WHERE reason = 'the first'")
    assert command("verify").code == 1
