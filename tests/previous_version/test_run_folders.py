"""Runs that the previous version left in mid-round are continued to the weights that it reached itself.

Byte for byte where this processor's arithmetic is that of the one on which they were made; elsewhere close.
"""

from pathlib import Path

import pytest

from tests.fixtures import PREVIOUS
from tests.fixtures.making.outcome import outcomes
from tests.fixtures.making.packed import unpack
from tests.previous_version.resuming import assert_reached, assert_went_on, computed, computed_once, resume

FOLDER = PREVIOUS / "run_folders"
FAMILIES = ("fedavg", "fedauto", "fedclf", "fedmae", "fedperl")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders as they were left, by family."""
    out = tmp_path_factory.mktemp("killed")
    for family in FAMILIES:
        unpack(FOLDER / family / "killed.tar.xz", out / family)
    return out


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of them, continued to their ends."""
    out = tmp_path_factory.mktemp("resumed")
    for family in FAMILIES:
        unpack(FOLDER / family / "killed.tar.xz", out / family)
    resume([(FOLDER / family / "job.yaml", out / family) for family in FAMILIES], out)
    return out


@pytest.mark.parametrize("family", FAMILIES)
def test_the_folder_lies_as_a_kill_leaves_it(family, killed):
    folder = killed / family
    assert not outcomes(folder), "no stage was at its end"
    assert list(folder.glob("spool/worker-*/*")), "an answer of the next round was waiting"
    assert bool(list(folder.glob("clients/*/*/*"))) == (family in ("fedauto", "fedclf", "fedmae"))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_run_ends_with_the_same_weights(family, resumed, tmp_path, record_property):
    compared = assert_reached(FOLDER / family, resumed / family, tmp_path)
    record_property("compared", compared)
    print(f"{family}: compared {compared}")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_run_went_on_from_where_it_was(family, killed, resumed):
    assert_went_on(FOLDER / family, killed / family, resumed / family)


def test_arithmetic_is_pinned_whatever_is_set_outside(monkeypatch):
    inside = computed_once()
    for name, value in {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_CBWR": "AVX2",
        "OMP_NUM_THREADS": "2",
    }.items():
        monkeypatch.setenv(name, value)
    assert computed() == inside
    assert inside["capability"] == "DEFAULT"
