import pytest

from registry.signing.keys import fingerprint

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
def test_a_password_comes_from_the_environment(command, key, write, monkeypatch):
    hidden = write(key(), "hidden.key", b"secret")
    ended = command("sign", MODEL, 1, "--key", hidden)
    assert (ended.code, "DERMFED_KEY_PASSWORD" in ended.err) == (2, True)
    monkeypatch.setenv("DERMFED_KEY_PASSWORD", "secret")
    assert command("sign", MODEL, 1, "--key", hidden).code == 0


def test_the_commands_need_no_cryptography_until_a_key_is_named(start, places):
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from registry.cli.app import main\n"
        f"sys.argv = ['dermfed-registry', '--url', {places.url!r}, '--store', {str(places.store)!r}, *{{}}]\n"
        "main()"
    )
    plain = start(program.format(["verify"]))
    assert plain.communicate()[0] == "0 versions, nothing wrong\n"
    told = start(program.format(["verify", "--trust", "x.pem"]))
    assert "install dermfed[sign]" in told.communicate()[1]
    assert told.returncode == 2
