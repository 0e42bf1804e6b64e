"""What a job runs at a hospital: FLARE hands the coordinator's calls to the node's reception."""

import base64
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import platformdirs
from nvflare.collab import collab

from clients.federation.kit import open_kit
from clients.federation.leftovers import tidy_folders
from clients.federation.orphan import end_with_parent
from clients.node.counter import Counter
from clients.node.reception import Reception
from training.errors import EngineError, TrainingError
from training.job import Job
from training.telling import outward

LOGGER = logging.getLogger("dermfed.node")
Told = TypeVar("Told")


def read_packed(job: str) -> Job:
    """A job as it is packed into a FLARE job: base64, since FLARE reads meaning into plain settings."""
    return Job.model_validate(json.loads(base64.b64decode(job)))


def cache_folder() -> Path:
    """Where decoded pictures are kept between runs: `DERMFED_CACHE`, or the user's cache directory."""
    return Path(os.environ.get("DERMFED_CACHE") or platformdirs.user_cache_dir("dermfed"))


def guarded(work: Callable[[], Told]) -> Told:
    """What `work` gives; of an error that nobody foresaw, what may be told: FLARE sends it with its trace.

    Raises:
        EngineError: in its place.
    """
    try:
        return work()
    except TrainingError:
        raise
    except Exception as error:
        LOGGER.exception("a question failed")
        told = outward(error)
    raise EngineError(told)


class Hospital:
    """A hospital in one job; FLARE makes it when the job starts, and it lives as long.

    Args:
        job: the job, packed.
        run: the name under which states are kept, the same whenever the run is taken up again.
    """

    def __init__(self, job: str, run: str) -> None:
        self._packed = job
        self._run = run
        self._counter: Counter | None = None

    @collab.init
    def open(self) -> None:
        """Find out whose node this is."""
        end_with_parent()
        kit = open_kit(Path(collab.workspace.get_root_dir()), "hospital")
        job = read_packed(self._packed)
        tidy_folders(kit)
        data = kit.settings().data
        run = kit.private / "runs" / self._run
        run.mkdir(parents=True, exist_ok=True)
        reception = Reception(
            kit.facts.name,
            job,
            Path(data) if data else None,
            cache=cache_folder(),
            states=run / "clients",
            say=LOGGER.info,
        )
        self._counter = Counter(reception, run)

    @collab.final
    def close(self) -> None:
        """Leave nothing behind that only this job's messages needed."""
        if self._counter is not None:
            self._counter.close()

    @collab.publish
    def greet(self, greeting: str) -> str:
        """See `Reception.greet`."""
        return guarded(lambda: self._there().reception.greet(greeting))

    @collab.publish
    def introduce(self) -> str:
        """See `Reception.introduce`."""
        return guarded(self._there().reception.introduce)

    @collab.publish
    def join(self, roster: str) -> str:
        """See `Reception.join`."""
        return guarded(lambda: self._there().reception.join(roster))

    @collab.publish
    def put(self, place: str, piece: bytes) -> int:
        """See `Counter.put`."""
        return guarded(lambda: self._there().put(place, piece))

    @collab.publish
    def answer(self, header: str, body: bytes, size: int) -> list[str | bytes | int]:
        """See `Counter.answer`."""
        return guarded(lambda: [*self._there().answer(header, body, size)])

    @collab.publish
    def fetch(self, place: str) -> bytes:
        """See `Counter.fetch`."""
        return guarded(lambda: self._there().fetch(place))

    @collab.publish
    def ping(self) -> str:
        """See `Counter.pulse`."""
        return self._there().pulse().model_dump_json()

    def _there(self) -> Counter:
        # No property: FLARE looks at every attribute before the job begins.
        if self._counter is None:
            raise RuntimeError("this node was asked before its job began")
        return self._counter
