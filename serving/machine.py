"""How many cores and how much memory this process may use: the machine's, or what control groups leave it.

A container or a system's unit limits its processes by control groups, of version 1 (a tree for each
controller) or 2 (one tree). A group's limit holds for all groups within it.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MEMBERSHIP: Final = Path("/proc/self/cgroup")
"""The file that names the groups of this process."""

GROUPS: Final = Path("/sys/fs/cgroup")
"""Where groups are."""


def cores(membership: Path = MEMBERSHIP, groups: Path = GROUPS) -> int:
    """The cores in the process's CPU affinity, at most the smallest quota; rounded down, and at least 1.

    Args:
        membership: the file that names the process's control groups, of version 1 or 2.
        groups: where the control groups are.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [
        *(_read(folder, "cpu.max") for folder in group_folders(membership, groups)),
        *(
            _read(folder, "cpu.cfs_quota_us", "cpu.cfs_period_us")
            for folder in group_folders(membership, groups, "cpu")
        ),
    ]
    # A quota that is not a positive number is none: `max` in version 2, -1 in version 1.
    whole = [quota // period for quota, period in (one for one in quotas if len(one) == 2)]
    return max(1, min([affinity, *whole]))


def memory(membership: Path = MEMBERSHIP, groups: Path = GROUPS) -> int:
    """Bytes of memory of the machine, at most the smallest limit of the process's control groups.

    Args:
        membership: the file that names the process's control groups, of version 1 or 2.
        groups: where the control groups are.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [
        *(_read(folder, "memory.max") for folder in group_folders(membership, groups)),
        *(_read(folder, "memory.limit_in_bytes") for folder in group_folders(membership, groups, "memory")),
    ]
    return min([machine, *(one[0] for one in limits if one)])


def group_folders(membership: Path = MEMBERSHIP, groups: Path = GROUPS, controller: str = "") -> list[Path]:
    """The folders of the process's group and of those it is in, innermost first.

    Args:
        membership: the file that names the groups of the process.
        groups: where groups are.
        controller: of version 1, such as `memory`, whose groups are meant; of version 2 where it is empty.
    """
    found = _named(membership, controller)
    if found is None:
        return []
    own, tree = found
    # Some systems have no link `cpu` to the tree `cpu,cpuacct` that two controllers share.
    root = groups / controller if (groups / controller).exists() else groups / tree
    # Within a container the group's name may be one that only its host knows: the root is always among them.
    return list(_upwards(root / own.strip("/"), root))


def _named(membership: Path, controller: str) -> tuple[str, str] | None:
    """The name of the process's group, and of the tree that it is in."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, name = (*line.split(":", 2), "", "")[:3]
        if (controller in controllers.split(",")) if controller else (number, controllers) == ("0", ""):
            return name, controllers
    return None


def _upwards(folder: Path, root: Path) -> Iterator[Path]:
    for group in (folder, *folder.parents):
        if not group.is_relative_to(root):
            return
        yield group


def _read(folder: Path, *names: str) -> list[int]:
    """The positive numbers in some files of a group; none where one of them is no number, or not there."""
    try:
        words = " ".join((folder / name).read_text() for name in names).split()
    except (OSError, UnicodeDecodeError):
        return []
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        return []
    return [int(word) for word in words]
