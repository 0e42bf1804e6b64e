"""The worker processes of a running service: which they are, and how much memory each holds."""

import os
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


def workers(root: int) -> list[int]:
    """The processes that answer requests, below `root`; none that they have forked."""
    parents = _parents()
    server = b"serving.cli"
    return [pid for pid in below(root) if server in _command(pid) and server in _command(parents.get(pid, 0))]


def resident(pid: int) -> float:
    """The memory that a process holds; MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20


def alive(pid: int) -> bool:
    """Whether the process has not ended; while one of its threads is ending its sockets are still open."""
    process = Path(f"/proc/{pid}")
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" or len(list((process / "task").iterdir())) > 1
    except OSError:
        return False


def below(root: int) -> list[int]:
    """The processes that descend from `root`."""
    parents = _parents()
    found = [root]
    for one in found:
        found += [pid for pid, parent in parents.items() if parent == one]
    return found[1:]


def _parents() -> dict[int, int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has just ended
    return parents


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
