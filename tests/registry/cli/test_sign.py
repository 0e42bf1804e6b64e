import json

import pytest

from registry.signing.pem import fingerprint

MODEL = "skin-lesion"

pytestmark = pytest.mark.sqlite  # nothing here depends on the database


@pytest.fixture
def board(key, write):
    """A private key's file, its public key's, and the fingerprint."""
    private = key()
    public = private.public_key()
    return write(private, "board.key"), write(public, "board.pub"), fingerprint(public)


@pytest.fixture
def added(command, bundle, dark, folders):
    """A registry with the versions 1 and 2."""
    assert command("add", *folders(bundle(), bundle(dark))).code == 0


@pytest.mark.usefixtures("added")
def test_sign_verify_and_show(command, board):
    key, public, identity = board
    signed = command("sign", MODEL, 1, 2, "--key", key)
    assert signed.code == 0
    assert signed.out.count(identity) == 2
    checked = command("verify", "--trust", public)
    assert (checked.code, checked.out) == (0, "2 versions, nothing wrong\n")
    shown = command("show", MODEL, "--version", 1)
    assert f"by {identity}" in shown.out
    told = json.loads(command("show", MODEL, "--version", 1, "--json").out)
    assert [one["identity"] for one in told["versions"][0]["signatures"]] == [identity]
    assert "signed" in command("history", MODEL).out


@pytest.mark.usefixtures("added")
def test_show_says_that_nobody_signed(command):
    assert command("show", MODEL).out.count("signed       by nobody") == 2


@pytest.mark.usefixtures("added")
def test_verify_names_a_stranger_and_exits_1(command, board, key, write):
    command("sign", MODEL, 1, "--key", board[0])
    stranger = write(key().public_key(), "stranger.pub")
    ended = command("verify", "--trust", stranger)
    assert ended.code == 1
    assert f"of version 1 of {MODEL}: unknown: the key" in ended.out
    assert command("verify", "--trust", stranger, "--trust", board[1]).code == 0


@pytest.mark.usefixtures("added")
def test_whom_to_trust_may_come_from_the_environment(command, board, key, write, monkeypatch):
    command("sign", MODEL, 1, "--key", board[0])
    stranger = write(key().public_key(), "stranger.pub")
    monkeypatch.setenv("DERMFED_TRUSTED_KEYS", str(stranger))
    assert command("verify").code == 1
    monkeypatch.setenv("DERMFED_TRUSTED_KEYS", f"{stranger}:{board[1]}")
    assert command("verify").code == 0


@pytest.mark.usefixtures("added")
def test_a_certificate_and_json(command, key, write, certificate):
    private = key()
    own = write(certificate(private, "Model board"), "board.crt")
    ended = command("sign", MODEL, 2, "--key", write(private, "board.key"), "--certificate", own, "--json")
    (signature,) = json.loads(ended.out)
    assert (signature["number"], signature["identity"]) == (2, "CN=Model board")
    assert command("verify", "--trust", own).code == 0


@pytest.mark.usefixtures("added")
def test_a_password_comes_from_the_environment(command, key, write, monkeypatch):
    hidden = write(key(), "hidden.key", b"secret")
    ended = command("sign", MODEL, 1, "--key", hidden)
    assert (ended.code, "DERMFED_KEY_PASSWORD" in ended.err) == (2, True)
    monkeypatch.setenv("DERMFED_KEY_PASSWORD", "secret")
    assert command("sign", MODEL, 1, "--key", hidden).code == 0


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("words", [("sign", MODEL, 1, "--key"), ("verify", "--trust")])
def test_a_file_that_is_no_key_is_told_in_a_line(command, tmp_path, words):
    (tmp_path / "x.txt").write_text("hello")
    ended = command(*words, tmp_path / "x.txt")
    assert ended.code == 2
    assert ended.err.startswith("KeyUnusable: ")
    assert ended.err.count("\n") == 1


def test_the_commands_need_no_cryptography_until_a_key_is_named(start, places):
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from registry.cli import main\n"
        f"sys.argv = ['dermfed-registry', '--url', {places.url!r}, '--store', {str(places.store)!r}, *{{}}]\n"
        "main()"
    )
    plain = start(program.format(["verify"]))
    assert plain.communicate()[0] == "0 versions, nothing wrong\n"
    told = start(program.format(["verify", "--trust", "x.pem"]))
    assert "install dermfed[sign]" in told.communicate()[1]
    assert told.returncode == 2
