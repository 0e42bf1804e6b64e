import hashlib
import json

import pytest

from registry.signing.envelope import bundle_files, read_statement, statement

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
