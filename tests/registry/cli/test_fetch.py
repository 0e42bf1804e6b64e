"""`dermfed-registry fetch`: a version as a folder, byte for byte."""

import json

import pytest

from registry.bundle.folder import write_bundle_files
from registry.errors import ObjectCorrupt

MODEL = "skin-lesion"
pytestmark = pytest.mark.sqlite  # nothing here depends on the database


@pytest.fixture
def added(command, folders, bundle):
    """Version 1, and the folder that it came from."""
    (folder,) = folders(bundle())
    assert command("add", folder).code == 0
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_comes_out_is_what_went_in(command, added, tmp_path):
    out = tmp_path / "out"
    ended = command("fetch", MODEL, 1, "--out", out)
    assert (ended.code, ended.err) == (0, "")
    assert contents(out) == contents(added)
    assert ended.out.splitlines()[0] == f"version 1 of {MODEL} (global) is in {out}"
    told = json.loads(command("fetch", MODEL, 1, "--out", out, "--json").out)
    assert (told["number"], told["files"]["bundle.json"], told["withdrawn"]) == (1, told["digest"], None)
    assert command("add", out).out.rstrip().endswith("was there")


def test_nothing_is_overwritten(command, added, tmp_path):
    out = tmp_path / "out"
    command("fetch", MODEL, 1, "--out", out)
    (out / "notes").write_text("mine")
    ended = command("fetch", MODEL, 1, "--out", out)
    assert (ended.code, ended.err.split(":")[0]) == (2, "FolderError")
    (out / "notes").unlink()
    (out / "bundle.json").write_bytes(b"{}")
    assert command("fetch", MODEL, 1, "--out", out).code == 2
    assert (out / "bundle.json").read_bytes() == b"{}"


def test_what_was_altered_in_the_store_does_not_come_out(command, added, places, tmp_path):
    with places.open() as registry:
        version = registry.version(MODEL, 1)
        places.spoil(registry.manifest(version).file.sha256)
        with pytest.raises(ObjectCorrupt):
            registry.fetch(MODEL, 1, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_was_withdrawn_comes_out_and_is_said_to_be(command, added, tmp_path):
    command("withdraw", MODEL, 1, "--reason", "misses melanoma")
    ended = command("fetch", MODEL, 1, "--out", tmp_path / "out")
    assert ended.code == 0
    assert "WITHDRAWN at " in ended.out
    assert "misses melanoma" in ended.out


def test_a_text_that_this_dermfed_would_write_otherwise_keeps_its_bytes(tmp_path):
    write_bundle_files(tmp_path / "out", b'{"old": 1}', b"model")
    assert (tmp_path / "out" / "bundle.json").read_bytes() == b'{"old": 1}'
    write_bundle_files(tmp_path / "out", b'{"old": 1}', b"model")
