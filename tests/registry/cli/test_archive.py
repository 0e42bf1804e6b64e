import json
import zipfile

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from registry.views.records import _origin

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


def test_a_file_that_names_the_key_of_somebody_is_not_said_to_be_signed_with_it():
    """Whoever writes a file names whom they like: no signature of the promotion is in it."""
    origin = {"release": 1, "alias": "production", "time": "then", "event": 2, "registry": "", "versions": []}
    told = _origin({**origin, "key": f"sha256:{'0' * 64}"})
    assert told.endswith(f"signed, it says, with the key sha256:{'0' * 64}")


@pytest.fixture
def other_key(tmp_path):
    """The public key of somebody who signed nothing here."""
    path = tmp_path / "other.pub"
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


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
