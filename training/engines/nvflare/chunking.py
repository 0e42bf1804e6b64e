"""Chunked transfer: a payload of any size in chunks of bounded memory, resumable after a lost connection.

A payload of at most `CHUNK_BYTES` bytes travels with its call. A longer question is put before it, chunk by
chunk, into a file at the site; a longer answer is fetched after it, into a file here. Each chunk is a call of
its own: one that got lost is sent again, and nothing else.
"""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import BinaryIO, Protocol, TypeVar

from pydantic import Field

from training.config import FrozenConfig
from training.engines.nvflare.channel import ChannelError, SiteRefusedError, transit_timeout
from training.engines.nvflare.payload import CHUNK_BYTES, Payload, part_of, size_of
from training.engines.nvflare.wire import number_of
from training.files import PlainName
from training.messages.spool import SUFFIX

AT_ONCE = 16  # chunks that are in flight at the same time, to and from all sites
TURN = 1.0  # seconds between calls of `alive` for a site that waits for its turn
TRIES = 3  # of a chunk, before the site counts as not reached
LONGEST = 16 << 30  # bytes of an answer that are taken, whatever the model
ROOM = 256 << 20  # bytes of an answer that are taken of any model
MODELS = 8  # times the bytes of the job's model that an answer may have: weights, control variates, masks
Result = TypeVar("Result")


class ChunkAddress(FrozenConfig):
    """The address of a chunk: the question it belongs to, and its offset in the payload.

    Attributes:
        session, number: of the question, see `training.engines.nvflare.wire.Stamp`.
        offset: bytes before it.
        size: bytes of the whole payload.
    """

    session: PlainName
    number: int
    offset: int = Field(ge=0)
    size: int = Field(gt=0)


class ChunkChannel(Protocol):
    """The calls by which chunks reach one site; each raises like those of `Channel`."""

    def put(self, address: str, chunk: bytes, seconds: float) -> int:
        """Send a chunk of a question; returns how many bytes of the question the site has by now."""

    def fetch(self, address: str, seconds: float) -> bytes:
        """Fetch the chunk of the last answer at this address."""

    def answer(self, header: str, payload: bytes, size: int, seconds: float) -> tuple[str, bytes, int]:
        """The answer's header, its payload unless that is to be fetched, and the payload's bytes.

        Args:
            header: the question's.
            payload: the question's; empty where it was put there in chunks.
            size: bytes of the question's payload.
            seconds: that the answer may take.
        """


class ChunkedTransfer:
    """Asks one site, in one call or in chunks, as the size of question and answer demands.

    Args:
        name: of the site.
        channel: to it.
        folder: where long answers arrive.
        silence: see `training.engines.nvflare.heartbeat.LivenessTracker`.
        in_flight: held while a chunk is in flight; shared by all sites.
        chunk_bytes: bytes of one chunk.
        model_bytes: tells the bytes of the job's model; asked where an answer is long.
    """

    def __init__(
        self,
        name: str,
        channel: ChunkChannel,
        folder: Path,
        silence: float,
        in_flight: Semaphore,
        chunk_bytes: int = CHUNK_BYTES,
        model_bytes: Callable[[], int] = lambda: LONGEST,
    ) -> None:
        self._name = name
        self._channel = channel
        self._folder = folder
        self._seconds = transit_timeout(silence, chunk_bytes)
        self._in_flight = in_flight
        self._chunk_bytes = chunk_bytes
        self._model_bytes = model_bytes

    def ask(
        self, header: str, payload: Payload, seconds: float, alive: Callable[[], None]
    ) -> tuple[str, Payload]:
        """The header and payload of the answer to a question.

        Args:
            header: the question's.
            payload: the question's.
            seconds: that the site may take, the chunks aside.
            alive: called before each chunk, and while one waits for its turn.

        Raises:
            ChannelError: the site was not reached in time.
            SiteRefusedError: it was, and failed.
        """
        asked, with_call = size_of(payload), b""
        if asked <= self._chunk_bytes:
            with_call = part_of(payload, 0, asked)
        else:
            self._put(header, payload, asked, alive)
        head, first, size = self._channel.answer(header, with_call, asked, seconds)
        return head, first if len(first) == size else self._fetch(header, size, alive)

    def _put(self, header: str, payload: Payload, size: int, alive: Callable[[], None]) -> None:
        there = 0
        while there < size:
            held = self._retry(partial(self._put_chunk, payload, self._address(header, there, size)), alive)
            if not min(there + self._chunk_bytes, size) <= held <= size:
                raise SiteRefusedError(
                    f"{self._name} has {held:,} of {size:,} bytes after a piece at {there:,}"
                )
            there = held  # further than this chunk where the question is asked anew

    def _put_chunk(self, payload: Payload, address: ChunkAddress) -> int:
        chunk = part_of(payload, address.offset, self._chunk_bytes)
        return self._channel.put(address.model_dump_json(), chunk, self._seconds)

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
        chunk = self._channel.fetch(address.model_dump_json(), self._seconds)
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
