"""From drawn pictures to answers over HTTP: the short form of `benchmarks/served.py`."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_was_trained_is_what_answers(tiny, job_file, tmp_path, pictures_cache):
    tiny["stages"] += [
        {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "selection": {"band": 0.05}},
        {"stage": "export"},
        {"stage": "calibrate", "coverage": 0.9},
    ]
    script = ROOT / "benchmarks" / "served.py"
    ended = subprocess.run(
        [sys.executable, script, job_file(tiny), "--out", tmp_path / "out", "--pictures", "3"],
        env={**os.environ, "DERMFED_CACHE": str(pictures_cache), "BENTOML_HOME": str(tmp_path / "bentoml")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [line for line in ended.stdout.splitlines() if "(fitzpatrick)" in line]
    assert len(rows) == 18, "six tones, each declared, undeclared, and on another scale"
    assert sum("dark, version" in row for row in rows) == 3
    assert sum("light, version" in row for row in rows) == 3
    assert sum("global, version" in row for row in rows) == 12
