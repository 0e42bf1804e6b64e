"""What the machine and control groups of both versions leave a process."""

import os

import pytest

from serving.machine import cores, group_folders, memory

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MEBIBYTE = 2**20
IN_GROUPS = "9:name=old:/x\n5:cpu,cpuacct,memory:/old\n0::/a/b\n"


def groups_of(folder, limits, named=IN_GROUPS):
    """The file that names a process's groups, and the folder with their limits."""
    groups = folder / "groups"
    groups.mkdir()
    for name, text in limits.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text + "\n")
    (folder / "membership").write_text(named)
    return folder / "membership", groups


def version_1(folder, quota):
    return {f"{folder}/cpu.cfs_quota_us": quota, f"{folder}/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({}, 64, id="no limit"),
        pytest.param({"cpu.max": "max 100000"}, 64, id="unlimited"),
        pytest.param({"a/b/cpu.max": "50000 100000"}, 1, id="less than one"),
        pytest.param({"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1, id="of a group above"),
        pytest.param({"cpu.max": "100000 100000"}, 1, id="of the root"),
        pytest.param({"a/b/cpu.max": "399999 100000"}, 3, id="rounded down"),
        pytest.param({"a/b/cpu.max": "100000000 100000"}, 64, id="more than the machine has"),
        pytest.param({"elsewhere/cpu.max": "100000 100000"}, 64, id="of another group"),
        pytest.param({"a/b/cpu.max": "nonsense"}, 64, id="unreadable"),
        pytest.param({"a/b/cpu.max": "100000"}, 64, id="without a period"),
        pytest.param({"a/b/cpu.max": "100000 0"}, 64, id="period of zero"),
        pytest.param(version_1("cpu/old", "250000"), 2, id="version 1"),
        pytest.param(version_1("cpu/old", "-1"), 64, id="version 1, unlimited"),
        pytest.param(version_1("cpu", "300000"), 3, id="version 1, of the root"),
        pytest.param(version_1("cpu,cpuacct,memory/old", "300000"), 3, id="version 1, joint controllers"),
        pytest.param(version_1("cpu/elsewhere", "100000"), 64, id="version 1, of another group"),
        pytest.param(
            {**version_1("cpu/old", "300000"), "a/b/cpu.max": "200000 100000"}, 2, id="both versions"
        ),
    ],
)
def test_the_smallest_quota_holds(tmp_path, monkeypatch, limits, expected):
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
        ({"a/memory.max": f"{32 * MEBIBYTE}", "a/b/memory.max": f"{64 * MEBIBYTE}"}, 32 * MEBIBYTE),
        ({"elsewhere/memory.max": "1"}, MACHINE),
        ({"a/b/memory.max": "nonsense"}, MACHINE),
        ({"memory/old/memory.limit_in_bytes": f"{8 * MEBIBYTE}"}, 8 * MEBIBYTE),
        ({"memory/old/memory.limit_in_bytes": "9223372036854771712"}, MACHINE),
    ],
)
def test_the_smallest_limit_of_memory_holds(tmp_path, limits, expected):
    assert memory(*groups_of(tmp_path, limits)) == expected


@pytest.mark.parametrize("named", ["nonsense\n", "", "7:pids:/a\n", None])
def test_without_control_groups_all_is_left(tmp_path, named):
    membership, groups = groups_of(tmp_path, {}, named or "")
    if named is None:
        membership.unlink()
    assert group_folders(membership, groups) == []
    assert cores(membership, groups) == len(os.sched_getaffinity(0))
    assert memory(membership, groups) == MACHINE
