"""`dermfed-registry stop` and `withdraw`, and what other commands say after them."""

import json

import pytest

MODEL = "skin-lesion"
pytestmark = pytest.mark.sqlite  # nothing here depends on the database


@pytest.fixture
def released(command, folders, bundle, graph):
    """Versions 1 and 2 of two model files; release 2 in production."""
    assert command("add", *folders(bundle(), bundle(seed=1, graph=graph(name="other")))).code == 0
    for number in (1, 2):
        done = ("promote", MODEL, number, "--to", "production", "--override-gates", "--reason", "t")
        assert command(*done).code == 0
    return command


def test_a_withdrawal_is_told_everywhere(released, tmp_path):
    ended = released("withdraw", MODEL, 2, "--reason", "misses melanoma")
    assert (ended.code, ended.err) == (0, "")
    assert "withdrawn version 2\n    reason: misses melanoma" in ended.out
    assert "rolled-back, production: release 2 -> 1\n    since withdrawn: version 2" in ended.out
    assert released("withdraw", MODEL, 2, "--reason", "x").out == "nothing to do: withdrawn already\n"
    told = "WITHDRAWN at "
    for arguments in (
        ("list", MODEL),
        ("list", "--json"),
        ("show", MODEL, "--version", 2),
        ("show", MODEL, "--version", 2, "--json"),
        ("card", MODEL, "--version", 2),
        ("card", MODEL, "--version", 2, "--json"),
        ("diff", MODEL, 1, 2),
        ("diff", MODEL, 1, 2, "--json"),
    ):
        shown = released(*arguments).out
        assert told in shown, arguments
        assert "misses melanoma" in shown, arguments
    assert "    reason: misses melanoma\n    WITHDRAWN for good\n" in released("history", MODEL).out
    assert "version 2, WITHDRAWN" in released("card", MODEL, "--version", 2).out
    assert told not in released("show", MODEL, "--version", 1).out
    assert ["withdrawn" in one for one in json.loads(released("list", "--json").out)] == [False, True]
    ended = released(
        "promote", MODEL, 2, "--to", "production", "--override-gates", "--reason", "but I want to"
    )
    assert (ended.code, ended.err.split(":")[0]) == (1, "VersionWithdrawn")
