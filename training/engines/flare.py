"""The engine over a network: asks all sites at once, and waits until a round has the answers that it needs.

A site that is offline is not asked until its next heartbeat. A round that would have too few answers waits
for the sites that are offline and asks them then; whom it waits for is logged.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from training.data.dataset import SERVER
from training.engines.calls import Channel, LivenessTracker, StoppedError
from training.engines.network_round import NetworkRound, PendingRequest
from training.engines.wire import read_payload, stamp_of, write_payload
from training.errors import MessageError
from training.files import write_bytes, write_text
from training.jobs.client_app import ClientApp
from training.jobs.job import Job
from training.messages import Answer, Broadcast, Failure, Update, reply
from training.rounds.census import CENSUS
from training.rounds.requests import FIT
from training.tensor_file import Spool

KEPT = 3  # rounds by site and model: the present one, and those that a checkpoint may lead back to


class AcknowledgedRounds:
    """The rounds whose training arrived, by site and model, on disk.

    A site that trained in a round whose answer never arrived must forget it. So each request names the last
    round whose answer did arrive; after a restart from a checkpoint, the last one before the round that is
    done again.

    Args:
        path: the file they are kept in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rounds: dict[str, list[int]] = {}
        if path.exists():
            self._rounds = json.loads(path.read_text())

    def before(self, broadcast: Broadcast) -> int:
        """The last round whose training arrived, before a training that is asked for now (or again).

        What was noted of this round and later ones is of a course that was abandoned, and crossed out.
        """
        earlier = [done for done in self._rounds.get(key_of(broadcast), ()) if done < broadcast.round]
        self._rounds[key_of(broadcast)] = earlier
        return max(earlier, default=0)

    def latest(self, broadcast: Broadcast) -> int:
        """The last round whose training arrived, to send with any other request."""
        return max(self._rounds.get(key_of(broadcast), ()), default=0)

    def add(self, broadcast: Broadcast) -> None:
        """Note that a training arrived."""
        self._rounds[key_of(broadcast)] = [
            *self._rounds.get(key_of(broadcast), ())[-KEPT + 1 :],
            broadcast.round,
        ]

    def save(self) -> None:
        """Write the file.

        Raises:
            CheckpointError: when the disk does not take it.
        """
        write_text(self._path, json.dumps(self._rounds) + "\n")


def key_of(broadcast: Broadcast) -> str:
    """The key of a request's client, stage and model."""
    return f"{broadcast.client}/{broadcast.stage}/{broadcast.track}"


NUMBERS = ".json"  # beside the counts of pictures: how many are not used


class CensusCache:
    """The sites' answers to the census, on disk, so that a resumed run needs no site for it.

    Args:
        folder: made when the first is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def known(self, broadcast: Broadcast) -> Update | None:
        """What the site answered in an earlier session; None for any other request."""
        path = self._path(broadcast)
        if broadcast.ask != CENSUS or not path.exists():
            return None
        try:
            tensors = read_payload(path.read_bytes())
            told = json.loads(path.with_suffix(NUMBERS).read_text())
        except (MessageError, OSError, ValueError):
            return None  # damaged: asked again
        return reply(broadcast, tensors=tensors, scalars=told)

    def keep(self, broadcast: Broadcast, answer: object) -> None:
        """Keep an answer, if it is one to the census."""
        if broadcast.ask == CENSUS and isinstance(answer, Update) and self.known(broadcast) is None:
            path = self._path(broadcast)
            write_text(path.with_suffix(NUMBERS), json.dumps(dict(answer.scalars)))
            write_bytes(path, write_payload(answer.tensors))

    def _path(self, broadcast: Broadcast) -> Path:
        return self._folder / f"{quote(broadcast.client, safe='')}.safetensors"


LOG_EVERY = 60.0  # seconds between log lines of whom a round waits for


@dataclass
class Status:
    """The state of a round under way, reported in addition to the run's log.

    Attributes:
        asking: the request under way.
        offline: the sites that are offline, and why.
        waiting: the sites for which the run waits.
        answered, pending: the clients that have answered it, and those that are to.
        seconds: since it was asked.
    """

    asking: str = ""
    offline: dict[str, str] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    seconds: float = 0.0


class NvflareEngine:
    """Asks clients at the sites of a network.

    Args:
        job: the job.
        channels: the sites that can be reached in this session, by name.
        liveness: which of them are reachable.
        session: see `training.engines.wire.Stamp`.
        acknowledged: of which rounds trainings arrived.
        census_cache: the sites' answers to the census.
        spool: an empty folder for updates that wait.
        own: plays the coordinator's own client, where the job has one.
        log: takes one log line for the run's followers.
        stopped: whether the run was stopped from outside.
    """

    def __init__(
        self,
        job: Job,
        channels: Mapping[str, Channel],
        *,
        liveness: LivenessTracker,
        session: str,
        acknowledged: AcknowledgedRounds,
        census_cache: CensusCache,
        spool: Path,
        own: ClientApp | None = None,
        log: Callable[[str], None] = print,
        stopped: Callable[[], bool] = bool,
    ) -> None:
        self._job = job
        self._channels = channels
        self._session = session
        self._acknowledged = acknowledged
        self._census_cache = census_cache
        self._spool = Spool(spool)
        self._own = own
        self._log = log
        self._stopped = stopped
        self._liveness = liveness
        self._number = 0
        self._logged_at = -LOG_EVERY
        self._status = Status()
        self._requests: Sequence[PendingRequest] = ()
        self._asked = 0.0

    @property
    def status(self) -> Status:
        """Where the run stands."""
        requests = self._requests
        open_ = {request.broadcast.client for request in requests if request.answer is None}
        asked = dict.fromkeys(request.broadcast.client for request in requests)
        return replace(
            self._status,
            offline=self._liveness.offline,
            answered=tuple(name for name in asked if name not in open_),
            pending=tuple(name for name in asked if name in open_),
            seconds=round(time.monotonic() - self._asked, 1) if requests else 0.0,
        )

    def run_round(self, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
        """Answers in the order of the requests; blocks until there are as many as the round needs."""
        self._spool.clear()
        if not broadcasts:
            return []
        self._status = Status(asking=f"{broadcasts[0].stage} {broadcasts[0].round} {broadcasts[0].ask}")
        requests = [self._request(broadcast) for broadcast in broadcasts]
        self._requests, self._asked = requests, time.monotonic()
        NetworkRound(
            self._job,
            requests,
            self._channels,
            self._liveness,
            self._spool,
            self._refuse_if_stopped,
            self._waits_for,
        ).run(self._play, SERVER)
        for request in requests:
            self._census_cache.keep(request.broadcast, request.answer)
            if isinstance(request.answer, Update) and request.broadcast.ask == FIT:
                self._acknowledged.add(request.broadcast)
        self._acknowledged.save()
        self._status, self._requests = Status(), ()
        return [request.answer for request in requests if request.answer is not None]

    def close(self) -> None:
        """Stop pinging the sites and remove what waited."""
        self._liveness.close()
        self._spool.remove()

    def _refuse_if_stopped(self) -> None:
        if self._stopped():
            raise StoppedError(
                "the run was stopped; it continues from its checkpoint when it is taken up again"
            )

    def _waits_for(self, clients: Sequence[str], offline: Mapping[str, str]) -> None:
        """Log for which clients the run waits, now and then."""
        self._status.waiting = tuple(clients)
        if clients and time.monotonic() - self._logged_at > LOG_EVERY:
            self._logged_at = time.monotonic()
            reasons = "; ".join(f"{name}: {offline[name]}" for name in clients)
            self._log(f"{self._status.asking} waits for {', '.join(clients)}. {reasons}")

    def _request(self, broadcast: Broadcast) -> PendingRequest:
        self._number += 1
        stamp = stamp_of(broadcast, self._job.digest, self._session, self._number)
        kept = (
            self._acknowledged.before(broadcast)
            if broadcast.ask == FIT
            else self._acknowledged.latest(broadcast)
        )
        return PendingRequest(broadcast, stamp, kept, self._census_cache.known(broadcast))

    def _play(self, broadcast: Broadcast) -> Answer:
        if self._own is None:
            return Failure(
                SERVER,
                broadcast.track,
                "the coordinator has no pictures: start it with --data, since the job has a `data.server`",
            )
        return self._own.answer(broadcast)
