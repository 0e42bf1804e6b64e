"""`dermfed-registry fetch`: a version as a folder, byte for byte."""

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


def test_a_text_that_this_dermfed_would_write_otherwise_keeps_its_bytes(tmp_path):
    write_bundle_files(tmp_path / "out", b'{"old": 1}', b"model")
    assert (tmp_path / "out" / "bundle.json").read_bytes() == b'{"old": 1}'
    write_bundle_files(tmp_path / "out", b'{"old": 1}', b"model")
