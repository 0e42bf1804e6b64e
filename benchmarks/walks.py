"""How far a picture and an update walk: files that they enter, and calls from one file of ours into another.

- A picture: one `POST /v1/diagnoses` to a warm service with one release, from the route to the answer.
- An update: one of several rounds of FedAuto with three clients on one machine, from cohort to checkpoint.

A call counts where the nearest caller of ours stands in another file; a coroutine or a generator counts once,
however often it is taken up again. Background threads of the service count while the request lasts, and so
one request differs a little from the next: the median of `--walks` is told.
"""

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any
from unittest.mock import patch

from quick import start
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for tests
ROOMS = ("clients", "personalization", "registry", "serving", "training")


class Walk:
    """What was entered while it is on; one hook for all threads that start after it was made."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.on = False
        self._seen: list[
            FrameType
        ] = []  # kept, so that no other frame gets the place in memory of one of them
        self._places: dict[str, str | None] = {}

    def place(self, frame: FrameType) -> str | None:
        """The file of a frame, where it is ours."""
        path = frame.f_code.co_filename
        if path not in self._places:
            inside = Path(path).is_relative_to(ROOT)
            local = Path(path).relative_to(ROOT) if inside else None
            self._places[path] = str(local) if local is not None and local.parts[0] in ROOMS else None
        return self._places[path]

    def hook(self, frame: FrameType, event: str, _: Any) -> None:
        """As `sys.setprofile` calls it."""
        if not self.on or event != "call" or frame.f_code.co_name.startswith("<"):
            return
        here = self.place(frame)
        if here is None or any(frame is seen for seen in self._seen):
            return
        self._seen.append(frame)
        self.files[here] += 1
        caller = frame.f_back
        while caller is not None and self.place(caller) is None:
            caller = caller.f_back
        there = self.place(caller) if caller is not None else None
        if there is not None and there != here:
            self.calls[there, here] += 1

    def taken(self) -> "Walk":
        """What was counted so far; the next walk begins at nothing."""
        done = Walk()
        done.files, done.calls = self.files, self.calls
        self.files, self.calls, self._seen = Counter(), Counter(), []
        return done

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Watches this thread, and those that start meanwhile."""
        sys.setprofile(self.hook)
        threading.setprofile(self.hook)
        try:
            yield
        finally:
            threading.setprofile(None)
            sys.setprofile(None)


def walks_of_a_picture(folder: Path, count: int) -> list[Walk]:
    """Requests to a service that has answered others, one after the other."""
    from tests.serving.conftest import Places, draw_bundle, release, running

    walks, walk, places = [], Walk(), Places(folder)
    with places.open() as registry:
        release(registry, draw_bundle())
    with walk.everywhere(), running(places.open) as service:
        service.eventually(lambda: service.diagnose().status_code == 200)
        service.diagnose().raise_for_status()
        for _ in range(count):
            walk.on = True
            service.diagnose().raise_for_status()
            walk.on = False
            walks.append(walk.taken())
    return walks


def walks_of_an_update(folder: Path, count: int) -> list[Walk]:
    """The last of several rounds, which are all alike."""
    from clients.store import ClientStore
    from tests.training.conftest import BASE, FEDERATE, make
    from training.engines.in_process import ClientAppParts, InProcessEngine
    from training.jobs.job import Job
    from training.jobs.pipeline import run_stages
    from training.rounds.server import loop
    from training.rounds.server.metrics import MetricsLog

    walks, walk, data = [], Walk(), make()
    job = Job.model_validate(
        {**BASE, "stages": [{**FEDERATE, "rounds": count + 1, "aggregator": {"name": "fedauto"}}]}
    )
    choose, save = loop.choose_cohort, loop.save

    def first(track: Any, plan: Any, round_: int) -> Any:
        walk.on = round_ > 1
        return choose(track, plan, round_)

    def last(*given: Any) -> None:
        save(*given)
        if walk.on:
            walk.on = False
            walks.append(walk.taken())

    engine = InProcessEngine(ClientAppParts(job, data, ClientStore(folder / "clients")), folder / "spool")
    with (
        patch.object(loop, "choose_cohort", first),
        patch.object(loop, "save", last),
        MetricsLog(folder / "metrics.jsonl", Console(quiet=True)) as metrics_log,
        walk.everywhere(),
    ):
        run_stages(job, data, engine, metrics_log, folder)
    engine.close()
    return walks


def main(walks: int = 9, files: bool = False) -> None:
    """Counts both walks.

    Args:
        walks: how many of each are counted; the medians are told.
        files: whether the files of the last walk are listed, with how many functions of each were entered.
    """
    print("| walk | files | calls into another file |")
    print("| --- | --- | --- |")
    for name, walked in (("a picture", walks_of_a_picture), ("an update", walks_of_an_update)):
        with tempfile.TemporaryDirectory() as folder:
            found = walked(Path(folder), walks)
        entered = median(len(walk.files) for walk in found)
        print(f"| {name} | {entered:g} | {median(walk.calls.total() for walk in found):g} |")
        if files:
            for file, count in sorted(found[-1].files.items()):
                print(f"  {file} {count}")


if __name__ == "__main__":
    start(main, "--walks 2")
