import os

import pytest

from serving.cores import cores
from serving.settings import ServeSettings

HERE = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("quotas", "at_most"),
    [
        ({}, HERE),
        ({"": "max 100000"}, HERE),
        ({"a/b": "100000 100000"}, 1),
        ({"a/b": "50000 100000"}, 1),
        ({"a": "100000 100000", "a/b": "max 100000"}, 1),
        ({"": "100000 100000"}, 1),
        ({"a/b": "150000 100000"}, 2),
        ({"a/b": "100000000 100000"}, HERE),
        ({"elsewhere": "100000 100000"}, HERE),
        ({"a/b": "nonsense"}, HERE),
    ],
)
def test_quotas_of_the_group_and_of_those_it_is_in(tmp_path, quotas, at_most):
    for name, told in quotas.items():
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "cpu.max").write_text(told + "\n")
    membership = tmp_path / "membership"
    membership.write_text("1:name=old:/x\n0::/a/b\n")
    assert cores(membership, tmp_path) == min(HERE, at_most)


def test_without_control_groups_there_are_all(tmp_path):
    assert cores(tmp_path / "nothing", tmp_path) == HERE
    (tmp_path / "old").write_text("5:cpu:/a\n")
    assert cores(tmp_path / "old", tmp_path) == HERE


def test_settings_know_them():
    assert ServeSettings().threads == cores()
