"""Heads that are printed, signed, kept in files and compared."""

import json

import pytest

from registry.audit.checkpoint import KeptHead, sign_head
from registry.database.changes import AuditContext
from registry.database.hash_chain import GENESIS
from registry.errors import InvalidName, PersonRefused


def test_the_head_is_the_number_of_events_and_the_hash_of_the_last(registry, bundle, command):
    assert command("head").out == f"0:{GENESIS}\n"
    registry.add([bundle()])
    (event,) = registry.audit()
    assert command("head").out == f"1:{event['hash']}\n"
    told = json.loads(command("head", "--json").out)
    assert (told["events"], told["hash"]) == (1, event["hash"])
    assert len(told["registry"]) == 32


def test_a_head_without_the_name_of_its_hash_is_taken_too(registry, bundle, command):
    registry.add([bundle()])
    plain = command("head").out.strip().replace("sha256:", "")
    ended = command("verify", "--head", plain)
    assert (ended.code, ended.out) == (
        0, "the head of 1 events: as it was kept\n1 versions, nothing wrong\n",
    )  # fmt: skip


def test_several_heads_are_compared_each(registry, bundle, command, tmp_path):
    file = tmp_path / "head.json"
    assert command("head", "--out", file).out == f"0:{GENESIS}\nkept in {file}\n"
    registry.add([bundle()])
    wrong = f"1:{GENESIS}"
    ended = command("verify", "--head", file, "--head", wrong, "--json")
    assert ended.code == 1
    told = json.loads(ended.out)
    assert [one["about"] for one in told["problems"]] == ["the head of 1 events"]
    assert [(one["events"], one["same"], one["stamped"]) for one in told["heads"]] == [
        (0, True, None), (1, False, None),
    ]  # fmt: skip


def test_a_head_that_was_kept_is_not_written_over(registry, command, tmp_path):
    file = tmp_path / "head.json"
    file.write_text("an earlier one")
    for option in ("--out", "--query"):
        ended = command("head", option, file)
        assert ended.code == 2
        assert "is there already" in ended.err
    assert file.read_text() == "an earlier one"


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "is no file that can be read"),
        ("no json", "keeps no head"),
        ("{}", "keeps no head (events: Field required)"),
        ('{"events": -1, "hash": "x"}', "keeps no head (events: "),
        (f'{{"events": 1, "hash": "{GENESIS}", "colour": "red"}}', "keeps no head (colour: "),
        (f'{{"events": 1, "hash": "{GENESIS}", "stamp": "?"}}', "keeps no head (stamp: "),
    ],
)
def test_what_keeps_no_head_is_told(registry, command, tmp_path, text, told):
    file = tmp_path / "head.json"
    if text is not None:
        file.write_text(text)
    ended = command("verify", "--head", file)
    assert ended.code == 2
    assert told in ended.err
    with pytest.raises(InvalidName):
        KeptHead.read(str(file))


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "arguments", [("verify", "--stamp", "x"), ("verify", "--tsa-trust", "x"), ("head", "--stamp", "http://x"),
                  ("head", "--tsa-trust", "x")],
)  # fmt: skip
def test_options_that_say_nothing_alone_are_refused(registry, command, arguments):
    assert command(*arguments).code == 2


def test_a_head_is_signed_as_an_event(registry, bundle, operator):
    registry.add([bundle()])
    signatory = operator(registry)
    before = registry.head()
    kept, event = sign_head(registry._engine, AuditContext("tester", signatory=signatory))
    assert (kept.events, kept.hash, kept.registry) == (2, before.hash, before.registry)
    assert (event.id, event.kind, event.actor, event.signed_with) == (
        3, "head-signed", "anna", signatory.fingerprint,
    )  # fmt: skip
    assert (event.details["events"], event.details["hash"]) == (2, before.hash)
    assert kept.signed == {"event": 3, "actor": "anna", **event.details["signed"]}
    assert KeptHead.model_validate_json(kept.model_dump_json()) == kept
    assert registry.verify() == ()
    assert registry.compare_heads([kept])[0].issue is None


def test_a_head_that_nobody_signs_is_refused(registry, command):
    ended = command("head", "--sign")
    assert (ended.code, ended.err.split(":")[0]) == (1, "PersonRefused")
    assert "--key FILE" in ended.err
    assert registry.audit() == ()


def test_a_head_that_a_stranger_signs_is_refused(registry, operator, key):
    operator(registry)
    before = registry.audit()
    with pytest.raises(PersonRefused, match="of nobody whom the registry knows"):
        sign_head(registry._engine, AuditContext("tester", signatory=key("eve")))
    assert registry.audit() == before


def test_a_head_is_compared_where_the_end_of_the_chain_was_lost(registry, places, bundle, command):
    registry.add([bundle()])
    head = command("head").out.strip()
    places.tamper("DELETE FROM audit_head")
    ended = command("verify", "--head", head)
    assert ended.code == 1
    assert "audit_head" in ended.out
    assert "as it was kept" in ended.out
    assert command("head").code == 2


@pytest.mark.parametrize("change", [{"actor": "the board"}, {"signature": "AAAA"}, {"event": 1}])
def test_a_file_that_tells_of_another_signature_is_found(registry, bundle, operator, change):
    """Whoever keeps the file may be shown one that somebody of rank seems to have signed."""
    registry.add([bundle()])
    signatory = operator(registry)
    kept, _ = sign_head(registry._engine, AuditContext("tester", signatory=signatory))
    changed = kept.model_copy(update={"signed": {**kept.signed, **change}})
    sound, told = registry.compare_heads([kept, changed])
    assert sound.issue is None
    assert "a signature of it that no event holds" in told.issue.text
