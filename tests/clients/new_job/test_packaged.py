"""The files that are no Python and that commands read are in the package that is installed."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "file",
    [
        "clients/job.yaml.j2",
        "clients/data/quality.html",
        "clients/data/quality.css",
        "registry/bundle/page/base.css",
        "personalization/report/report.css",
    ],
)
def test_a_file_that_a_command_reads_is_packaged(file):
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    room, _, path = file.partition("/")
    assert (ROOT / file).is_file()
    assert any(Path(path).match(pattern) for pattern in patterns[room])
