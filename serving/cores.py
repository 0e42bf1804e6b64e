"""The number of cores that this process may use, by its CPU affinity and the quotas of its control groups."""

import math
import os
from pathlib import Path

from serving.control_groups import GROUPS, MEMBERSHIP, group_folders


def cores(membership: Path = MEMBERSHIP, groups: Path = GROUPS) -> int:
    """The number of cores in the process's CPU affinity, at most the smallest quota of its control groups.

    Args:
        membership: the file that names the process's control group (version 2).
        groups: where the control groups are.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([affinity, *_quotas(membership, groups)]))


def _quotas(membership: Path, groups: Path) -> list[int]:
    """The CPU quotas of the process's control group and of its parents, in cores, rounded up."""
    found = []
    for group in group_folders(membership, groups):
        try:
            quota, period = (group / "cpu.max").read_text().split()
        except (OSError, ValueError):
            continue  # no quota is set here
        if quota != "max":
            found.append(math.ceil(int(quota) / int(period)))
    return found
