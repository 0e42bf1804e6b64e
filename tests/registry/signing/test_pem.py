import hashlib
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from registry.errors import KeyUnusable
from registry.signing_keys import fingerprint, read_signer, read_trust


def test_a_key_signs_under_its_fingerprint(key, write):
    private = key()
    der = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert read_signer(write(private)).identity == "sha256:" + hashlib.sha256(der).hexdigest()
    assert fingerprint(private.public_key()) == "sha256:" + hashlib.sha256(der).hexdigest()


def test_a_certificate_gives_the_name(key, write, certificate):
    private = key()
    own = certificate(private, "Model board")
    assert read_signer(write(private), write(own)).identity == "CN=Model board"


def test_a_password_opens_a_key(key, write):
    private = key()
    hidden = write(private, password=b"secret")
    assert read_signer(hidden, password="secret").identity == fingerprint(private.public_key())
    with pytest.raises(KeyUnusable, match="DERMFED_KEY_PASSWORD"):
        read_signer(hidden)
    with pytest.raises(KeyUnusable, match="password is another"):
        read_signer(hidden, password="wrong")
    with pytest.raises(KeyUnusable, match="has no password: unset DERMFED_KEY_PASSWORD"):
        read_signer(write(private), password="secret")


@pytest.mark.parametrize(
    ("private", "said"),
    [
        (ed25519.Ed25519PrivateKey.generate(), "of another kind"),
        (rsa.generate_private_key(65537, 2048), "of another kind"),
        (ec.generate_private_key(ec.SECP256K1()), "of the curve secp256k1"),
    ],
    ids=["ed25519", "rsa", "secp256k1"],
)
def test_other_keys_are_refused_naming_those_that_are_allowed(write, private, said):
    for read in (lambda: read_signer(write(private)), lambda: read_trust([write(private.public_key())])):
        with pytest.raises(KeyUnusable, match=said) as caught:
            read()
        assert "P-256, P-384, P-521" in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_file_without_a_key_is_refused(tmp_path, content):
    (tmp_path / "key.pem").write_bytes(content)
    with pytest.raises(KeyUnusable, match=r"key\.pem holds no private key"):
        read_signer(tmp_path / "key.pem")


def test_the_public_half_is_told_from_the_private_one(key, write):
    with pytest.raises(KeyUnusable, match="holds a public key; give the private one"):
        read_signer(write(key().public_key()))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(KeyUnusable, match=r"nothing\.pem cannot be read"):
        read_signer(tmp_path / "nothing.pem")
    with pytest.raises(KeyUnusable, match=r"nothing\.pem cannot be read"):
        read_trust([tmp_path / "nothing.pem"])


def test_a_certificate_must_be_the_keys_own_valid_and_for_signing(key, write, certificate):
    private, other = key(), key()
    old = certificate(private, "b", start=-timedelta(days=9), end=-timedelta(days=8))
    early = certificate(private, "b", start=timedelta(days=8), end=timedelta(days=9))
    for own, said in (
        (certificate(other, "b"), "is not of the private key"),
        (certificate(private, "b", signs=False), "not for digital signatures"),
        (old, "and not now"),
        (early, "and not now"),
    ):
        with pytest.raises(KeyUnusable, match=said):
            read_signer(write(private), write(own))


def test_a_file_of_trust_may_hold_several(key, write, certificate, tmp_path):
    one, two, root = key(), key(), key()
    parts = [write(one.public_key()), write(two.public_key()), write(certificate(root, "CA", authority=True))]
    (tmp_path / "all.crt").write_bytes(b"# whom we trust\n" + b"\n".join(path.read_bytes() for path in parts))
    trust = read_trust([tmp_path / "all.crt"])
    assert {fingerprint(each) for each in trust.keys.values()} == {
        fingerprint(each.public_key()) for each in (one, two)
    }
    assert [each.subject.rfc4514_string() for each in trust.certificates] == ["CN=CA"]
    assert read_trust(parts) == trust


def test_nobody_trusts_by_a_private_key(key, write):
    with pytest.raises(KeyUnusable, match="openssl pkey -in KEY -pubout"):
        read_trust([write(key())])


@pytest.mark.parametrize("label", ["PUBLIC KEY", "CERTIFICATE"])
def test_what_cannot_be_read_is_no_reason_to_trust(tmp_path, label):
    (tmp_path / "x.pem").write_text(f"-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n")
    with pytest.raises(KeyUnusable, match="cannot be read"):
        read_trust([tmp_path / "x.pem"])
    (tmp_path / "y.pem").write_text("hello")
    with pytest.raises(KeyUnusable, match="nothing in PEM"):
        read_trust([tmp_path / "y.pem"])
