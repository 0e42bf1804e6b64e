"""The envelope of a signature, and the statement in it."""

import base64
import hashlib
import json

import pytest

from registry.envelope import (
    LARGEST,
    Envelope,
    bundle_files,
    read_envelope,
    read_statement,
    signed_bytes,
    statement,
    write_envelope,
)

HINT = "0f" * 32


def record(**material):
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": material,
        "dsseEnvelope": {
            "payload": base64.b64encode(b"what is signed").decode(),
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [{"sig": base64.b64encode(b"by whom").decode(), "keyid": ""}],
        },
    }


def test_what_is_signed_is_the_encoding_of_the_protocol():
    """The example of the protocol's text, with our type: DSSEv1 SP length SP type SP length SP body."""
    assert signed_bytes(b"hello world") == b"DSSEv1 28 application/vnd.in-toto+json 11 hello world"


def test_it_is_written_as_the_format_has_it():
    written = json.loads(write_envelope(Envelope(b"what is signed", b"by whom", hint=HINT)))
    assert written == record(publicKey={"hint": HINT}, tlogEntries=[])
    chain = {"certificates": [{"rawBytes": "MAA="}]}
    written = json.loads(write_envelope(Envelope(b"what is signed", b"by whom", certificate=b"\x30\x00")))
    assert written == record(x509CertificateChain=chain, tlogEntries=[])


def test_parts_that_are_not_for_us_may_stand_beside():
    content = json.dumps({**record(publicKey={"hint": HINT}, tlogEntries=[]), "more": 1}).encode()
    assert read_envelope(content) == Envelope(b"what is signed", b"by whom", hint=HINT)


def without(*path):
    whole = record(publicKey={"hint": HINT})
    part = whole
    for name in path[:-1]:
        part = part[name]
    del part[path[-1]]
    return whole


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no signature"),
        (b"\x80\x04K\x01.", "no signature"),
        (json.dumps(record()).encode(), "neither a key nor a certificate"),
        (
            json.dumps(
                record(publicKey={"hint": HINT}, x509CertificateChain={"certificates": [{"rawBytes": ""}]})
            ).encode(),
            "or both",
        ),
        (json.dumps(record(publicKey={"hint": "short"})).encode(), "hint"),
        (json.dumps(without("mediaType")).encode(), "mediaType"),
        (json.dumps(without("dsseEnvelope", "payloadType")).encode(), "payloadType"),
        (json.dumps(record(publicKey={"hint": HINT})).replace("v0.3", "v0.1").encode(), "mediaType"),
        (json.dumps(without("dsseEnvelope", "signatures")).encode(), "signatures"),
        (json.dumps(record(publicKey={"hint": HINT})).replace("in-toto", "other").encode(), "payloadType"),
        (json.dumps(record(publicKey={"hint": HINT})).replace("d2hh", "!!!!").encode(), "payload"),
        (b" " * (LARGEST + 1), "at most"),
    ],
)
def test_what_is_no_signature_is_refused(content, why):
    with pytest.raises(ValueError, match=why):
        read_envelope(content)


ONE, TWO = "sha256:" + "1a" * 32, "sha256:" + "2b" * 32
FILES = bundle_files(ONE, TWO)


def said(**parts):
    record = json.loads(statement("demo", FILES))
    return json.dumps({**record, **parts}).encode()


def test_it_names_both_files_and_one_digest_over_their_digests():
    record = json.loads(statement("demo", FILES))
    assert record["_type"] == "https://in-toto.io/Statement/v1"
    assert record["predicateType"] == "https://model_signing/signature/v1.0"
    assert record["predicate"]["resources"] == [
        {"name": "bundle.json", "algorithm": "sha256", "digest": "1a" * 32},
        {"name": "model.onnx", "algorithm": "sha256", "digest": "2b" * 32},
    ]
    both = hashlib.sha256(bytes.fromhex("1a" * 32 + "2b" * 32)).hexdigest()
    assert record["subject"] == [{"name": "demo", "digest": {"sha256": both}}]


RESOURCES = json.loads(statement("demo", FILES))["predicate"]["resources"]


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "nothing about a model's files"),
        (b"[]", "nothing about a model's files"),
        (said(_type="https://in-toto.io/Statement/v0.1"), "_type"),
        (said(predicateType="https://slsa.dev/provenance/v1"), "predicateType"),
        (said(subject=[]), "subject"),
        (said(subject=[{"name": "demo", "digest": {"sha256": "00" * 32}}]), "not those of its subject"),
        (said(predicate={"resources": RESOURCES[:1]}), "not those of its subject"),
        (said(predicate={"resources": RESOURCES[:1] * 2}), "a file twice"),
        (said(predicate={"resources": [{**RESOURCES[0], "digest": "1a"}]}), "digest"),
        (said(predicate={"resources": [{**RESOURCES[0], "algorithm": "md5"}]}), "algorithm"),
    ],
)
def test_what_says_nothing_or_contradicts_itself_is_refused(payload, why):
    with pytest.raises(ValueError, match=why):
        read_statement(payload)
