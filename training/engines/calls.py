"""The calls to one site, the pieces in which long messages travel, and which sites are reachable.

A message whose tensors take at most `CHUNK_BYTES` travels with its call. A longer request is put before it,
piece by piece, into a file at the site; a longer answer is fetched after it, into a file here. Each piece is
a call of its own: one that got lost is sent again, and nothing else.

Each site is pinged for a heartbeat every few seconds, and is offline when none comes.
"""

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import Field

from training.config import FrozenConfig
from training.engines.wire import CHUNK_BYTES, Payload, number_of, part_of, size_of
from training.errors import TrainingError
from training.files import PlainName
from training.tensor_file import SUFFIX

Result = TypeVar("Result")
REFUSED = "refused"  # the key under which a site says, as JSON, why it does not do what it was asked
SLOWEST = 250_000  # bytes a second (2 Mbit/s) that a site's link is trusted to carry


class Heartbeat(FrozenConfig):
    """A site's answer to a ping.

    Attributes:
        busy: whether a request is there that it has not answered yet.
        answer: bytes of its newest answer that came with the call, and may still be on their way.
    """

    busy: bool
    answer: int = 0


def transit_timeout(heartbeat_timeout: float, bytes_: int) -> float:
    """Seconds after which a message that did not arrive is taken for lost.

    heartbeat_timeout + bytes / SLOWEST: a connection that is reset loses what it carried without reporting
    it.

    Args:
        heartbeat_timeout: the job's `engine.network.heartbeat_timeout`.
        bytes_: of request and answer.
    """
    return heartbeat_timeout + bytes_ / SLOWEST


class ChannelError(TrainingError):
    """A site was not reached: a request did not come through, or its answer did not."""


class SiteRefusedError(TrainingError):
    """A site was reached and refused to answer; its text gives the reason."""


class StoppedError(TrainingError):
    """The run was stopped from outside; it continues from its checkpoint."""


def raise_refusal(text: str) -> None:
    """Raise a site's refusal, where its answer is one.

    Raises:
        SiteRefusedError: with the site's reason.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise SiteRefusedError(f"it answered what is no JSON: {error}") from error
    if isinstance(content, dict) and REFUSED in content:
        raise SiteRefusedError(f"{content[REFUSED]}")


AT_ONCE = 16  # chunks that are in flight at the same time, to and from all sites
TURN = 1.0  # seconds between calls of `alive` for a site that waits for its turn
TRIES = 3  # of a chunk, before the site counts as not reached
LONGEST = 16 << 30  # bytes of an answer that are taken, whatever the model
ROOM = 256 << 20  # bytes of an answer that are taken of any model
MODELS = 8  # times the bytes of the job's model that an answer may have: weights, control variates, masks


class ChunkAddress(FrozenConfig):
    """The address of a chunk: the request it belongs to, and its offset in the payload.

    Attributes:
        session, number: of the request, see `training.engines.wire.Stamp`.
        offset: bytes before it.
        size: bytes of the whole payload.
    """

    session: PlainName
    number: int
    offset: int = Field(ge=0)
    size: int = Field(gt=0)


class Channel:
    """The calls to one site; they may come from several threads, and block until there is an answer.

    Each raises what `call` does, and `SiteRefusedError` where the site answers something else than it should.

    Args:
        name: of the site.
        call: `call(method, seconds, **arguments)` returns what a method at the site does. It raises
            `ChannelError` where the site was not reached in time, `SiteRefusedError` where it was and failed.
        folder: where long answers arrive.
        heartbeat_timeout: see `LivenessTracker`.
        in_flight: held while a chunk is in flight; shared by all sites.
        chunk_bytes: bytes of one chunk.
        model_bytes: returns the bytes of the job's model; asked where an answer is long.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        folder: Path,
        heartbeat_timeout: float,
        in_flight: threading.Semaphore,
        chunk_bytes: int = CHUNK_BYTES,
        model_bytes: Callable[[], int] = lambda: LONGEST,
    ) -> None:
        self._name = name
        self._call = call
        self._folder = folder
        self._seconds = transit_timeout(heartbeat_timeout, chunk_bytes)
        self._in_flight = in_flight
        self._chunk_bytes = chunk_bytes
        self._model_bytes = model_bytes

    def handshake(self, handshake: str, seconds: float) -> str:
        """The site's handshake or refusal, as JSON."""
        return self._text("handshake", seconds, handshake=handshake)

    def register(self, seconds: float) -> str:
        """The site's client properties or its refusal, as JSON."""
        return self._text("register", seconds)

    def join(self, roster: str, seconds: float) -> str:
        """Send the site the roster that all agreed on."""
        return self._text("join", seconds, roster=roster)

    def ping(self, seconds: float) -> Heartbeat:
        """A heartbeat, which a site gives while it trains, too."""
        text = self._text("ping", seconds)
        raise_refusal(text)
        try:
            return Heartbeat.model_validate_json(text)
        except ValueError as error:
            raise SiteRefusedError(f"{self._name} gave no heartbeat but {text[:80]!r}") from error

    def ask(
        self, header: str, payload: Payload, seconds: float, alive: Callable[[], None]
    ) -> tuple[str, Payload]:
        """The header and payload of the answer to a request, in one call or in chunks, as their sizes demand.

        Args:
            header: the request's.
            payload: the request's.
            seconds: that the site may take, the chunks aside.
            alive: called before each chunk, and while one waits for its turn.
        """
        asked, with_call = size_of(payload), b""
        if asked <= self._chunk_bytes:
            with_call = part_of(payload, 0, asked)
        else:
            self._put(header, payload, asked, alive)
        match self._result("answer", seconds, header=header, body=with_call, size=asked):
            case [str(head), bytes() | bytearray() | memoryview() as first, int(size)]:
                return head, bytes(first) if len(first) == size else self._fetch(header, size, alive)
        raise SiteRefusedError(f"{self._name} answered something that is no message")

    def _text(self, method: str, seconds: float, **arguments: str) -> str:
        result = self._call(method, seconds, **arguments)
        if not isinstance(result, str):
            raise SiteRefusedError(f"{self._name} answered {type(result).__name__}, and no text")
        return result

    def _result(self, method: str, seconds: float, **arguments: Any) -> Any:
        """What a method that returns no text returns; a text is a refusal."""
        result = self._call(method, seconds, **arguments)
        if isinstance(result, str):
            raise_refusal(result)
        return result

    def _put(self, header: str, payload: Payload, size: int, alive: Callable[[], None]) -> None:
        there = 0
        while there < size:
            held = self._retry(partial(self._put_chunk, payload, self._address(header, there, size)), alive)
            if not min(there + self._chunk_bytes, size) <= held <= size:
                raise SiteRefusedError(
                    f"{self._name} has {held:,} of {size:,} bytes after a piece at {there:,}"
                )
            there = held  # further than this chunk where the request is asked anew

    def _put_chunk(self, payload: Payload, address: ChunkAddress) -> int:
        chunk = part_of(payload, address.offset, self._chunk_bytes)
        held = self._result("put", self._seconds, place=address.model_dump_json(), piece=chunk)
        if not isinstance(held, int):
            raise SiteRefusedError(f"{self._name} answered {type(held).__name__}, and no number")
        return held

    def _fetch(self, header: str, size: int, alive: Callable[[], None]) -> Path:
        most = ROOM if size <= ROOM else min(max(ROOM, MODELS * self._model_bytes()), LONGEST)
        if not 0 < size <= most:
            raise SiteRefusedError(f"{self._name} answers with {size:,} bytes; {most:,} are taken at most")
        handle, name = tempfile.mkstemp(dir=self._folder, suffix=SUFFIX)
        with os.fdopen(handle, "wb") as file:
            while (there := file.tell()) < size:
                self._retry(partial(self._fetch_chunk, file, self._address(header, there, size)), alive)
        return Path(name)

    def _fetch_chunk(self, file: BinaryIO, address: ChunkAddress) -> None:
        chunk = self._result("fetch", self._seconds, place=address.model_dump_json())
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise SiteRefusedError(f"{self._name} answered {type(chunk).__name__}, and no bytes")
        # No less than a whole one, so that an answer takes no longer than its bytes at the least rate.
        if len(chunk) != min(self._chunk_bytes, address.size - address.offset):
            raise SiteRefusedError(
                f"{self._name} sent {len(chunk):,} bytes at {address.offset:,} of {address.size:,}"
            )
        file.write(chunk)

    def _address(self, header: str, offset: int, size: int) -> ChunkAddress:
        session, number = number_of(header)
        return ChunkAddress(session=session, number=number, offset=offset, size=size)

    def _retry(self, move: Callable[[], Result], alive: Callable[[], None]) -> Result:
        """Move a chunk, with retries; sites that wait for their turn hold none of it in memory."""
        for last in (*[False] * (TRIES - 1), True):
            while not self._in_flight.acquire(timeout=TURN):
                alive()
            alive()
            try:
                return move()
            except ChannelError:
                if last:
                    raise
            finally:
                self._in_flight.release()
        raise AssertionError("the last try returns or raises")


BEATS = 6  # heartbeats that a site may miss before it is taken to be offline


class LivenessTracker:
    """Tracks which sites are reachable, by their heartbeats.

    Args:
        channels: the sites that can be reached, by name.
        heartbeat_timeout: seconds without a heartbeat after which a site is offline.
        clock: seconds, rising.
    """

    def __init__(
        self,
        channels: Mapping[str, Channel],
        heartbeat_timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._heartbeat_timeout = heartbeat_timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._heard = {name: clock() for name in channels}
        self._offline: dict[str, str] = {}
        self._excluded: set[str] = set()
        self._busy = dict(self._heard)
        self._answer = dict.fromkeys(channels, 0)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._listen, args=(name, channel), daemon=True, name=f"listen-{name}")
            for name, channel in channels.items()
        ]
        for thread in self._threads:
            thread.start()

    @property
    def offline(self) -> dict[str, str]:
        """The sites that are offline, and why."""
        with self._lock:
            return dict(self._offline)

    def mark_offline(self, name: str, reason: str) -> None:
        """Note that a site did not answer; it is not asked again until its next heartbeat."""
        with self._lock:
            self._offline[name] = reason

    def exclude(self, name: str, reason: str) -> None:
        """Note that a site takes no part in this session, whatever heartbeats come."""
        with self._lock:
            self._excluded.add(name)
            self._offline[name] = reason

    def lost_in_transit(self, name: str, since: float, request: int, again: int = 0) -> bool:
        """Whether a request or its answer was lost: the site is reachable and idle, though asked long ago.

        The request may be sent again; the answer is the same.

        Args:
            name: the site.
            since: when something was last seen to move towards it or from it, by this tracker's clock.
            request: bytes that went with the call.
            again: how often the request was sent again; each time the timeout is longer, for slow links.
        """
        with self._lock:
            if name not in self._heard or name in self._offline:
                return False
            idle = self._heard[name] - max(since, self._busy[name])
            return idle > (again + 1) * transit_timeout(self._heartbeat_timeout, request + self._answer[name])

    def now(self) -> float:
        """The time by this tracker's clock."""
        return self._clock()

    def close(self) -> None:
        """Stop pinging."""
        self._ended.set()

    def _listen(self, name: str, channel: Channel) -> None:
        beat = self._heartbeat_timeout / BEATS
        while not self._ended.wait(beat):
            try:
                heartbeat = channel.ping(beat)
            except (ChannelError, SiteRefusedError) as error:
                self._not_heard_from(name, f"{error}")
            else:
                self._heard_from(name, heartbeat)

    def _heard_from(self, name: str, heartbeat: Heartbeat) -> None:
        with self._lock:
            self._heard[name] = self._clock()
            self._answer[name] = heartbeat.answer
            if heartbeat.busy:
                self._busy[name] = self._heard[name]
            if name not in self._excluded:
                self._offline.pop(name, None)

    def _not_heard_from(self, name: str, reason: str) -> None:
        with self._lock:
            silent = self._clock() - self._heard[name]
            if silent >= self._heartbeat_timeout and name not in self._offline:
                self._offline[name] = f"not heard of for {silent:.0f} seconds ({reason})"
