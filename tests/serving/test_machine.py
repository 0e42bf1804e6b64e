"""What the machine and control groups of both versions leave a process."""

import os

import pytest

from serving.machine import cores, group_folders, memory

HERE = len(os.sched_getaffinity(0))
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MEBIBYTE = 2**20


def groups_of(folder, limits, named="9:name=old:/x\n5:cpu,cpuacct,memory:/old\n0::/a/b\n"):
    """The file that names a process's groups, and where they are."""
    groups = folder / "groups"
    groups.mkdir()
    for name, text in limits.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text + "\n")
    (folder / "membership").write_text(named)
    return folder / "membership", groups


def quota_of_1(where, quota, period="100000"):
    return {f"{where}/cpu.cfs_quota_us": quota, f"{where}/cpu.cfs_period_us": period}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 64),
        ({"cpu.max": "max 100000"}, 64),
        ({"a/b/cpu.max": "100000 100000"}, 1),
        ({"a/b/cpu.max": "50000 100000"}, 1),
        ({"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1),
        ({"cpu.max": "100000 100000"}, 1),
        ({"a/b/cpu.max": "150000 100000"}, 1),
        ({"a/b/cpu.max": "399999 100000"}, 3),
        ({"a/b/cpu.max": "100000000 100000"}, 64),
        ({"elsewhere/cpu.max": "100000 100000"}, 64),
        ({"a/b/cpu.max": "nonsense"}, 64),
        ({"a/b/cpu.max": "100000"}, 64),
        ({"a/b/cpu.max": "100000 0"}, 64),
        (quota_of_1("cpu/old", "250000"), 2),
        (quota_of_1("cpu/old", "50000"), 1),
        (quota_of_1("cpu/old", "-1"), 64),
        (quota_of_1("cpu", "300000"), 3),
        (quota_of_1("cpu,cpuacct,memory/old", "300000"), 3),
        (quota_of_1("cpu/elsewhere", "100000"), 64),
        ({**quota_of_1("cpu/old", "300000"), "a/b/cpu.max": "200000 100000"}, 2),
    ],
)
def test_the_smallest_quota_holds_rounded_down(tmp_path, monkeypatch, limits, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(64))
    assert cores(*groups_of(tmp_path, limits)) == expected


def test_a_set_of_processors_that_is_smaller_than_the_quota_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1})
    assert cores(*groups_of(tmp_path, {"cpu.max": "400000 100000"})) == 1


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, MACHINE),
        ({"memory.max": "max"}, MACHINE),
        ({"a/b/memory.max": f"{64 * MEBIBYTE}"}, 64 * MEBIBYTE),
        ({"a/memory.max": f"{32 * MEBIBYTE}", "a/b/memory.max": f"{64 * MEBIBYTE}"}, 32 * MEBIBYTE),
        ({"memory.max": f"{16 * MEBIBYTE}"}, 16 * MEBIBYTE),
        ({"elsewhere/memory.max": "1"}, MACHINE),
        ({"a/b/memory.max": "nonsense"}, MACHINE),
        ({"memory/old/memory.limit_in_bytes": f"{8 * MEBIBYTE}"}, 8 * MEBIBYTE),
        ({"memory/memory.limit_in_bytes": f"{8 * MEBIBYTE}"}, 8 * MEBIBYTE),
        ({"memory/old/memory.limit_in_bytes": "9223372036854771712"}, MACHINE),
    ],
)
def test_the_smallest_limit_of_memory_holds(tmp_path, limits, expected):
    assert memory(*groups_of(tmp_path, limits)) == expected


@pytest.mark.parametrize("named", ["nonsense\n", "", "7:pids:/a\n"])
def test_without_control_groups_there_is_all(tmp_path, named):
    membership, groups = groups_of(tmp_path, {}, named)
    assert group_folders(membership, groups) == []
    assert group_folders(tmp_path / "nothing", groups) == []
    assert (cores(membership, groups), memory(membership, groups)) == (HERE, MACHINE)
