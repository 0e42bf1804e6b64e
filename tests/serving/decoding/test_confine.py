"""What a picture that took over a worker can do, next to what it could in any other process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from serving.decoding.confine import ALLOWED, ENDING, NoFilterError, build_filter

ATTACKS = Path(__file__).with_name("attacks.py")
ROOT = Path(__file__).parents[3]


def outcomes(folder: Path, mode: str) -> dict[str, str]:
    (folder / "registry.db").write_bytes(b"SQLite")
    command = [sys.executable, str(ATTACKS), str(folder / "registry.db"), mode]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    return json.loads(done.stdout)


def test_any_other_process_can_do_all_of_it(tmp_path):
    assert set(outcomes(tmp_path, "free").values()) == {"done"}


def test_a_worker_can_do_nothing_but_decode(tmp_path):
    found = outcomes(tmp_path, "filter")
    assert found.pop("start_thread") == "done"
    assert found.pop("take_memory") == "OSError"
    ended = {name for name, how in found.items() if how == "SIGSYS"}
    assert ended >= {"open_socket", "make_pair", "fork", "execute", "signal_others", "trace"}
    assert set(found.values()) <= {"SIGSYS", "PermissionError", "OSError", "ValueError"}
    assert not (tmp_path / "registry.db.new").exists()


def test_without_a_filter_memory_and_files_are_limited_all_the_same(tmp_path):
    found = outcomes(tmp_path, "limits")
    assert found["take_memory"] == "OSError"
    assert found["read_file"] == found["write_file"] == found["open_socket"] == "OSError"
    assert found["fork"] == "done"  # which is why there is a filter


def test_a_system_without_a_filter_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    with pytest.raises(NoFilterError, match="libseccomp2"):
        build_filter(3)
    assert set(ALLOWED).isdisjoint(ENDING)
