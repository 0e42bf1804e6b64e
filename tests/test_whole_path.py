"""From drawn pictures to answers over HTTP: the short form of `benchmarks/served.py`."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from clients.data.adapters.layouts import Synthetic
from clients.data.manifest_file import write_manifest
from registry.bundle.folder import read_bundle

ROOT = Path(__file__).parents[1]
STAGES = (
    {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "selection": {"band": 0.05}},
    {"stage": "export"},
    {"stage": "calibrate", "coverage": 0.9},
)


def served(job: Path, folder: Path, cache: Path, pictures: int) -> list[str]:
    """The lines of `benchmarks/served.py` on a job; it ends with an error if any answer is a wrong one."""
    script = ROOT / "benchmarks" / "served.py"
    ended = subprocess.run(
        [sys.executable, script, job, "--out", folder / "out", "--pictures", str(pictures)],
        env={**os.environ, "DERMFED_CACHE": str(cache), "BENTOML_HOME": str(folder / "bentoml")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.long
def test_what_was_trained_is_what_answers(tiny, job_file, tmp_path, pictures_cache):
    tiny["stages"] += STAGES
    rows = [
        line
        for line in served(job_file(tiny), tmp_path, pictures_cache, pictures=3)
        if line.startswith("|") and "(fitzpatrick)" in line
    ]
    assert len(rows) == 18, "six tones, each declared, undeclared, and on another scale"
    own = [sum(f"{name}, version" in row for row in rows) for name in ("dark", "light", "global")]
    assert own == [2, 2, 14], "of each group one tone has too few patients in the calibration"


@pytest.fixture
def two_scales(tiny, tmp_path):
    """A job over two hospitals of which one declares Fitzpatrick types and the other tones of MILK10k."""
    manifests = []
    for number, scale in enumerate(("fitzpatrick", "milk10k")):
        drawn = Synthetic(pictures=600, size=32, seed=number, prefix=scale).manifest(tmp_path / scale)
        rows = drawn.rows
        if scale == "milk10k":  # drawn as Fitzpatrick types, from light to dark
            rows = [
                replace(row, skin_tone=str(6 - int(row.skin_tone)), skin_tone_scale=scale)
                for row in rows
                if row.skin_tone
            ]
        manifests.append(tmp_path / scale / "declared.csv")
        write_manifest(drawn.keep(rows), manifests[-1])
    tiny["data"] |= {
        "manifest": [str(path) for path in manifests],
        "subgroups": {
            "groups": {
                "dark": {"fitzpatrick": [5, "VI"], "milk10k": [0, 1, 2]},
                "light": {"fitzpatrick": [1, 2, 3, 4], "milk10k": [3, 4]},
            }
        },
        "clients": {"by": "manifest"},
    }
    for name in ("adapter", "options"):
        tiny["data"].pop(name)
    tiny["stages"] += STAGES
    return tiny


@pytest.mark.long
def test_a_tone_on_either_scale_of_a_group_is_answered_by_its_model(
    two_scales, job_file, tmp_path, pictures_cache
):
    """Groups over two scales, from two manifests to the service; 5 of MILK10k is in no group."""
    lines = served(job_file(two_scales), tmp_path, pictures_cache, pictures=1)
    declared = {
        line.split("declared")[0].strip(" |"): line.split("declared")[1].split(",")[0].strip(" |")
        for line in lines
        if " declared" in line and "version" in line
    }
    assert declared == {
        **{f"{tone} (fitzpatrick)": "light" for tone in (1, 2, 3, 4)},
        **{f"{tone} (fitzpatrick)": "dark" for tone in (5, 6)},
        **{f"{tone} (milk10k)": "dark" for tone in (0, 1, 2)},
        **{f"{tone} (milk10k)": "light" for tone in (3, 4)},
        "5 (milk10k)": "global",
    }
    others = [
        line for line in lines if "version" in line and ("unknown-tone" in line or "other-scale" in line)
    ]
    assert len(others) == 24
    assert sum("global, version" in line for line in others) == 24
    bundles = tmp_path / "out" / "run" / "bundles"
    assert read_bundle(bundles / "dark").manifest.subgroup.tones == {
        "fitzpatrick": ("5", "6"),
        "milk10k": ("0", "1", "2"),
    }
    tested = read_bundle(bundles / "global").manifest.reference.by_subgroup
    assert [one.subgroup.name for one in tested] == ["dark", "light"]
