"""`dermfed-registry verify`, `sign` and `import`: whose signatures count, as it is typed."""

import json
import zipfile

import pytest

from registry.signing_keys import fingerprint

pytestmark = pytest.mark.sqlite  # nothing here depends on the database
MODEL = "skin-lesion"


@pytest.fixture
def stranger(key, write):
    """The public key of one who signed nothing here."""
    return write(key().public_key(), "stranger.pub")


@pytest.fixture
def signed(command, bundle, dark, folders, key, write):
    """A registry with version 1 signed, the private key's file and the public one's."""
    private = key()
    board = write(private, "board.key"), write(private.public_key(), "board.pub")
    assert command("add", *folders(bundle(), bundle(dark))).code == 0
    ended = command("sign", MODEL, 1, "--key", board[0])
    assert (ended.code, fingerprint(private.public_key()) in ended.out) == (0, True)
    return board


@pytest.mark.parametrize("by", ["option", "environment"])
def test_verify_reports_an_untrusted_key(command, signed, stranger, monkeypatch, by):
    def verify(*trusted):
        if by == "option":
            return command("verify", *(each for one in trusted for each in ("--trust", one)))
        monkeypatch.setenv("DERMFED_TRUSTED_KEYS", ":".join(map(str, trusted)))
        return command("verify")

    ended = verify(stranger)
    assert (ended.code, f"of version 1 of {MODEL}: unknown: the key" in ended.out) == (1, True)
    assert verify(stranger, signed[1]).code == 0


@pytest.mark.usefixtures("signed")
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
    missing = start(program.format(["verify", "--trust", "x.pem"]))
    assert "install dermfed[sign]" in missing.communicate()[1]
    assert missing.returncode == 2


@pytest.fixture
def trusted(released, signer, file, write):
    """The archive with signatures, and the signer's public key."""
    released.sign(MODEL, [1, 2], signer)
    released.export_release(MODEL, "production", file)
    return write(signer.key.public_key(), "vendor.pub")


def test_a_key_that_did_not_sign_is_named(command, registry, file, trusted, stranger):
    ended = command("import", file, "--trust", stranger)
    assert (ended.code, ended.err.count("is not trusted")) == (1, 2)
    assert registry.models() == ()
    assert command("import", file, "--trust", stranger, "--allow-unsigned").out.count("left out") == 2
    assert command("import", file, "--trust", trusted).out.count("kept, of sha256:") == 2


def test_one_version_without_a_signature_is_enough_to_refuse(command, registry, file, trusted):
    with zipfile.ZipFile(file) as archive:
        found = [(one, archive.read(one)) for one in archive.infolist()]
    index = json.loads(found[0][1])
    (dropped,) = index["versions"][1].pop("signatures")
    index["versions"][1]["signatures"] = []
    text = json.dumps(index, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for info, content in found:
            if dropped["object"][7:] not in info.filename:
                archive.writestr(info, text if info.filename == "release.json" else content)
    ended = command("import", file, "--trust", trusted)
    assert (ended.code, registry.models()) == (1, ())
    assert "version 2 of skin-lesion in the file is signed by nobody" in ended.err


@pytest.mark.parametrize("by", ["option", "environment"])
def test_who_trusts_a_key_takes_nothing_unsigned(command, registry, file, stranger, by, monkeypatch):
    options = ["--trust", stranger] if by == "option" else []
    if by == "environment":
        monkeypatch.setenv("DERMFED_TRUSTED_KEYS", str(stranger))
    ended = command("import", file, "--to", "production", *options)
    assert (ended.code, ended.err.split(":")[0]) == (1, "ArchiveRefused")
    assert "versions 1, 2 of skin-lesion in the file are signed by nobody" in ended.err
    assert "--allow-unsigned" in ended.err
    assert registry.models() == ()


@pytest.mark.parametrize("by", ["option", "environment"])
def test_where_people_are_known_a_command_signs_with_a_key(
    command, folders, bundle, tmp_path, monkeypatch, by
):
    key, (folder,) = tmp_path / "olga.key", folders(bundle())
    assert command("people", "new-key", key).code == 0
    olga = ("olga", "--public", key.with_suffix(".pub"), "--role", "operator", "--role", "uploader")
    assert command("people", "add", *olga).code == 0
    assert command("add", folder).code == 1
    if by == "environment":
        monkeypatch.setenv("DERMFED_SIGNING_KEY", str(key))
    assert command("add", folder, *(["--key", key] if by == "option" else [])).code == 0
    assert "  olga (signed)  added version 1" in command("history", MODEL).out
