"""One job in two folders, its code read from two folders, too: the same bundles, byte for byte."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ROOMS = ("clients", "dermfed", "personalization", "registry", "serving", "training")
COMMAND = """
import training.models.export, training.run, training.wiring
training.wiring.render_report = lambda data: ""  # drawing it takes longer than the run
{change}
print(training.__file__)
training.run.main()
"""
WITHOUT_THE_GUARD = "training.models.export._strip = lambda graph: None"


def bundles_of(job, folder, change=""):
    """The bytes of each bundle's files, by its name; everything of the run lies in the folder."""
    (folder / "code").mkdir(parents=True)
    for room in ROOMS:
        (folder / "code" / room).symlink_to(ROOT / room)
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND.format(change=change), "job.yaml", "--out", "out"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "code"), "DERMFED_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"{folder}/code/training/")
    return {path.relative_to(folder): path.read_bytes() for path in folder.glob("out/bundles/*/*")}


@pytest.fixture
def job(tiny):
    tiny["stages"][0]["rounds"] = 1
    tiny["stages"] += [{"stage": "export"}, {"stage": "calibrate"}]
    return tiny


@pytest.mark.long
def test_the_same_bundles_from_two_folders(job, tmp_path):
    one, other = (bundles_of(job, tmp_path / place) for place in ("one", "other/and deeper"))
    assert sorted(path.name for path in one) == ["bundle.json", "model.onnx"]
    assert one == other
    for content in one.values():
        assert str(tmp_path).encode() not in content
        assert str(ROOT).encode() not in content


@pytest.mark.long
def test_without_the_guard_they_differ(job, tmp_path):
    """The control."""
    one, other = (bundles_of(job, tmp_path / place, WITHOUT_THE_GUARD) for place in ("one", "other"))
    assert all(one[path] != other[path] for path in one)
    assert any(f"{tmp_path}/one/code/training".encode() in content for content in one.values())
