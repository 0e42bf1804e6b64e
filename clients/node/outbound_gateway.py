"""The gateway of a hospital's node: everything sent to the coordinator goes out here, and nowhere else.

Every published method of `clients.node.hospital` is one of the gateway's. Whatever a method would send is
entered in the journal first; whatever goes wrong becomes a refusal, a code and a sentence of ours, and its
own text stays in this node's log. A refusal is an answer and no exception: FLARE sends the trace of an
exception along, with the files of this machine.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from clients.federation.errors import JournalError
from clients.node.journal import Journal
from clients.node.request_handler import ChunkReceiver
from training.engines.calls import REFUSED
from training.engines.wire import Payload, RequestHeader, part_of, size_of
from training.errors import EngineError, public, public_message
from training.privacy.secagg.messages import MASKED, REQUESTS, WITHHELD

HEARTBEATS_EVERY = 60.0  # seconds; what left of them in between is one line of the journal
BLOCK = 1 << 20  # bytes that are hashed at a time
Reply = TypeVar("Reply", str, int, bytes, list[str | bytes | int])


@dataclass
class OutboundGateway:
    """Lets answers of a node out, each entered in its journal.

    Attributes:
        run, job: which run, and the job's digest.
        journal: of the node.
        log: takes the whole text of an error, and the error, for this node's own log.
        receiver: what answers; None until the node is ready.
        closed: why it never will be, where it cannot.
        clock: seconds.
    """

    run: str
    job: str
    journal: Journal
    log: Callable[[str, Exception], None]
    receiver: ChunkReceiver | None = None
    closed: Exception | None = None
    clock: Callable[[], float] = time.monotonic
    _beats: list[int] = field(default_factory=list, init=False)
    _told: float | None = field(default=None, init=False)
    _counting: threading.Lock = field(default_factory=threading.Lock, init=False)

    def handshake(self, handshake: str) -> str:
        """See `RequestHandler.handshake`."""
        return self._out(
            "handshake", lambda ready: ready.handler.handshake(handshake), holds="versions and digests"
        )

    def register(self) -> str:
        """See `RequestHandler.register`."""
        return self._out(
            "properties",
            lambda ready: ready.handler.register(),
            holds="names of classes and subgroups, a fingerprint",
        )

    def join(self, roster: str) -> str:
        """See `RequestHandler.join`."""
        return self._out("roster", lambda ready: ready.handler.join(roster), holds="nothing")

    def put(self, place: str, chunk: bytes) -> int | str:
        """See `ChunkReceiver.put`; or a refusal, as JSON."""
        return self._out("received", lambda ready: ready.put(place, chunk), holds="a number of bytes")

    def answer(self, header: str, body: bytes, size: int) -> list[str | bytes | int] | str:
        """See `ChunkReceiver.answer`; or a refusal, as JSON."""

        def work(ready: ChunkReceiver) -> list[str | bytes | int]:
            head, first, whole = ready.answer(header, body, size)
            return [head, first, whole]

        return self._out(
            "answer", work, lambda ready, reply: about_answer(header, reply[0], ready.payload(header))
        )

    def fetch(self, place: str) -> bytes | str:
        """See `ChunkReceiver.fetch`; or a refusal, as JSON."""
        return self._out("chunk", lambda ready: ready.fetch(place), holds="a part of the answer before")

    def ping(self) -> str:
        """See `ChunkReceiver.heartbeat`; or a refusal, as JSON. The journal has a line a minute of them."""
        try:
            text = self._ready().heartbeat().model_dump_json()
            self._count_beat(len(text))
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing of it leaves
            text = self._refusal(error)
        return text

    def close(self) -> None:
        """Enter what was not yet, and let the node go."""
        with self._counting:
            self._enter_beats()
        if self.receiver is not None:
            self.receiver.close()

    def _out(
        self,
        kind: str,
        work: Callable[[ChunkReceiver], Reply],
        about: Callable[[ChunkReceiver, Any], dict[str, Any]] | None = None,
        **fixed: Any,
    ) -> Reply | str:
        """What `work` tells, entered in the journal; or a refusal, where it fails or cannot be entered."""
        try:
            ready = self._ready()
            reply = work(ready)
            if isinstance(reply, str) and reply.startswith(f'{{"{REFUSED}"'):
                self._enter("refusal", reply, holds="an error's code")
            else:
                self._enter(kind, reply, **(about(ready, reply) if about else fixed))
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing of it leaves
            return self._refusal(error)
        return reply

    def _ready(self) -> ChunkReceiver:
        if self.closed is not None:
            raise self.closed
        if self.receiver is None:
            raise public(EngineError("this node was asked before its job began"))
        return self.receiver

    def _refusal(self, error: Exception) -> str:
        """A refusal, as JSON; the error's own text is logged here, and goes nowhere."""
        self.log(f"refused: {type(error).__name__}: {error}", error)
        text = json.dumps({REFUSED: public_message(error)})
        try:
            self._enter("refusal", text, holds="an error's code")
        except JournalError as unwritten:
            if not isinstance(error, JournalError):
                self.log(f"{unwritten}", unwritten)
            text = json.dumps({REFUSED: public_message(unwritten)})  # always the same words
        return text

    def _enter(self, kind: str, reply: object, **about: Any) -> None:
        parts = [each for each in reply if not isinstance(each, int)] if isinstance(reply, list) else [reply]
        sent = b"".join(each if isinstance(each, bytes) else f"{each}".encode() for each in parts)
        digest = {"sha256": hashlib.sha256(sent).hexdigest()}
        self.journal.add(run=self.run, job=self.job, kind=kind, size=len(sent), **{**digest, **about})

    def _count_beat(self, size: int) -> None:
        with self._counting:
            self._beats.append(size)
            if self._told is None or self.clock() - self._told >= HEARTBEATS_EVERY:
                self._enter_beats()

    def _enter_beats(self) -> None:
        if self._beats:
            self._told = self.clock()
            self.journal.add(
                run=self.run,
                job=self.job,
                kind="heartbeats",
                size=sum(self._beats),
                messages=len(self._beats),
                holds="whether it is at work",
            )
            self._beats.clear()


def about_answer(asked: str, head: str, payload: Payload) -> dict[str, Any]:
    """What the journal says of an answer: which request, what is in it, and the digest of all of it.

    Args:
        asked: the request's header.
        head: the answer's header.
        payload: all of its payload.
    """
    request = RequestHeader.model_validate_json(asked)
    names = tensors_in(payload)
    return {
        "stage": request.stage,
        "round": request.round,
        "ask": request.ask,
        "track": request.track,
        "holds": holds(request.ask, json.loads(head), names),
        "tensors": len(names),
        "sha256": digest_of_answer(head, payload),
    }


def holds(ask: str, head: dict[str, Any], tensors: frozenset[str]) -> str:
    """What is in an answer, in a few words."""
    if head.get("failure") is not None:
        return "an error's code"
    if ask in REQUESTS:
        return "a masked sum" if ask == MASKED else "keys and shares of masks"
    numbers = any(head.get(name) for name in ("num_examples", "losses", "scalars"))
    withheld = all(name.startswith(WITHHELD) for name in tensors)
    found = [*(["keys for a masked sum" if withheld else "tensors"] if tensors else [])]
    found += ["numbers"] if numbers else []
    return " and ".join(found) or "nothing"


def tensors_in(payload: Payload) -> frozenset[str]:
    """The names of the tensors in a payload in the form of safetensors, by its header alone."""
    start = part_of(payload, 0, 8)
    if len(start) < 8:
        return frozenset()
    header = json.loads(part_of(payload, 8, int.from_bytes(start, "little")))
    return frozenset(header.keys() - {"__metadata__"})


def digest_of_answer(head: str, payload: Payload) -> str:
    """The digest of an answer's header and payload, one after the other."""
    digest = hashlib.sha256(head.encode())
    for start in range(0, size_of(payload), BLOCK):
        digest.update(part_of(payload, start, BLOCK))
    return digest.hexdigest()
