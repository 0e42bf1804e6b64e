"""The FLARE component at a hospital: publishes the request handler's methods to the coordinator."""

import logging
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.collab import collab
from nvflare.collab.runtime import dispatch

from dermfed.own_names import refuse_foreign

refuse_foreign()

from clients.data.picture_files import cache_folder
from clients.federation.job_folder import unpack
from clients.federation.kit import Kit, open_kit
from clients.federation.logs import prune_folders
from clients.federation.processes import end_with_parent
from clients.node.guards import PolicyGuard
from clients.node.identity import open_identity
from clients.node.journal import FOLDER, Journal
from clients.node.outbound_gateway import OutboundGateway
from clients.node.policy import POLICY
from clients.node.request_handler import ChunkReceiver, RequestHandler
from training.files import plain_segment
from training.jobs.disclosure_report import over_network

WITHHELD = "withheld: the hospital's own log has it"


def keep_traces(log: logging.Logger) -> None:
    """Have FLARE send nothing of an error but that there was one; all of it goes to `log`.

    What fails before a published method is reached, such as a call with other arguments than it takes, is
    FLARE's to answer, and the gateway never sees it: FLARE would send a trace, with paths of this machine.
    """

    def trace() -> str:
        log.exception("a call failed before it was answered; does the coordinator run another dermfed?")
        return WITHHELD

    for name in ("secure_format_traceback", "secure_format_exception"):
        assert hasattr(dispatch, name), f"nvflare has no {name} any more; look how it answers a failed call"
    dispatch.secure_format_traceback = trace
    dispatch.secure_format_exception = lambda error: WITHHELD


LOGGER = logging.getLogger("dermfed.node")


def say(text: str) -> None:
    """Log one line for the node's operator."""
    LOGGER.info("%s", text)


def log_error(text: str, error: Exception) -> None:
    """Log what went wrong, whole, in this node's own log."""
    LOGGER.error("%s", text, exc_info=error)


class Hospital(FLComponent):  # type: ignore[misc]  # FLARE has no types
    """A hospital in one job; FLARE makes it when the job starts, and it lives as long.

    Args:
        job: the job, packed.
        run: the name under which states are kept, the same whenever the run is taken up again.
    """

    def __init__(self, job: str, run: str) -> None:
        super().__init__()
        self._packed = job
        self._run = run
        self._gateway: OutboundGateway | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Open at FLARE's start of the job."""
        if event_type != EventType.START_RUN:
            return
        end_with_parent()
        keep_traces(LOGGER)
        kit = open_kit(Path(fl_ctx.get_workspace().get_root_dir()), "hospital")
        self._gateway = open_gateway(kit, self._packed, self._run)

    @collab.final
    def close(self) -> None:
        """Remove what only this job's messages needed."""
        if self._gateway is not None:
            self._gateway.close()

    @collab.publish
    def handshake(self, handshake: str) -> str:
        """See `OutboundGateway.handshake`."""
        return self._ready_gateway().handshake(handshake)

    @collab.publish
    def register(self) -> str:
        """See `OutboundGateway.register`."""
        return self._ready_gateway().register()

    @collab.publish
    def join(self, roster: str) -> str:
        """See `OutboundGateway.join`."""
        return self._ready_gateway().join(roster)

    @collab.publish
    def put(self, place: str, piece: bytes) -> int | str:
        """See `OutboundGateway.put`."""
        return self._ready_gateway().put(place, piece)

    @collab.publish
    def answer(self, header: str, body: bytes, size: int) -> list[str | bytes | int] | str:
        """See `OutboundGateway.answer`."""
        return self._ready_gateway().answer(header, body, size)

    @collab.publish
    def fetch(self, place: str) -> bytes | str:
        """See `OutboundGateway.fetch`."""
        return self._ready_gateway().fetch(place)

    @collab.publish
    def ping(self) -> str:
        """See `OutboundGateway.ping`."""
        return self._ready_gateway().ping()

    def _ready_gateway(self) -> OutboundGateway:
        # No property: FLARE looks at every attribute before the job begins.
        if self._gateway is None:
            raise RuntimeError("this node was asked before its job began")
        return self._gateway


def open_gateway(kit: Kit, packed: str, run: str) -> OutboundGateway:
    """The gateway of a kit's node in one job, a closed one where the node cannot get ready.

    Args:
        kit: the hospital's.
        packed: the job.
        run: the run's name, as it came.
    """
    gateway = OutboundGateway("", "", Journal(kit.path / FOLDER), log_error)
    try:
        gateway.run = plain_segment(run, "the run's name")
        job = over_network(unpack(packed))
        gateway.job = job.digest
        prune_folders(kit.path)
        settings = kit.settings()
        data = settings.data
        folder = kit.private / "runs" / gateway.run
        folder.mkdir(parents=True, exist_ok=True)
        handler = RequestHandler(
            kit.facts.name,
            job,
            Path(data) if data else None,
            cache=cache_folder(),
            states=folder / "clients",
            releases=kit.releases,
            say=say,
            identity=open_identity(kit, f"{run} {job.digest}", say),
            federation=kit.federation.names,
            guard=PolicyGuard(kit.path / POLICY, (kit.private, cache_folder())),
        )
        gateway.receiver = ChunkReceiver(handler, folder)
        say(f"job {job.name}: its process is there, and waits for the coordinator's first request")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told by its code when somebody asks
        log_error(f"this node cannot take part in the job: {type(error).__name__}: {error}", error)
        gateway.closed = error
    return gateway
