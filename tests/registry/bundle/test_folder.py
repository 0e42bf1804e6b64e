import hashlib

import pytest

from registry.bundle import folder as folder_module
from registry.bundle.errors import BundleCorrupt, FolderError
from registry.bundle.folder import bundle_digest, read_bundle, write_bundle

MODEL = b"graph"


def test_what_is_written_is_read(manifest, tmp_path):
    digest = write_bundle(tmp_path / "new" / "global", manifest(), MODEL)
    bundle = read_bundle(tmp_path / "new" / "global")
    assert (bundle.manifest, bundle.model, bundle.digest) == (manifest(), MODEL, digest)


def test_the_digest_is_the_sha256_of_bundle_json(manifest, tmp_path):
    digest = write_bundle(tmp_path / "b", manifest(), MODEL)
    content = (tmp_path / "b" / "bundle.json").read_bytes()
    assert digest == bundle_digest(manifest()) == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["bundle.json", "model.onnx"]


def test_an_altered_model_is_refused_with_both_digests(manifest, tmp_path):
    write_bundle(tmp_path / "b", manifest(), MODEL)
    (tmp_path / "b" / "model.onnx").write_bytes(b"grapH")
    expected, found = (hashlib.sha256(content).hexdigest() for content in (MODEL, b"grapH"))
    with pytest.raises(BundleCorrupt, match=f"{found}.*{expected}.*altered: fetch the bundle again"):
        read_bundle(tmp_path / "b")


def test_an_altered_manifest_is_refused(manifest, tmp_path):
    write_bundle(tmp_path / "b", manifest(), MODEL)
    path = tmp_path / "b" / "bundle.json"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(BundleCorrupt, match="edited"):
        read_bundle(tmp_path / "b")


def test_the_manifest_must_be_of_this_model(manifest, tmp_path):
    with pytest.raises(BundleCorrupt, match="manifest is for a model"):
        write_bundle(tmp_path / "b", manifest(), b"other")
    assert list(tmp_path.iterdir()) == []


def test_writing_it_again_changes_nothing_and_another_is_refused(manifest, tmp_path):
    digest = write_bundle(tmp_path / "b", manifest(), MODEL)
    before = (tmp_path / "b" / "bundle.json").stat().st_mtime_ns
    assert write_bundle(tmp_path / "b", manifest(), MODEL) == digest
    assert (tmp_path / "b" / "bundle.json").stat().st_mtime_ns == before
    with pytest.raises(FolderError, match="is not this bundle"):
        write_bundle(tmp_path / "b", manifest(model="other"), MODEL)
    assert read_bundle(tmp_path / "b").digest == digest


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_failure_midway_leaves_nothing(manifest, tmp_path, monkeypatch, failing):
    """At the first file, the second, or their folder."""
    calls = []

    def fail(handle):
        calls.append(handle)
        if len(calls) == failing:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_module.os, "fsync", fail)
    with pytest.raises(FolderError, match="No space left"):
        write_bundle(tmp_path / "b", manifest(), MODEL)
    assert list(tmp_path.iterdir()) == []
