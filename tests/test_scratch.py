"""Where the files of tests lie."""

import shutil
from types import SimpleNamespace

import pytest

from tests import scratch


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """A folder that stands for memory with room, whatever this machine has."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=scratch.ROOM))
    return tmp_path


def test_in_memory_where_there_is_room(memory):
    assert scratch.place(memory) == memory
    assert list(memory.iterdir()) == []


def test_elsewhere_where_there_is_none_or_somebody_said_where(memory, monkeypatch):
    assert scratch.place(memory / "nowhere") is None
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert scratch.place(memory) is None
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=scratch.ROOM - 1))
    assert scratch.place(memory) is None


def test_elsewhere_where_no_program_may_be_started(memory, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    monkeypatch.setattr(scratch.subprocess, "run", refuse)
    assert scratch.place(memory) is None
