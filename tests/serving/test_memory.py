"""How much memory there is, by the machine and by control groups of both versions."""

import os

import pytest

from serving.control_groups import group_folders
from serving.memory import memory

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MEBIBYTE = 2**20


@pytest.mark.parametrize(
    ("told", "expected"),
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
def test_the_smallest_limit_holds(tmp_path, told, expected):
    groups = tmp_path / "groups"
    for name, text in told.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text + "\n")
    membership = tmp_path / "membership"
    membership.write_text("5:cpu,memory:/old\n0::/a/b\n")
    assert memory(membership, groups) == expected


def test_where_there_are_no_groups_there_is_no_folder(tmp_path):
    (tmp_path / "membership").write_text("nonsense\n")
    assert group_folders(tmp_path / "membership", tmp_path) == []
    assert group_folders(tmp_path / "nothing", tmp_path) == []
