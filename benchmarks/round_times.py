"""When the rounds of a run end: the growth of its log is watched from outside, while its process runs."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

LOOK = 0.005  # seconds between looks at the log


@dataclass(frozen=True)
class Times:
    """A run's times, in seconds.

    Attributes:
        rounds: from the end of each round to that of the next; the first round is in none.
        whole: from the command to its end.
    """

    rounds: tuple[float, ...]
    whole: float


def timed(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    ends: Callable[[], Sequence[float]] | None = None,
    metrics: Callable[[], Path | None] = lambda: None,
    folder: Path | None = None,
) -> Times:
    """Run a command and time its rounds.

    Args:
        command: to run.
        environment: of it.
        log: takes what it prints.
        ends: tells when rounds ended, once the command has; else `metrics` is watched.
        metrics: the file that gets a line at the end of each round, once it is there.
        folder: where it is run.
    """
    started = time.time()
    with log.open("w") as out:
        process = subprocess.Popen(command, env=dict(environment), cwd=folder, stdout=out, stderr=out)
        seen = watched(process, metrics) if ends is None else []
        process.wait()
    whole = time.time() - started
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{log.read_text()[-4000:]}")
    seen = seen if ends is None else list(ends())
    return Times(tuple(later - earlier for earlier, later in pairwise(seen)), whole)


def watched(process: "subprocess.Popen[bytes]", metrics: Callable[[], Path | None]) -> list[float]:
    """When each line came."""
    seen: list[float] = []
    path = None
    while process.poll() is None:
        path = path or metrics()
        lines = path.read_bytes().count(b"\n") if path and path.exists() else 0
        seen += [time.time()] * (lines - len(seen))
        time.sleep(LOOK)
    return seen
