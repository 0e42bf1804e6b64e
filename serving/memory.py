"""How much memory this process may use: what the machine has, or what its control groups leave it."""

import os
from pathlib import Path

from serving.control_groups import GROUPS, MEMBERSHIP, group_folders


def memory(membership: Path = MEMBERSHIP, groups: Path = GROUPS) -> int:
    """Bytes of memory of the machine, at most the smallest limit of the process's control groups.

    Args:
        membership: the file that names the process's control groups, of version 1 or 2.
        groups: where the control groups are.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [
        *_limits(group_folders(membership, groups), "memory.max"),
        *_limits(group_folders(membership, groups, "memory"), "memory.limit_in_bytes"),
    ]
    return min([machine, *limits])


def _limits(folders: list[Path], name: str) -> list[int]:
    found = []
    for folder in folders:
        try:
            told = (folder / name).read_text().strip()
        except OSError:
            continue  # no limit is set here
        if told.isascii() and told.isdigit() and int(told) > 0:
            found.append(int(told))
    return found
