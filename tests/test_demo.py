"""`make demo`, as a user types it: released by the default gates, and each kind of answer over HTTP."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


@pytest.mark.long
def test_the_demo_releases_and_shows_each_kind_of_answer(tmp_path):
    """What is asked here of a tone is what calibration can prove of it: of dark skin nothing is ruled out."""
    folder = os.path.relpath(tmp_path / "demo", ROOT)
    ended = subprocess.run(
        ["make", "--assume-old=.venv/.installed", "demo", f"BIN={BIN}", f"DEMO={folder}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DERMFED_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"promoted versions 1, 2, 3, production: release none -> 1", ended.stdout)
    last = ended.stdout.splitlines()[-30:]
    rows = {
        line.split()[0]: list(map(int, line.split()[2:5]))
        for line in last
        if re.match(r"(light|medium|dark) +\d", line)
    }
    ruled_out = {tone: counts[0] for tone, counts in rows.items()}
    assert ruled_out.pop("dark") == 0
    assert set(ruled_out) == {"light", "medium"}
    assert all(ruled_out.values())
    assert all(urgent for _, urgent, _ in rows.values())
    for title in ("RULED OUT: ", "URGENT: ", "REFERRED to a clinician: "):
        (shown,) = (line for line in last if line.startswith(title))
        assert "drawn as: " in shown
