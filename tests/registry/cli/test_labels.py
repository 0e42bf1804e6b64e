"""`dermfed-registry tag`, `untag`, `note`, `find` and `list --tag`."""

import json

import pytest

MODEL = "skin-lesion"
pytestmark = pytest.mark.sqlite  # nothing here depends on the database


@pytest.fixture
def added(command, folders, bundle, dark):
    """Versions 1 for everybody and 2 for dark."""
    assert command("add", *folders(bundle(), bundle(dark))).code == 0
    return command


def test_versions_are_tagged_noted_listed_and_found(added):
    ended = added("tag", MODEL, 2, "reviewed")
    assert (ended.code, ended.err) == (0, "")
    assert "tagged version 2: reviewed" in ended.out
    assert added("tag", MODEL, 2, "reviewed").out.startswith("nothing to do")
    assert added("note", MODEL, 2, "weak on soles").code == 0
    listed = added("list", "--tag", "reviewed").out.splitlines()
    assert [line.split()[1] for line in listed] == ["version", "2"]
    assert added("list", "--tag", "other").out == "no version has the tag 'other'\n"
    told = json.loads(added("list", "--json").out)
    assert [one.get("tags") for one in told] == [None, ["reviewed"]]
    shown = added("show", MODEL, "--version", 2).out
    assert "  tags         reviewed" in shown
    assert "weak on soles" in shown
    assert "reviewed" not in added("show", MODEL, "--version", 1).out
    (one,) = json.loads(added("show", MODEL, "--version", 2, "--json").out)["versions"]
    assert (one["tags"], [note["text"] for note in one["notes"]]) == (["reviewed"], ["weak on soles"])
    found = added("find", "SOLES").out
    assert f"{MODEL}  2        dark      note: weak on soles" in found
    assert "1 found; searched: model, subgroup, digest, tag, note, withdrawal" in found
    assert json.loads(added("find", "reviewed", "--json").out)["found"][0]["because"] == ["tag: reviewed"]
    assert added("find", "nothing like it").out.startswith("no 'nothing like it'\n0 found")
    assert added("untag", MODEL, 2, "reviewed").code == 0
    history = added("history", MODEL).out
    for part in (
        "tagged version 2: reviewed",
        "noted version 2",
        "note: weak on soles",
        "untagged version 2",
    ):
        assert part in history
