"""One round over a network: asks all sites at once, collects their answers, and asks again what was lost."""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from training.engines.calls import Channel, ChannelError, LivenessTracker, SiteRefusedError
from training.engines.wire import (
    CHUNK_BYTES,
    Payload,
    Stamp,
    read_response,
    size_of,
    write_long_payload,
    write_request,
)
from training.errors import MessageError
from training.jobs.job import Job
from training.messages import Answer, Broadcast, Failure, Tensors, Update
from training.privacy.secagg.messages import REQUESTS
from training.rounds.requests import CANARY, EVALUATE, FIT
from training.rounds.server.ask import quorum_of
from training.tensor_file import Spool


def needed(job: Job, broadcast: Broadcast, asked: int) -> int:
    """How many of `asked` answers to such a request there must be before a round goes on.

    A round of training, and the canary before it, needs `engine.min_clients`; counts after a round need none;
    the last test and calibration need the share `evaluation.quorum` of those asked, and every other request
    needs all clients. Under masks a sum needs what its threshold says, too: with fewer nothing is unmasked,
    and the round would be refused where it can wait. The three requests of a sum need what the request needs
    whose answers are summed.
    """
    masked = broadcast.ask in REQUESTS
    ask = str(broadcast.options.get("of")) if masked else broadcast.ask
    if ask == CANARY:
        return min(asked, required(job, broadcast.stage, asked))
    whole = job.evaluation.quorum == 1 or not quorate(job, broadcast.stage, ask)
    if ask not in (FIT, EVALUATE) and whole:
        return asked
    least = int(broadcast.options.get("threshold", 0)) if masked else smallest_sum(job, ask)
    return min(asked, max(least, enough_of(job, broadcast.stage, ask, asked)))


def enough_of(job: Job, stage: str, ask: str, asked: int) -> int:
    """How many answers a request needs of which some may be missing, masks aside."""
    if ask == EVALUATE:
        return 0
    return required(job, stage, asked) if ask == FIT else quorum_of(job.evaluation.quorum, asked)


def quorate(job: Job, stage: str, ask: str) -> bool:
    """Whether a stage goes on with some of the answers to a request outside its rounds."""
    keys = map(job.key, range(len(job.stages)))
    return stage in keys and ask in job.stage(stage).quorate


def required(job: Job, stage: str, asked: int) -> int:
    """How many answers a round of training needs, masks aside."""
    minimum = job.engine.min_clients
    return asked if minimum is None or job.stage(stage).needs_everyone else minimum


def smallest_sum(job: Job, ask: str) -> int:
    """The fewest clients that a sum under masks may be of; 0 where answers are not summed under masks."""
    masks = job.privacy.secure_aggregation if ask == FIT else job.privacy.masked_counts
    if masks is None:
        return 0
    server = job.data.server
    own = ask == FIT and server is not None and server.train > 0  # its own pictures hide nobody's
    return masks.fewest + own


@dataclass
class PendingRequest:
    """A request of a round to one site, and its answer once it is settled.

    Attributes:
        broadcast: the request.
        stamp: what its answer must share with it.
        kept: see `training.engines.wire.RequestHeader`.
        answer: what came, once it is settled.
        attempt: which time it is asked; what an earlier attempt delivers is dropped.
        in_flight: whether it was sent and may still be answered.
        since: when it was asked, or a chunk of it or of its answer was last moved, by the clock of the
            liveness tracker; None while others to the same site come first.
    """

    broadcast: Broadcast
    stamp: Stamp
    kept: int
    answer: Answer | None = None
    attempt: int = 0
    in_flight: bool = False
    since: float | None = None

    @property
    def answered_or_in_flight(self) -> bool:
        """Whether it is answered, or may still be."""
        return isinstance(self.answer, Update) or self.in_flight

    def leave_out(self, reason: str) -> None:
        """Settle it without an answer."""
        self.answer = Failure(self.broadcast.client, self.broadcast.track, reason)


@dataclass(frozen=True)
class Delivery:
    """What a sending thread brings back: an answer, or why there is none."""

    request: PendingRequest
    attempt: int
    answer: Answer | None  # None where the site was not reached
    reason: str = ""


Result = TypeVar("Result")


def in_background(work: Callable[[], Result], name: str) -> "Future[Result]":
    """Start `work` in a thread that does not keep the process alive; what it raises is in the future, too."""
    future: Future[Result] = Future()

    def carry() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - raised again by whoever asks the future
            future.set_exception(error)

    threading.Thread(target=carry, daemon=True, name=name).start()
    return future


POLL_SECONDS = 0.2  # seconds between looks at who is offline while nothing arrives
AGAIN = 30.0  # seconds after which a site is asked again that has no room, or may not work at this hour


class NetworkRound:
    """Sends the requests of one round and collects their answers.

    Args:
        job: the job.
        requests: the requests.
        channels: the sites that can be reached.
        liveness: which sites are reachable.
        spool: where long requests are written, and where answers wait until all are there.
        refuse_if_stopped: raises `StoppedError` when the run was stopped from outside.
        waits_for: logs for which clients the round waits, and why each is offline.
    """

    def __init__(
        self,
        job: Job,
        requests: Sequence[PendingRequest],
        channels: Mapping[str, Channel],
        liveness: LivenessTracker,
        spool: Spool,
        refuse_if_stopped: Callable[[], None],
        waits_for: Callable[[Sequence[str], Mapping[str, str]], None],
    ) -> None:
        self._job = job
        self._requests = requests
        self._channels = channels
        self._liveness = liveness
        self._spool = spool
        self._refuse_if_stopped = refuse_if_stopped
        self._waits_for = waits_for
        self._receiving = threading.Lock()
        self._deliveries: queue.Queue[Delivery] = queue.Queue()
        self._payloads: dict[int, Payload] = {}
        self._writing = threading.Lock()
        self._threads: list[Future[None]] = []
        self._postponed: dict[str, tuple[float, str]] = {}  # by client, until when and why

    def run(self, play: Callable[[Broadcast], Answer], own: str) -> None:
        """Ask every site that is reachable; collect answers until every request is settled.

        Args:
            play: answers for the client that the coordinator owns, here and meanwhile.
            own: that client's name.
        """
        open_ = [request for request in self._requests if request.answer is None]
        for client in dict.fromkeys(request.broadcast.client for request in open_):
            theirs = [request for request in open_ if request.broadcast.client == client]
            if client == own:
                for request in theirs:
                    request.in_flight = True
            else:
                self._ask(client, theirs)
        for request in open_:
            if request.broadcast.client == own:
                request.answer, request.in_flight = play(request.broadcast), False
        while any(request.answer is None for request in self._requests):
            self._refuse_if_stopped()
            self._raise_thread_errors()
            try:
                delivery = self._deliveries.get(timeout=POLL_SECONDS)
            except queue.Empty:
                self._check_liveness()
            else:
                self._settle(delivery)

    def _ask(self, client: str, requests: Sequence[PendingRequest]) -> None:
        """Send one site's requests, one after another, unless it is offline."""
        channel = self._channels.get(client)
        offline = self._liveness.offline
        if channel is None or client in offline:
            for request in requests:
                self._deliveries.put(
                    Delivery(request, request.attempt, None, offline.get(client, "not connected"))
                )
            return
        for request in requests:
            request.in_flight, request.since = True, None
        work = partial(self._send, channel, [(request, request.attempt) for request in requests])
        self._threads.append(in_background(work, f"ask-{client}"))

    def _send(self, channel: Channel, requests: Sequence[tuple[PendingRequest, int]]) -> None:
        for request, attempt in requests:
            if request.attempt != attempt:
                return  # it was asked anew, and with it what was to come after
            broadcast = request.broadcast
            answer: Answer | None = None
            reason = ""
            self._alive(request, attempt)
            try:
                header, payload = channel.ask(
                    write_request(broadcast, request.stamp, request.kept),
                    self._payload_of(broadcast.tensors),
                    self._job.engine.network.deadline,
                    partial(self._alive, request, attempt),
                )
                answer = self._receive(request, header, payload)
            except ChannelError as error:
                reason = f"{error}"
            except (SiteRefusedError, MessageError) as error:
                answer = Failure(broadcast.client, broadcast.track, f"{error}")
            self._deliveries.put(Delivery(request, attempt, answer, reason))
            if isinstance(answer, Failure) and answer.passes:
                return  # with what was to come after it

    def _alive(self, request: PendingRequest, attempt: int) -> None:
        if request.attempt == attempt:
            request.since = self._liveness.now()

    def _receive(self, request: PendingRequest, header: str, payload: Payload) -> Answer | None:
        """Read and store an answer; None where the request was settled without it.

        One after another: of many that come at once, one at a time is in memory as bytes and as tensors.
        """
        with self._receiving:
            if request.answer is not None:
                return None
            answer = read_response(header, payload, request.stamp)
            return self._spool.stored(answer) if isinstance(answer, Update) else answer

    def _is_lost(self, request: PendingRequest) -> bool:
        broadcast = request.broadcast
        return request.since is not None and self._liveness.lost_in_transit(
            broadcast.client,
            request.since,
            min(size_of(self._payload_of(broadcast.tensors)), CHUNK_BYTES),
            request.attempt,
        )

    def _ask_anew(self, client: str) -> None:
        """Ask a site again what it was asked, since that or its answer was lost on the way."""
        theirs = [request for request in self._requests if request.broadcast.client == client]
        open_ = [request for request in theirs if request.answer is None]
        for request in open_:
            request.attempt += 1
        self._ask(client, open_)

    def _raise_thread_errors(self) -> None:
        """A thread that ended by an error of ours brings nothing back; its error ends the round."""
        for future in self._threads:
            if future.done():
                future.result()

    def _payload_of(self, tensors: Tensors) -> Payload:
        # Most requests of a round carry the very same tensors: written once.
        with self._writing:
            if id(tensors) not in self._payloads:
                self._payloads[id(tensors)] = write_long_payload(tensors, self._spool)
            return self._payloads[id(tensors)]

    def _settle(self, delivery: Delivery) -> None:
        request, answer = delivery.request, delivery.answer
        anew = delivery.attempt != request.attempt and not isinstance(answer, Update)
        if request.answer is not None or anew:
            return  # too late: the request was settled without it, or is asked anew
        request.in_flight = False
        if answer is None:
            self._refuse_if_stopped()  # which ends all calls at once: nobody is offline for that
            self._liveness.mark_offline(request.broadcast.client, delivery.reason)
            request.attempt += 1
            self._leave_out_if_possible(request, delivery.reason)
            return
        if isinstance(answer, Failure) and answer.passes:
            self._postpone(request.broadcast.client, answer.reason)
            return
        request.answer = answer
        if self._job.engine.network.enough and request.broadcast.ask == FIT:
            self._end_early(request)

    def _postpone(self, client: str, reason: str) -> None:
        """Ask a site again after a pause what it cannot do now, unless the round can do without it."""
        self._postponed[client] = time.monotonic() + AGAIN, reason
        for request in self._requests:
            if request.broadcast.client == client and request.answer is None:
                request.in_flight = False
                request.attempt += 1
                self._leave_out_if_possible(request, reason)
                if request.answer is None:
                    self._waits_for([client], {client: reason})

    def _leave_out_if_possible(self, request: PendingRequest, reason: str) -> None:
        """Settle a request to a site that is offline where the round can do without it, or is lost anyway."""
        group = self._group(request)
        least = needed(self._job, request.broadcast, len(group))
        answered_or_in_flight = sum(other.answered_or_in_flight for other in group)
        possible = sum(other.answered_or_in_flight or other.answer is None for other in group)
        if answered_or_in_flight >= least or possible < least:
            request.leave_out(reason)

    def _group(self, request: PendingRequest) -> list[PendingRequest]:
        """The requests whose answers are counted together."""
        asked = request.broadcast
        return [
            other
            for other in self._requests
            if (other.broadcast.ask, other.broadcast.track) == (asked.ask, asked.track)
        ]

    def _end_early(self, request: PendingRequest) -> None:
        group = self._group(request)
        least = needed(self._job, request.broadcast, len(group))
        if sum(isinstance(other.answer, Update) for other in group) < least:
            return
        for other in group:
            if other.answer is None:
                other.leave_out(
                    f"came too late: the round ended with {least} answers (engine.network.enough)"
                )

    def _check_liveness(self) -> None:
        """Give up sites that went offline while they were asked; ask those again that came back."""
        offline = self._liveness.offline
        now = time.monotonic()
        for client in [name for name, (until, _) in self._postponed.items() if until <= now]:
            del self._postponed[client]
            if client not in offline:
                self._ask_anew(client)
        not_now = {name: reason for name, (_, reason) in self._postponed.items()}
        waiting = []
        for request in self._requests:
            client = request.broadcast.client
            if request.answer is not None:
                continue
            if client not in offline and client in not_now:
                self._leave_out_if_possible(request, not_now[client])
                waiting.append(client)
            elif client not in offline:
                if not request.in_flight:
                    self._ask(client, [request])
                elif self._is_lost(request):
                    self._ask_anew(client)
            elif request.in_flight:
                self._settle(Delivery(request, request.attempt, None, offline[client]))
            else:
                self._leave_out_if_possible(request, offline[client])
                waiting.append(client)
        self._waits_for(list(dict.fromkeys(waiting)), {**not_now, **offline})
