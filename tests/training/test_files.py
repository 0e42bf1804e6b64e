"""Files are there whole or not at all."""

import errno
import os
from unittest.mock import Mock

import pytest
from safetensors import SafetensorError

from training.errors import CheckpointError, is_of_a_full_disk
from training.files import write_bytes, write_text, write_whole

FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_file_is_written_into_folders_that_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "name.txt"
    write_text(path, "Nävus")
    assert path.read_bytes() == "Nävus".encode()
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [FULL, SafetensorError("I/O error: No space left on device (os error 28)")])
def test_a_failure_half_way_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "name.txt"
    write_text(path, "old")

    def half(temporary):
        temporary.write_text("ne")
        raise error

    with pytest.raises(
        CheckpointError, match=r"cannot write .*name\.txt: .*No space left.*--resume"
    ) as failed:
        write_whole(path, half)
    assert is_of_a_full_disk(failed.value)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_no_full_disk_is_not_taken_for_one(tmp_path):
    for error in (OSError(errno.EROFS, "read-only"), SafetensorError("InvalidHeaderLength")):
        with pytest.raises(CheckpointError) as failed:
            write_whole(tmp_path / "name.txt", Mock(side_effect=error))
        assert not is_of_a_full_disk(failed.value)


def test_a_disk_that_refuses_the_sync_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "name.txt"
    write_text(path, "old")

    def refuse(_):
        raise FULL

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(CheckpointError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_content_is_synced_before_the_name_changes_and_the_folder_after(tmp_path, monkeypatch):
    path = tmp_path / "name.txt"
    write_text(path, "old")
    seen = []
    real = os.fsync

    def watch(descriptor):
        is_folder = os.path.isdir(f"/proc/self/fd/{descriptor}")  # noqa: PTH112 - the descriptor's own entry
        seen.append(("folder" if is_folder else "file", path.read_text()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    write_text(path, "new")
    assert seen == [("file", "old"), ("folder", "new")]
