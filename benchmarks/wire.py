"""A job over the real wire: coordinator, nodes and admin are processes on loopback, with certificates."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hospitals import SERVER, Hospitals, draw, environment, lines, run_command, write_job
from job_processes import Peaks
from round_times import Times, timed


@dataclass(frozen=True)
class Carried:
    """What a run took.

    Attributes:
        times: of its rounds.
        log: its lines.
        coordinator, hospital: peaks of the job's processes, in bytes; of the hospitals the largest.
    """

    times: Times
    log: list[dict[str, Any]]
    coordinator: int = 0
    hospital: int = 0


class Wire:
    """A job, and the federation that it is for.

    Args:
        folder: an empty one.
        names: of the hospitals.
        pictures: of each.
        job: what `hospitals.write_job` needs beside the manifests.
    """

    def __init__(self, folder: Path, names: Sequence[str], pictures: int, job: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        manifests = {name: draw(folder, name, pictures, job["size"], seed) for seed, name in enumerate(names)}
        self.job_file = write_job(folder, list(manifests.values()), **job)
        self._hospitals = Hospitals(folder, manifests)
        self._runs = 0

    @contextmanager
    def open(self) -> Iterator["Wire"]:
        """All nodes are up while it lasts."""
        with self._hospitals.running():
            yield self

    def here(self) -> Carried:
        """The job in one process of this machine, or as many workers as it says."""
        out = self._out()
        times = timed(
            run_command(self.job_file, out),
            environment(),
            out.with_suffix(".log"),
            metrics=lambda: out / "metrics.jsonl",
        )
        return Carried(times, lines(out / "metrics.jsonl"))

    def there(self) -> Carried:
        """The job at the hospitals."""
        out = self._out()
        with Peaks(self._hospitals.kits).watched() as peaks:
            times = timed(
                self._hospitals.run_command(self.job_file, out),
                environment(),
                out.with_suffix(".log"),
                metrics=self._hospitals.next_log(),
            )
        others = [peak for name, peak in peaks.bytes.items() if name != SERVER]
        return Carried(
            times, lines(out / "metrics.jsonl"), peaks.bytes.get(SERVER, 0), max(others, default=0)
        )

    def _out(self) -> Path:
        self._runs += 1
        return self._folder / f"run-{self._runs}"
