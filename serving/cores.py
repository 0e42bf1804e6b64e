"""How many cores this process may use, which in a container is less than the machine has."""

import math
import os
from pathlib import Path

_MEMBERSHIP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def cores(membership: Path = _MEMBERSHIP, groups: Path = _GROUPS) -> int:
    """The cores that the process is let on, no more than the quotas of its control groups add up to.

    Args:
        membership: the file that names the process's control group (version 2).
        groups: where the control groups are.
    """
    let_on = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([let_on, *_quotas(membership, groups)]))


def _quotas(membership: Path, groups: Path) -> list[int]:
    """The quotas of the group and of those it is in, in whole cores, the last one begun counted."""
    try:
        named = next(line[3:] for line in membership.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return []
    own = groups / named.strip("/")
    found = []
    for group in (own, *own.parents):
        if not group.is_relative_to(groups):
            break
        try:
            quota, period = (group / "cpu.max").read_text().split()
        except (OSError, ValueError):
            continue  # no quota is told here
        if quota != "max":
            found.append(math.ceil(int(quota) / int(period)))
    return found
