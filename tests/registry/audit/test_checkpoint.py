"""Heads that are printed, kept in files and compared."""

import pytest

from registry.audit import KeptHead
from registry.database.tables import GENESIS
from registry.errors import InvalidName

pytestmark = pytest.mark.sqlite


def test_a_head_without_the_name_of_its_hash_is_taken_too(registry, bundle, command):
    registry.add([bundle()])
    plain = command("head").out.strip().replace("sha256:", "")
    ended = command("verify", "--head", plain)
    assert (ended.code, ended.out) == (
        0, "the head of 1 events: as it was kept\n1 versions, nothing wrong\n",
    )  # fmt: skip


def test_a_head_that_was_kept_is_not_written_over(registry, command, tmp_path):
    file = tmp_path / "head.json"
    file.write_text("an earlier one")
    ended = command("head", "--out", file)
    assert ended.code == 2
    assert "exists already" in ended.err
    assert file.read_text() == "an earlier one"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "is no file that can be read"),
        ("no json", "keeps no head"),
        ("{}", "keeps no head (events: Field required)"),
        ('{"events": -1, "hash": "x"}', "keeps no head (events: "),
        (f'{{"events": 1, "hash": "{GENESIS}", "colour": "red"}}', "keeps no head (colour: "),
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


def test_a_head_is_compared_where_the_end_of_the_chain_was_lost(registry, places, bundle, command):
    registry.add([bundle()])
    head = command("head").out.strip()
    places.tamper("DELETE FROM audit_head")
    ended = command("verify", "--head", head)
    assert ended.code == 1
    assert "audit_head" in ended.out
    assert "as it was kept" in ended.out
    assert command("head").code == 2
