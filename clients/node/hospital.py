"""The FLARE component at a hospital: publishes the request handler's methods to the coordinator."""

import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from nvflare.collab import collab

from dermfed.own_names import refuse_foreign

refuse_foreign()

from clients.data.pictures.cache import cache_folder
from clients.federation.exit_with_parent import end_with_parent
from clients.federation.kit import open_kit
from clients.federation.retention import prune_folders
from clients.node.chunk_receiver import ChunkReceiver
from clients.node.identity import open_identity
from clients.node.request_handler import RequestHandler
from training.errors import EngineError, TrainingError, public_message
from training.jobs.counts_under_masks import over_network
from training.jobs.job import Job

LOGGER = logging.getLogger("dermfed.node")
Reply = TypeVar("Reply")


def read_packed(job: str) -> Job:
    """A job as `pack` put it into a FLARE job: base64, since FLARE reads meaning into plain settings."""
    return Job.model_validate(json.loads(base64.b64decode(job)))


def with_public_errors(work: Callable[[], Reply]) -> Reply:
    """Call `work`; unforeseen errors are logged and redacted, since FLARE sends errors with their trace.

    Raises:
        EngineError: in its place.
    """
    try:
        return work()
    except TrainingError:
        raise
    except Exception as error:
        LOGGER.exception("a question failed")
        message = public_message(error)
    raise EngineError(message)


class Hospital:
    """A hospital in one job; FLARE makes it when the job starts, and it lives as long.

    Args:
        job: the job, packed.
        run: the name under which states are kept, the same whenever the run is taken up again.
    """

    def __init__(self, job: str, run: str) -> None:
        self._packed = job
        self._run = run
        self._receiver: ChunkReceiver | None = None

    @collab.init
    def open(self) -> None:
        """Open this node's kit and get ready for requests."""
        end_with_parent()
        kit = open_kit(Path(collab.workspace.get_root_dir()), "hospital")
        job = over_network(read_packed(self._packed))
        prune_folders(kit)
        settings = kit.settings()
        data = settings.data
        run = kit.private / "runs" / self._run
        run.mkdir(parents=True, exist_ok=True)
        handler = RequestHandler(
            kit.facts.name,
            job,
            Path(data) if data else None,
            cache=cache_folder(),
            states=run / "clients",
            releases=kit.private / "releases",
            say=LOGGER.info,
            identity=open_identity(kit, f"{self._run} {job.digest}", LOGGER.info),
            federation=kit.federation.names,
            field=None if settings.field is None else Path(settings.field),
        )
        self._receiver = ChunkReceiver(handler, run)

    @collab.final
    def close(self) -> None:
        """Remove what only this job's messages needed."""
        if self._receiver is not None:
            self._receiver.close()

    @collab.publish
    def greet(self, greeting: str) -> str:
        """See `RequestHandler.greet`."""
        return with_public_errors(lambda: self._ready_receiver().handler.greet(greeting))

    @collab.publish
    def introduce(self) -> str:
        """See `RequestHandler.introduce`."""
        return with_public_errors(self._ready_receiver().handler.introduce)

    @collab.publish
    def join(self, roster: str) -> str:
        """See `RequestHandler.join`."""
        return with_public_errors(lambda: self._ready_receiver().handler.join(roster))

    @collab.publish
    def put(self, place: str, piece: bytes) -> int:
        """See `ChunkReceiver.put`."""
        return with_public_errors(lambda: self._ready_receiver().put(place, piece))

    @collab.publish
    def answer(self, header: str, body: bytes, size: int) -> list[str | bytes | int]:
        """See `ChunkReceiver.answer`."""
        return with_public_errors(lambda: [*self._ready_receiver().answer(header, body, size)])

    @collab.publish
    def fetch(self, place: str) -> bytes:
        """See `ChunkReceiver.fetch`."""
        return with_public_errors(lambda: self._ready_receiver().fetch(place))

    @collab.publish
    def ping(self) -> str:
        """See `ChunkReceiver.heartbeat`."""
        return self._ready_receiver().heartbeat().model_dump_json()

    def _ready_receiver(self) -> ChunkReceiver:
        # No property: FLARE looks at every attribute before the job begins.
        if self._receiver is None:
            raise RuntimeError("this node was asked before its job began")
        return self._receiver
