"""What the processes of a federation's jobs take: the kernel's own peak of each. Linux only."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOK = 0.1  # seconds between looks
PROGRAMS = ("runner_process", "worker_process")  # of FLARE, at the coordinator and at a hospital
PEAK = "VmHWM"


class Peaks:
    """The largest resident set of each node's job process, in bytes, by the name of its kit.

    Args:
        kits: the kits' folder; other federations on this machine are left alone.
    """

    def __init__(self, kits: Path) -> None:
        self._kits = kits
        self.bytes: dict[str, int] = {}

    @contextmanager
    def watched(self) -> Iterator["Peaks"]:
        """Look while it lasts."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(LOOK):
                self._look()

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def _look(self) -> None:
        for name, pid in job_processes(self._kits).items():
            found = told_by_kernel(pid, PEAK)
            self.bytes[name] = max(self.bytes.get(name, 0), found)


def job_processes(kits: Path) -> dict[str, int]:
    """The process of each node's job, by the name of its kit."""
    found = {}
    for place in Path("/proc").iterdir():
        try:
            words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it ended, or is no process
        if any(program in word for word in words[:4] for program in PROGRAMS) and "-m" in words:
            kit = next((Path(word) for word in words if word.startswith(f"{kits}/")), None)
            if kit is not None:
                found[kit.relative_to(kits).parts[0]] = int(place.name)
    return found


def told_by_kernel(pid: int | str, figure: str) -> int:
    """Bytes of one line of a process' /proc/…/status; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{figure}:")), 0)
