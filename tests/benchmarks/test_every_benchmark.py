"""Every benchmark runs: its form of seconds prints a table, or it says what it lacks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.quick import LACKING, need_data, need_module

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
SOURCES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.py"))}
SCRIPTS = [name for name, source in SOURCES.items() if '__name__ == "__main__"' in source]
# A script that is a process of another one, which is run below.
STARTED_BY = {"load": "http_speed"}
TABLE = re.compile(r"^\| ?-{3}", re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in STARTED_BY])
def test_its_form_of_seconds_prints_a_table(name, tmp_path):
    surroundings = {key: value for key, value in os.environ.items() if key != "DERMFED_DATA"}
    ended = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", "--quick"],
        cwd=ROOT,
        env={**surroundings, "BENTOML_HOME": str(tmp_path / "bentoml")},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode == LACKING:
        said = ended.stderr.splitlines()[-1]
        assert said.startswith("needs: ")
        pytest.skip(f"{name} {said}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert TABLE.search(ended.stdout), ended.stdout


@pytest.mark.parametrize(("name", "by"), STARTED_BY.items())
def test_what_is_not_run_by_itself_is_started_by_another(name, by):
    assert name in SCRIPTS
    assert by in SCRIPTS
    assert name in SOURCES[by]


@pytest.mark.parametrize("path", sorted((FOLDER / "plain").glob("*.py")), ids=lambda path: path.stem)
def test_every_plain_form_belongs_to_a_benchmark(path):
    others = [other.read_text() for other in (FOLDER / "plain").glob("*.py") if other != path]
    assert any(path.stem in source for source in [*SOURCES.values(), *others])


def test_without_pictures_it_says_so_and_ends_in_its_own_way(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("DERMFED_DATA", str(tmp_path))
    need_data()
    for value in ("", str(tmp_path / "gone")):
        monkeypatch.setenv("DERMFED_DATA", value)
        with pytest.raises(SystemExit) as ended:
            need_data()
        assert ended.value.code == LACKING
        assert capsys.readouterr().err.startswith("needs: DERMFED_DATA names no folder")


def test_without_a_module_it_says_so_and_ends_in_its_own_way(capsys):
    need_module("pytest", "pip install pytest")
    with pytest.raises(SystemExit) as ended:
        need_module("no_such_module", "pip install it")
    assert ended.value.code == LACKING
    assert (
        capsys.readouterr().err
        == "needs: the module no_such_module is not installed; `pip install it` does it\n"
    )
