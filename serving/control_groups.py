"""The control groups that this process is in: what a container or a system's unit limits it to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

MEMBERSHIP: Final = Path("/proc/self/cgroup")
"""The file that names the groups of this process."""

GROUPS: Final = Path("/sys/fs/cgroup")
"""Where groups are."""


def group_folders(membership: Path = MEMBERSHIP, groups: Path = GROUPS, controller: str = "") -> list[Path]:
    """The folders of the process's group and of those it is in, innermost first.

    Args:
        membership: the file that names the groups of the process.
        groups: where groups are.
        controller: of version 1, such as `memory`, whose groups are meant; of version 2 where it is empty.
    """
    own = _named(membership, controller)
    if own is None:
        return []
    root = groups / controller
    # Within a container the group's name may be one that only its host knows: the root is always among them.
    return list(_upwards(root / own.strip("/"), root))


def _named(membership: Path, controller: str) -> str | None:
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, name = (*line.split(":", 2), "", "")[:3]
        if (controller in controllers.split(",")) if controller else (number, controllers) == ("0", ""):
            return name
    return None


def _upwards(folder: Path, root: Path) -> Iterator[Path]:
    for group in (folder, *folder.parents):
        if not group.is_relative_to(root):
            return
        yield group
