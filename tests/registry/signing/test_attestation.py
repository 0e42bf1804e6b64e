"""Whoever measured the figures signs them: what is signed, what is forged, and what `add` takes."""

import json
import re

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from registry.attestation import Attester, check_attestation
from registry.bundle.errors import ManifestError
from registry.bundle.evaluation import Evaluation, GroupCounts
from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.manifest import (
    ATTESTATION,
    BundleManifest,
    ModelFile,
    attested,
    canonical,
    read_manifest,
    without_attestation,
)
from registry.envelope import signed_bytes
from registry.errors import BundleRefused, KeyUnusable
from registry.signing_keys import fingerprint
from tests.measured import TWO, blocks_of, manifest_of

pytestmark = pytest.mark.sqlite  # nothing here depends on the database
CURVES = [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()]


@pytest.fixture(scope="module")
def measured(graph):
    """The manifest of a run, and its graph."""
    model = graph(classes=2)
    blocks = blocks_of(np.random.default_rng(1), TWO, {"light": 60, "dark": 30})
    return manifest_of(blocks, TWO, file=ModelFile.of(model)), model


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_the_same_manifest_gets_the_same_signature_of_its_key(measured, key, write, curve):
    manifest, _ = measured
    own = key(curve)
    attester = Attester(write(own), None)
    signed = attester(manifest)
    assert check_attestation(signed) == "signed"
    assert signed.attestation.fingerprint == attester.fingerprint == fingerprint(own.public_key())
    assert canonical(attester(manifest)) == canonical(signed) == canonical(attester(signed))
    assert read_manifest(canonical(signed)) == signed
    assert without_attestation(signed) == manifest
    assert check_attestation(manifest) == "not signed"


def test_what_is_signed_names_job_data_model_and_figures(measured):
    manifest, _ = measured
    said = json.loads(attested(manifest))
    assert said["job"] == manifest.lineage.job
    assert said["data"] == dict(manifest.lineage.data)
    assert said["model"] == manifest.file.sha256
    assert said["manifest"] == bundle_digest(manifest)
    other = manifest.model_copy(update={"evaluation": Evaluation(all=GroupCounts(n=50, right=5))})
    assert json.loads(attested(other))["figures"] != said["figures"]
    assert ATTESTATION.encode() in signed_bytes(b"", ATTESTATION)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["evaluation"]["all"].update(right=0, intervals={}),
        lambda record: record["reference"]["confidence"].__setitem__(0, 7),
        lambda record: record["lineage"].update(job="sha256:" + "1" * 64),
        lambda record: record["lineage"].update(data={"all": "sha256:" + "2" * 64}),
        lambda record: record["file"].update(sha256="sha256:" + "3" * 64),
        lambda record: record["conformal"].update(alpha=0.2),
        lambda record: record["labels"][0].update(malignancy="unknown"),
        lambda record: record.update(model="another"),
        lambda record: record["attestation"].update(signature="AAAA"),
    ],
    ids=["figure", "count", "job", "data", "model file", "rule", "label", "name", "signature"],
)
def test_whatever_is_changed_afterwards_makes_it_forged(measured, key, write, change):
    manifest, _ = measured
    record = json.loads(canonical(Attester(write(key()), None)(manifest)))
    change(record)
    assert check_attestation(BundleManifest.model_validate(record)) == "forged"


def test_the_key_of_somebody_else_beside_the_signature_is_forged(measured, key, write):
    manifest, _ = measured
    signed = Attester(write(key()), None)(manifest)
    others = Attester(write(key()), None)(manifest)
    mixed = signed.attestation.model_copy(update={"public_key": others.attestation.public_key})
    assert check_attestation(signed.model_copy(update={"attestation": mixed})) == "forged"


def test_a_key_of_another_kind_is_forged_and_no_crash(measured, key, write):
    manifest, _ = measured
    signed = Attester(write(key()), None)(manifest)
    odd = write(key(ec.SECP256K1()).public_key()).read_text()
    attestation = signed.attestation.model_copy(update={"public_key": odd})
    assert check_attestation(signed.model_copy(update={"attestation": attestation})) == "forged"


def test_only_what_holds_becomes_a_version_and_is_told(registry, command, folders, measured, key, write):
    manifest, model = measured
    signed = Attester(write(key()), None)(manifest)
    forged = signed.model_copy(update={"conformal": manifest.conformal.model_copy(update={"n": 900})})
    with pytest.raises(BundleRefused, match="signature is forged"):
        registry.add(folders(Bundle(forged, model, bundle_digest(forged))))
    registry.add(folders(Bundle(manifest, model, bundle_digest(manifest))))
    assert re.search(r"Figures +the uploader's word", command("show", manifest.model).out)
    registry.add(folders(Bundle(signed, model, bundle_digest(signed))))
    told = command("show", manifest.model, "--version", 2)
    assert re.search(rf"Figures +measured and signed by {signed.attestation.fingerprint}", told.out)
    card = json.loads(command("card", manifest.model, "--version", 2, "--json").out)
    assert card["versions"][0]["measured_by"] == signed.attestation.fingerprint
    assert signed.attestation.fingerprint in command("card", manifest.model, "--version", 2).out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attestation": {"public_key": "-----BEGIN", "signature": "AAAA"}}, "one public key in PEM"),
        ({"attestation": {"public_key": "x" * 3000, "signature": "AAAA"}}, "at most 2000"),
    ],
)
def test_a_signature_that_cannot_be_read_is_refused(measured, key, write, change, said):
    manifest, _ = measured
    record = json.loads(canonical(Attester(write(key()), None)(manifest))) | change
    content = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    with pytest.raises(ManifestError, match=said):
        read_manifest(content)


@pytest.mark.parametrize(
    ("password", "given", "said"),
    [(b"open sesame", None, "has a password"), (b"open sesame", "another", "password is another")],
)
def test_a_key_that_cannot_be_read_is_told_at_once(key, write, password, given, said):
    with pytest.raises(KeyUnusable, match=said):
        Attester(write(key(), password=password), given)
