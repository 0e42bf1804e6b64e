import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from registry.bundle.manifest import sha256
from registry.envelope import bundle_files
from registry.signing_keys import Signer, Trust, check_signature, hint_of, sign_files

FILES = bundle_files(sha256(b'{"a manifest":1}'), sha256(b"a graph"))
NOW = datetime.now(UTC)
ORACLE = json.loads(Path(__file__).with_name("model_signing_1.1.1.json").read_text())


def trusting(*keys, certificates=()):
    return Trust({hint_of(key): key for key in keys}, tuple(certificates))


@pytest.mark.parametrize("made", ORACLE, ids=lambda made: made["curve"])
def test_signatures_of_the_reference_tool_are_valid(made):
    """Made by model-signing 1.1.1 of a folder with these two files; it finds ours valid too."""
    public = load_pem_public_key(made["public_key"].encode())
    content = json.dumps(made["signature"]).encode()
    assert check_signature(content, FILES, trusting(public), NOW).verdict == "valid"
    assert check_signature(content, FILES, Trust({}, ()), NOW).verdict == "unknown"
    assert (
        check_signature(content, bundle_files(*["sha256:" + "0" * 64] * 2), trusting(public), NOW).verdict
        == "forged"
    )


@pytest.mark.parametrize(
    ("curve", "hash_"),
    [
        (ec.SECP256R1(), hashes.SHA256()),
        (ec.SECP384R1(), hashes.SHA384()),
        (ec.SECP521R1(), hashes.SHA512()),
    ],
    ids=["P-256", "P-384", "P-521"],
)
def test_what_was_signed_is_valid_for_whoever_trusts_the_key(key, curve, hash_):
    private = key(curve)
    content = sign_files("demo", FILES, Signer(private))
    checked = check_signature(content, FILES, trusting(private.public_key()), NOW)
    assert (checked.verdict, checked.identity) == ("valid", Signer(private).identity)
    # By hand: ECDSA over the protocol's encoding of the payload.
    dsse = json.loads(content)["dsseEnvelope"]
    payload, signature = (base64.b64decode(one) for one in (dsse["payload"], dsse["signatures"][0]["sig"]))
    encoded = b"DSSEv1 28 application/vnd.in-toto+json " + str(len(payload)).encode() + b" " + payload
    private.public_key().verify(signature, encoded, ec.ECDSA(hash_))


def test_a_signature_of_somebody_else_is_unknown(key):
    content = sign_files("demo", FILES, Signer(key()))
    checked = check_signature(content, FILES, trusting(key().public_key()), NOW)
    assert (checked.verdict, checked.identity, checked.names) == ("unknown", None, ())
    assert "is not trusted" in checked.why


def test_a_signature_that_only_claims_to_be_of_a_trusted_key_is_forged(key):
    trusted, other = key(), key()
    record = json.loads(sign_files("demo", FILES, Signer(other)))
    record["verificationMaterial"]["publicKey"]["hint"] = hint_of(trusted.public_key())
    checked = check_signature(json.dumps(record).encode(), FILES, trusting(trusted.public_key()), NOW)
    assert checked.verdict == "forged"
    assert Signer(trusted).identity in checked.why


def test_every_changed_byte_of_payload_or_signature_is_forged(key):
    private = key()
    record = json.loads(sign_files("demo", FILES, Signer(private)))
    dsse = record["dsseEnvelope"]
    for holder, name in ((dsse, "payload"), (dsse["signatures"][0], "sig")):
        kept = holder[name]
        for place in range(0, len(base64.b64decode(kept)), 7):
            changed = bytearray(base64.b64decode(kept))
            changed[place] ^= 1
            holder[name] = base64.b64encode(changed).decode()
            checked = check_signature(json.dumps(record).encode(), FILES, trusting(private.public_key()), NOW)
            assert checked.verdict == "forged"
        holder[name] = kept
    assert (
        check_signature(json.dumps(record).encode(), FILES, trusting(private.public_key()), NOW).verdict
        == "valid"
    )


@pytest.mark.parametrize("file", list(FILES))
def test_a_signature_of_other_files_is_forged(key, file):
    private = key()
    content = sign_files("demo", {**FILES, file: sha256(b"another")}, Signer(private))
    checked = check_signature(content, FILES, trusting(private.public_key()), NOW)
    assert (checked.verdict, checked.why) == ("forged", "it is over other files")


def test_bytes_that_are_no_signature_are_forged(key):
    assert check_signature(b"hello", FILES, trusting(key().public_key()), NOW).verdict == "forged"


def test_a_key_that_is_trusted_counts_whatever_its_certificate_says(key, certificate):
    private = key()
    content = sign_files("demo", FILES, Signer(private, certificate(private, "Model board")))
    checked = check_signature(content, FILES, trusting(private.public_key()), NOW)
    assert (checked.verdict, checked.identity) == ("valid", Signer(private).identity)
    assert "CN=Model board" in checked.names


DAY, WEEK = timedelta(days=1), timedelta(days=7)


@pytest.mark.parametrize(
    ("own", "trusted", "when", "verdict", "why"),
    [
        ("own", "own", 0 * DAY, "valid", ""),
        ("own", "own", -2 * DAY, "unknown", "not valid when this was signed"),
        ("own", "own", 2 * DAY, "unknown", "not valid when this was signed"),
        ("own", "namesake", 0 * DAY, "unknown", "is not trusted, nor one that issued it"),
        ("namesake", "namesake", 0 * DAY, "forged", "it claims to be of CN=Model board, and is not"),
        ("TLS", "TLS", 0 * DAY, "unknown", "not for digital signatures"),
        ("by authority", "authority", 0 * DAY, "valid", ""),
        ("by authority", "impostor", 0 * DAY, "unknown", "is not trusted, nor one that issued it"),
        ("by colleague", "colleague", 0 * DAY, "unknown", "is not trusted, nor one that issued it"),
        ("by expired", "expired", 0 * DAY, "unknown", "is not trusted, nor one that issued it"),
        ("by expired", "expired", -1.5 * WEEK, "valid", ""),
    ],
)
def test_whom_a_certificate_vouches_for(key, certificate, own, trusted, when, verdict, why):
    root, private = key(), key()
    issuers = {
        "authority": certificate(root, "Hospital CA", authority=True),
        "colleague": certificate(root, "A colleague"),
        "expired": certificate(root, "Hospital CA", authority=True, start=-2 * WEEK, end=-WEEK),
    }
    made = issuers | {
        "impostor": certificate(key(), "Hospital CA", authority=True),
        "own": certificate(private, "Model board"),
        "namesake": certificate(key(), "Model board"),
        "TLS": certificate(private, "Model board", signs=False),
    }
    for name, one in issuers.items():
        made[f"by {name}"] = certificate(private, "Model board", (one, root), start=-2 * WEEK, end=WEEK)
    content = sign_files("demo", FILES, Signer(private, made[own]))
    checked = check_signature(content, FILES, trusting(certificates=[made[trusted]]), NOW + when)
    assert (checked.verdict, checked.identity, why in checked.why) == (verdict, "CN=Model board", True)


def test_a_certificate_that_cannot_be_read_is_forged(key, certificate):
    private = key()
    record = json.loads(sign_files("demo", FILES, Signer(private, certificate(private, "Model board"))))
    record["verificationMaterial"]["x509CertificateChain"]["certificates"][0]["rawBytes"] = "AAAA"
    checked = check_signature(json.dumps(record).encode(), FILES, trusting(private.public_key()), NOW)
    assert (checked.verdict, "cannot be read" in checked.why) == ("forged", True)
