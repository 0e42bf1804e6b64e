"""An exported release names no user and no machine."""

import json
import zipfile

import pytest

from registry.archive import without_people
from registry.database import changes
from registry.gates.gate_set import gate_set_of
from registry.import_release import read_release

pytestmark = pytest.mark.sqlite

MODEL = "skin-lesion"
PEOPLE = ("anna.meyer", "boris", "ward-pc-17", "seen by Dr. Meyer", "nurse Ines asked")


@pytest.fixture
def named(person, pair, monkeypatch):
    """The registry of a release that people made on a machine, with reasons and approvals that name them."""
    monkeypatch.setattr(changes, "current_host", lambda: "ward-pc-17")
    anna = person("anna.meyer", "operator", "uploader")
    anna.add(pair)
    numbers = [one.number for one in anna.versions(MODEL)][-2:]
    boris = person("boris", "approver")
    anna.set_gates(gate_set_of({"gates": [{"name": "approvals", "people": 1}]}), reason="board")
    boris.approve(MODEL, numbers, to="production", reason="seen by Dr. Meyer")
    anna.promote(MODEL, numbers, to="production", reason="nurse Ines asked")
    return anna


def exported(registry, path, **options):
    registry.export_release(MODEL, "production", path, **options)
    return path


def test_no_byte_of_it_names_who_or_where(named, tmp_path):
    whole = exported(named, tmp_path / "x").read_bytes()
    assert [name for name in PEOPLE if name.encode() in whole] == []


def test_what_it_tells_of_events_is_listed(named, tmp_path):
    events = read_release(exported(named, tmp_path / "x")).index.events
    assert [one.kind for one in events][-2:] == ["approved", "promoted"]
    promoted = events[-1].model_dump(mode="json")
    assert sorted(promoted) == [
        "alias", "before_id", "details", "gates", "id", "key", "kind", "overridden", "reason", "release_id",
        "time", "versions",
    ]  # fmt: skip
    assert set(promoted["details"]) == {"made", "members"}
    (said,) = promoted["gates"]["results"]
    assert (said["gate"], said["verdict"], said["value"]) == ("approvals", "passed", 1)


def test_no_hash_of_a_whole_event_is_in_it(named, tmp_path):
    """Whoever knows all else of an event could find a name by trying names until the hash fits."""
    text = exported(named, tmp_path / "x").read_bytes()
    assert [one["id"] for one in named.audit() if one["hash"].encode() in text] == []


def test_reasons_are_told_if_asked_for(named, tmp_path):
    events = read_release(exported(named, tmp_path / "x", with_reasons=True)).index.events
    assert [one.reason for one in events][-2:] == ["seen by Dr. Meyer", "nurse Ines asked"]


def test_nothing_else_of_the_file_tells_of_the_machine(named, tmp_path):
    with zipfile.ZipFile(exported(named, tmp_path / "x")) as archive:
        for one in archive.infolist():
            assert (one.date_time, one.extra, one.comment) == ((1980, 1, 1, 0, 0, 0), b"", b"")
            assert (one.create_system, one.external_attr >> 16) == (3, 0o100644)


@pytest.mark.parametrize("gate", ["approvals", "acme-review"])
def test_words_of_gates_that_may_name_people_stay_here(gate):
    finding = {"subgroup": "", "note": "approved by anna", "value": 1}
    kept = {"gate": "spread", "detail": "0.1 apart", "findings": []}
    report = {"results": [{"gate": gate, "detail": "by anna", "findings": [finding]}, kept], "set_number": 1}
    told = without_people(report)
    assert "anna" not in json.dumps(told)
    assert told["results"][0]["findings"] == [{"subgroup": "", "note": "", "value": 1}]
    assert (told["results"][1], told["set_number"]) == (kept, 1)
