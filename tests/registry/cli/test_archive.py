import json
import zipfile

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from registry.rendering.records import _origin

pytestmark = pytest.mark.sqlite
MODEL = "skin-lesion"


@pytest.fixture
def trusted(released, signer, file, tmp_path):
    """The file with signatures, and the signer's public key."""
    released.sign(MODEL, [1, 2], signer)
    path = tmp_path / "vendor.pub"
    public = signer.key.public_key()
    path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    released.export_release(MODEL, "production", file)
    return path


def test_there_and_back(command, registry, pair, tmp_path, places):
    registry.add(pair)
    registry.promote(MODEL, [1, 2], to="staging")
    out = tmp_path / "x.dermfed"
    ended = command("export", MODEL, "--alias", "staging", "--out", out)
    assert ended.code == 0
    digest = ended.out.splitlines()[-1]
    assert ended.out.startswith(f"{out}: release 1 of {MODEL} (staging), versions 1, 2, ")
    assert (
        json.loads(command("export", MODEL, "--alias", "staging", "--out", out, "--json").out)["digest"]
        == digest
    )
    imported = command("import", out, "--to", "production")
    assert imported.code == 0
    assert imported.out.count("was there") == 2
    assert "promoted versions 1, 2, production: release none -> 2" in imported.out
    assert imported.out.splitlines()[-1] == digest


def test_history_tells_in_words_where_a_release_came_from(command, released, file):
    command("import", file)
    (promotion,) = (one for one in released.history(MODEL) if one.kind == "promoted")
    when = promotion.time.isoformat(timespec="microseconds")
    told = command("history", MODEL).out
    assert f"from: release 1 under production (versions 1, 2 there), promoted at {when} (event 2 of" in told
    assert told.rstrip().endswith("signed by nobody")


def test_a_file_that_names_the_key_of_somebody_is_not_said_to_be_signed_with_it():
    """Whoever writes a file names whom they like: no signature of the promotion is in it."""
    origin = {"release": 1, "alias": "production", "time": "then", "event": 2, "registry": "", "versions": []}
    told = _origin({**origin, "key": f"sha256:{'0' * 64}"})
    assert told.endswith(f"signed, it says, with the key sha256:{'0' * 64}")


def test_what_is_promoted_and_trusted(command, registry, file, trusted, signer):
    untrusted = command("import", file)
    assert untrusted.out.count("nobody is trusted; import again with --trust FILE") == 2
    arguments = ("--to", "staging", "--to", "production", "--trust", trusted, "--reason", "by courier")
    ended = command("import", file, *arguments, "--json")
    answer = json.loads(ended.out)
    assert [one["alias"] for one in answer["promoted"]] == ["staging", "production"]
    assert {one["identity"] for one in answer["signatures"]} == {signer.identity}
    assert {one["reason"] for one in answer["promoted"]} == {"by courier"}


def test_a_refusal_is_told_in_a_line(command, registry, file):
    file.write_bytes(file.read_bytes()[:-10])
    ended = command("import", file)
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert ended.err.startswith(f"ArchiveRefused: {file} is no release")


def test_the_usual_alias_is_production(command, registry, pair, tmp_path):
    registry.add(pair)
    ended = command("export", MODEL, "--out", tmp_path / "x")
    assert ended.code == 2
    assert "there is no alias 'production'" in ended.err


@pytest.fixture
def other_key(tmp_path):
    """The public key of somebody who signed nothing here."""
    path = tmp_path / "other.pub"
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


@pytest.mark.parametrize("by", ["option", "environment"])
def test_who_trusts_a_key_takes_nothing_unsigned(command, registry, file, other_key, by, monkeypatch):
    if by == "environment":
        monkeypatch.setenv("DERMFED_TRUSTED_KEYS", str(other_key))
    ended = command("import", file, "--to", "production", *(["--trust", other_key] if by == "option" else []))
    assert ended.code == 1
    assert ended.err.startswith(
        "ArchiveRefused: versions 1, 2 of skin-lesion in the file are signed by nobody"
    )
    assert "without a signature" in ended.err
    assert "--allow-unsigned" in ended.err
    assert registry.models() == ()


def test_a_key_that_did_not_sign_is_named(command, registry, file, trusted, other_key):
    ended = command("import", file, "--trust", other_key)
    assert (ended.code, ended.err.count("is not trusted")) == (1, 2)
    assert registry.models() == ()
    assert command("import", file, "--trust", other_key, "--allow-unsigned").out.count("left out") == 2
    assert command("import", file, "--trust", trusted).out.count("kept, of sha256:") == 2


def test_one_version_without_a_signature_is_enough_to_refuse(command, registry, file, trusted):
    with zipfile.ZipFile(file) as archive:
        found = [(one, archive.read(one)) for one in archive.infolist()]
    index = json.loads(found[0][1])
    (dropped,) = index["versions"][1].pop("signatures")
    index["versions"][1]["signatures"] = []
    with zipfile.ZipFile(file, "w") as archive:
        for info, content in found:
            if dropped["object"][7:] in info.filename:
                continue
            is_index = info.filename == "release.json"
            text = json.dumps(index, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            archive.writestr(info, text if is_index else content)
    ended = command("import", file, "--trust", trusted)
    assert (ended.code, registry.models()) == (1, ())
    assert "version 2 of skin-lesion in the file is signed by nobody" in ended.err
