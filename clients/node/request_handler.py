"""What a node answers to the coordinator, one request at a time, and what it refuses.

It knows no network: text and bytes come in, text and bytes go out. `ChunkReceiver` is the node's half of
chunked transfer: long requests arrive, and long answers leave, in chunks (the coordinator's half is
`training.engines.calls`).
"""

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from clients.node.guards import FILE, CanaryGuard, PolicyGuard, one_question
from clients.node.own_data import OwnData, RunPictures, agreed, listed, read_own
from clients.node.policy import POLICY
from clients.store import ClientStore
from training.algorithms.client import FolderReleases
from training.data.dataset import PictureList
from training.engines.calls import REFUSED, ChunkAddress, Heartbeat
from training.engines.in_process import keep_freed_memory
from training.engines.roster import (
    WEIGHTS,
    Handshake,
    Roster,
    refuse_incompatible,
    refuse_other_weights,
    shake_hands,
)
from training.engines.wire import (
    CHUNK_BYTES,
    Payload,
    RequestHeader,
    Stamp,
    number_of,
    part_of,
    read_request,
    read_request_header,
    size_of,
    write_long_payload,
    write_response,
)
from training.errors import MessageError, TrainingError, public, public_message
from training.jobs.client_app import ClientApp
from training.jobs.disclosure_report import decide_masks, disclosures
from training.jobs.job import Job
from training.jobs.stages.export import weights_digest
from training.messages import Answer, Broadcast, Failure
from training.privacy.compression import lost_key
from training.privacy.secagg.keys import Identity
from training.rounds.client.fit import store_key
from training.rounds.client.ledger import CensusAccount
from training.tensor_file import SUFFIX, Spool

LogLine = Callable[[str], None]


class RequestHandler:
    """Answers the coordinator for one node and one job.

    Args:
        node: its name.
        job: the job, as it came.
        manifest: the node's pictures.
        cache: where decoded pictures are kept.
        states: where its client states are kept.
        say: takes one line for the node's operator.
        releases: the store of the sums that this node sent, in this run and in others.
        identity: with what it signs its part in sums.
        federation: the hospitals in its kit's federation file.
        guard: checks jobs and requests against the hospital's own policy; by default it has none.

    Attributes:
        session: that of the coordinator's last handshake; empty before.
    """

    def __init__(
        self,
        node: str,
        job: Job,
        manifest: Path | None,
        *,
        cache: Path,
        states: Path,
        say: LogLine,
        releases: Path | None = None,
        identity: Identity | None = None,
        federation: Sequence[str] = (),
        guard: PolicyGuard | None = None,
    ) -> None:
        self._node = node
        self._job = job
        self._manifest = manifest
        self._cache = cache
        self._store = ClientStore(states)
        account = releases or states.with_name("releases")
        self._releases = FolderReleases(account)
        self._one_question = account.with_name(FILE)
        self._spool = Spool(states.with_name("answers"))
        self._pictures = RunPictures(states.with_name("pictures.sha256"))
        self._listed: PictureList | None = None
        self._canary_guard = CanaryGuard(states.with_name("canary"))
        self._say = say
        self._identity = identity
        self._federation = federation
        self._guard = guard or PolicyGuard(states.with_name(POLICY))
        self._decided = decide_masks(job, federation)
        self._lock = threading.Lock()
        self._own: OwnData | None = None
        self._app: ClientApp | None = None
        self.session = ""
        self._newest = -1
        self._last: tuple[Stamp, tuple[str, Payload]] | None = None
        self._answer_bytes = 0  # bytes of the last answer
        self._calls = 0
        self._counting = threading.Lock()

    def handshake(self, handshake: str) -> str:
        """Handshake: compare versions and the job; returns this side's as JSON, or a refusal."""
        try:
            theirs = Handshake.model_validate_json(handshake)
            self._guard.admit(self._decided)
            # A job may name any file of this machine: its digest is told to whoever has the same file alone.
            begins_with = theirs.versions.get(WEIGHTS)
            ours = shake_hands(self._job.digest, theirs.session, begins_with)
            refuse_incompatible("the coordinator", theirs, ours)
            if begins_with:
                refuse_other_weights(begins_with, weights_digest(self._job.model))
        except (TrainingError, ValueError) as error:
            return self._refuse(error)
        self.session = theirs.session
        return ours.model_dump_json()

    def close(self) -> None:
        """Drop the last answer, which was kept to be repeated."""
        self._last = None
        self._spool.remove()

    def heartbeat(self) -> Heartbeat:
        """A heartbeat, at once, whatever else this node is doing."""
        return Heartbeat(busy=self._calls > 0, answer=self._answer_bytes)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Serialize requests; those that wait count as work, too."""
        with self._counting:
            self._calls += 1
        try:
            with self._lock:
                yield
        finally:
            with self._counting:
                self._calls -= 1

    def register(self) -> str:
        """Read this node's pictures; returns its properties as JSON, or a refusal."""
        with self._busy():
            try:
                self._guard.admit(self._decided)
                if self._manifest is None:
                    raise public(
                        MessageError(f"{self._node} was started without --data; start it with its manifest")
                    )
                if self._own is None:
                    own = read_own(self._job, self._node, self._manifest, self._cache)
                    self._refuse_near_census(listed(own))
                    self._own = own
            except TrainingError as error:
                return self._refuse(error)
            self._say(
                f"{self._own.pictures} pictures for job {self._job.name}; none of them leaves this node"
            )
            for line in self._own.not_used:
                self._say(f"job {self._job.name}: {line}")
            return self._own.properties.model_dump_json()

    def join(self, roster: str) -> str:
        """Take the agreed roster and get ready; returns an empty JSON object, or a refusal.

        Who will see what is said before anything is asked.
        """
        with self._busy(), one_question(self._one_question):
            try:
                if self._own is None:
                    raise public(MessageError(f"{self._node} joins before it has registered"))
                told = Roster.model_validate_json(roster)
                told.refuse_other_data(self._own.properties)
                known = {*self._federation, *told.everybody}
                job = decide_masks(self._job, known)
                told.refuse_other_masks(self._node, masked=job.privacy.masked_counts is not None)
                self._guard.admit(job)
                self._decided = job
                job = self._guard.limited(job)
                data = agreed(self._own, told, tells_unused=not self._guard.census_apart)
                self._listed = PictureList.of(data, self._node)
                self._pictures.refuse_others(self._listed)
                keep_freed_memory()
                torch.set_num_threads(job.engine.threads_per_client)
                self._app = ClientApp(
                    job,
                    data,
                    self._store,
                    self._public_reason,
                    self._releases,
                    self._identity,
                )
            except (TrainingError, ValueError) as error:
                return self._refuse(error)
            for seen in disclosures(self._job, known):
                self._say(f"job {self._job.name}, who sees what: {seen.line}")
        return json.dumps({})

    def _refuse_near_census(self, now: PictureList) -> None:
        """Refuse numbers that are near to those sent to an earlier run, where the policy says so.

        Raises:
            DataError: they are.
        """
        if self._guard.census_apart and not self._pictures.settled:
            CensusAccount(self._releases, self._node).refuse_near(now, self._job.privacy.min_count)

    def answer(self, header: str, body: Payload) -> tuple[str, Payload]:
        """Answer one request; a repeated one gets the same answer, a stale one is refused.

        Raises:
            MessageError: when it is no request to this node in this session.
        """
        request = read_request_header(header)
        self._admit(request)
        with self._busy(), one_question(self._one_question):
            if self._last is not None and self._last[0] == request:  # asked again: its answer got lost
                return self._last[1]
            if request.number < self._newest:
                raise public(
                    MessageError(
                        f"request {request.number} ({request.ask}, round {request.round}) is stale: "
                        f"request {self._newest} has come since. It is dropped"
                    )
                )
            if self._app is None:
                raise public(MessageError(f"{self._node} was asked before it joined"))
            broadcast = read_request(request, body)
            if self._listed is not None and self._pictures.settled:
                self._pictures.refuse_others(self._listed)  # another process of this run may have settled it
            elif self._listed is not None:
                self._refuse_near_census(self._listed)  # another run may have been told since this one joined
                CensusAccount(self._releases, self._node).remember(self._listed)
                self._pictures.settle(self._listed)
            self._step_back(request)
            started = time.monotonic()
            self._spool.clear()
            # What this node keeps of a sum under masks moves on where the answer is on disk, too: after a
            # disk was full, it is asked the same again.
            with self._store.transaction() as drop:
                answer = self._allowed_answer(broadcast)
                if isinstance(answer, Failure):
                    drop()
                written = write_response(
                    answer,
                    request,
                    lambda tensors: write_long_payload(tensors, self._spool),
                )
            self._answer_bytes = size_of(written[1])
            if not (isinstance(answer, Failure) and answer.passes):  # which is asked anew
                self._last = request, written
        seconds, sent = time.monotonic() - started, len(written[0].encode()) + self._answer_bytes
        self._say(task_line(self._job.name, request, answer, seconds, sent))
        return written

    def _allowed_answer(self, broadcast: Broadcast) -> Answer:
        """The answer to a request, or that the policy does not allow it, as it is at this moment."""
        assert self._app is not None, "asked after it joined"
        try:
            self._guard.admit(self._decided)
        except TrainingError as error:
            return Failure(broadcast.client, broadcast.track, self._public_reason(error))
        return self._canary_guard.answer(broadcast, self._app.answer)

    def _step_back(self, request: RequestHeader) -> None:
        """Forget states and rounding residues of trainings whose updates never arrived, and no account."""
        if request.stage not in map(self._job.key, range(len(self._job.stages))):
            return
        for key in (store_key, lost_key):
            self._store.forget(self._node, key(request.stage, request.track), after=request.kept)

    def _admit(self, request: RequestHeader) -> None:
        """Refuse a request for another node, job or session; remember the newest number."""
        wanted = {"client": self._node, "job": self._job.digest, "session": self.session}
        for name, value in wanted.items():
            if getattr(request, name) != value:
                raise public(
                    MessageError(
                        f"a request for {name} {getattr(request, name)!r} came to {name} {value!r}; dropped"
                    )
                )
        self._newest = max(self._newest, request.number)

    def _refuse(self, error: Exception) -> str:
        self._say(f"refused: {type(error).__name__}: {error}")
        return json.dumps({REFUSED: public_message(error)})

    def _public_reason(self, error: Exception) -> str:
        """The part of an error that may be disclosed; where that is not all, the rest is logged here."""
        message = public_message(error)
        if message != f"{error}":
            self._say(f"{type(error).__name__}: {error}")
        return message


def task_line(job: str, request: Stamp, answer: Answer, seconds: float, sent: int) -> str:
    """The log line of one task; nothing is in it that is in no answer.

    Args:
        job: its name.
        request: what was asked.
        answer: what came of it.
        seconds: that it took.
        sent: bytes of the answer, its header included.
    """
    about = "" if request.track == "global" else f" ({request.track})"
    asked = f"job {job}, {request.stage} round {request.round}, {request.ask}{about}"
    if isinstance(answer, Failure):
        again = ". The coordinator asks again, or goes on without it" if answer.passes else ""
        return f"{asked}: not done after {seconds:.1f} s: {answer.reason}{again}"
    return f"{asked}: done in {seconds:.1f} s, {sent:,} bytes sent"


ARRIVING = "arriving-"  # how the files are called


class IncomingPayload:
    """The payload of a request as it arrives, in a file.

    Args:
        session, number: of the request.
        size: bytes of the whole.
        folder: on the disk that has room for it.
    """

    def __init__(self, session: str, number: int, size: int, folder: Path) -> None:
        self.session = session
        self.number = number
        self.size = size
        self.held = 0
        handle, name = tempfile.mkstemp(dir=folder, prefix=ARRIVING, suffix=SUFFIX)
        os.close(handle)
        self._path = Path(name)

    def add(self, offset: int, chunk: bytes) -> None:
        """Append a chunk; one that is here already, or does not follow what is here, changes nothing."""
        if offset == self.held and offset + len(chunk) <= self.size:
            with self._path.open("r+b") as file:
                file.seek(self.held)  # a full disk may have left a part of a chunk
                file.write(chunk)
            self.held += len(chunk)

    def whole(self) -> Path:
        """The file with the whole payload.

        Raises:
            MessageError: pieces are missing.
        """
        if self.held != self.size:
            raise public(
                MessageError(
                    f"{self.held:,} of {self.size:,} bytes of request {self.number} are here; it cannot be "
                    "read"
                )
            )
        return self._path

    def close(self) -> None:
        """Remove the file; readers that have it open can go on."""
        self._path.unlink(missing_ok=True)


class ChunkReceiver:
    """Receives and sends chunks in front of a request handler.

    Args:
        handler: the node's request handler.
        folder: where long requests arrive; what an earlier receiver left there is removed.
        chunk: bytes of one chunk.

    Attributes:
        handler: the node's request handler.
    """

    def __init__(self, handler: RequestHandler, folder: Path, chunk: int = CHUNK_BYTES) -> None:
        self.handler = handler
        for path in folder.glob(f"{ARRIVING}*{SUFFIX}"):
            path.unlink()
        self._folder = folder
        self._chunk_bytes = chunk
        self._lock = threading.Lock()
        self._incoming: IncomingPayload | None = None
        # Session and number of the last answer, and its body.
        self._last_answer: tuple[str, int, Payload] = ("", 0, b"")

    def put(self, place: str, chunk: bytes) -> int:
        """Take a chunk of a request; returns how many bytes of the request are here by now.

        Raises:
            MessageError: a later request has begun to arrive, or the coordinator has begun another session.
        """
        address = ChunkAddress.model_validate_json(place)
        if address.session != self.handler.session:
            raise public(
                MessageError(f"a piece of a request of session {address.session}, which is over; dropped")
            )
        with self._lock:
            incoming = self._incoming_for(address)
            incoming.add(address.offset, chunk)
            return incoming.held

    def answer(self, header: str, body: bytes, size: int) -> tuple[str, bytes, int]:
        """Answer a request, whose payload came in chunks where `body` is not `size` bytes long.

        Returns:
            The answer's header, its body unless that is to be fetched, and how many bytes that has.

        Raises:
            MessageError: pieces are missing; or see `RequestHandler.answer`.
        """
        session, number = number_of(header)
        head, payload = self.handler.answer(
            header, body if len(body) == size else self._arrived(session, number)
        )
        with self._lock:
            self._last_answer = (session, number, payload)
        size = size_of(payload)
        return head, part_of(payload, 0, size) if size <= self._chunk_bytes else b"", size

    def fetch(self, place: str) -> bytes:
        """A chunk of the last answer.

        Raises:
            MessageError: it is of another answer.
        """
        address = ChunkAddress.model_validate_json(place)
        with self._lock:
            session, number, payload = self._last_answer
            if (session, number) != (address.session, address.number):
                raise public(
                    MessageError(
                        f"a piece of the answer to request {address.number} was asked for; the last one "
                        f"answered is {number}"
                    )
                )
            return part_of(payload, address.offset, self._chunk_bytes)

    def payload(self, header: str) -> Payload:
        """All of the payload of the last answer.

        Args:
            header: of the request that it answers.

        Raises:
            MessageError: another request has been answered since.
        """
        with self._lock:
            session, number, payload = self._last_answer
        if (session, number) != number_of(header):
            raise public(MessageError(f"another request than {number_of(header)[1]} was answered since"))
        return payload

    def heartbeat(self) -> Heartbeat:
        """See `RequestHandler.heartbeat`."""
        heartbeat = self.handler.heartbeat()
        with_call = heartbeat.answer if heartbeat.answer <= self._chunk_bytes else 0
        return heartbeat.model_copy(update={"answer": with_call})

    def close(self) -> None:
        """Remove payloads that wait here, and close the handler."""
        self._drop()
        self.handler.close()

    def _drop(self) -> None:
        if self._incoming is not None:
            self._incoming.close()
            self._incoming = None

    def _incoming_for(self, address: ChunkAddress) -> IncomingPayload:
        """The payload that a chunk belongs to; a later request's replaces an earlier one's."""
        current = self._incoming
        if current is not None and current.session == address.session:
            if (current.number, current.size) == (address.number, address.size):
                return current
            if current.number > address.number:
                raise public(
                    MessageError(
                        f"a piece of request {address.number} is stale: request {current.number} has begun "
                        "to arrive since. It is dropped"
                    )
                )
        self._drop()
        self._incoming = IncomingPayload(address.session, address.number, address.size, self._folder)
        return self._incoming

    def _arrived(self, session: str, number: int) -> Payload:
        with self._lock:
            current = self._incoming
            if current is None or (current.session, current.number) != (session, number):
                raise public(MessageError(f"request {number} came without its tensors; it cannot be read"))
            return current.whole()
