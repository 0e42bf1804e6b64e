"""Long messages in pieces: they need little memory whatever the model's size, and can be taken up again.

A body of at most `PIECE` bytes travels with its call. A longer question goes before it, piece by piece, and
waits in a file at the site; a longer answer is fetched after it, into a file here. Each piece is a call of
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

from training.body import PIECE, Body, part_of, size_of
from training.config import FrozenConfig
from training.engines.nvflare.lines import LineError, SiteRefusedError
from training.engines.nvflare.pulse import time_on_the_way
from training.spool import SUFFIX
from training.wire import number_of

AT_ONCE = 16  # pieces that are on their way at the same time, to and from all sites
TURN = 1.0  # seconds between signs of life of a site that waits for its turn
TRIES = 3  # of a piece, before the site counts as not reached
LONGEST = 16 << 30  # bytes of an answer that are taken
Told = TypeVar("Told")


class Place(FrozenConfig):
    """Where a piece belongs.

    Attributes:
        session, number: of the question, see `training.wire.Stamp`.
        offset: bytes before it.
        size: bytes of the whole body.
    """

    session: str
    number: int
    offset: int = Field(ge=0)
    size: int = Field(gt=0)


class Carrier(Protocol):
    """What pieces need of a line to a site; every call raises like `training.engines.nvflare.lines.Line`."""

    def put(self, place: str, piece: bytes, seconds: float) -> int:
        """Leave a piece of a question there; how many bytes of it the site has by now."""

    def fetch(self, place: str, seconds: float) -> bytes:
        """The piece of the last answer that belongs there."""

    def answer(self, header: str, body: bytes, size: int, seconds: float) -> tuple[str, bytes, int]:
        """The answer's header, its body unless that is to be fetched, and how many bytes that has.

        Args:
            header: the question's.
            body: the question's; empty where it went there in pieces.
            size: bytes of the question's body.
            seconds: that the answer may take.
        """


class InPieces:
    """Asks one site, whatever the size of question and answer.

    Args:
        name: of the site.
        carrier: to it.
        folder: where long answers arrive.
        silence: see `training.engines.nvflare.attendance.Attendance`.
        moving: held while a piece is on its way; shared by all sites.
        piece: bytes of one.
    """

    def __init__(
        self,
        name: str,
        carrier: Carrier,
        folder: Path,
        silence: float,
        moving: Semaphore,
        piece: int = PIECE,
    ) -> None:
        self._name = name
        self._carrier = carrier
        self._folder = folder
        self._seconds = time_on_the_way(silence, piece)
        self._moving = moving
        self._piece = piece

    def ask(self, header: str, body: Body, seconds: float, alive: Callable[[], None]) -> tuple[str, Body]:
        """The header and body of the answer to a question.

        Args:
            header: the question's.
            body: the question's.
            seconds: that the site may take, the pieces aside.
            alive: called before each piece, and while one waits for its turn.

        Raises:
            LineError: the site was not reached in time.
            SiteRefusedError: it was, and failed.
        """
        asked, with_call = size_of(body), b""
        if asked <= self._piece:
            with_call = part_of(body, 0, asked)
        else:
            self._put(header, body, asked, alive)
        head, first, size = self._carrier.answer(header, with_call, asked, seconds)
        return head, first if len(first) == size else self._fetched(header, size, alive)

    def _put(self, header: str, body: Body, size: int, alive: Callable[[], None]) -> None:
        there = 0
        while there < size:
            held = self._tried(partial(self._put_piece, body, self._place(header, there, size)), alive)
            if not there < held <= size:
                raise SiteRefusedError(
                    f"{self._name} has {held:,} of {size:,} bytes after a piece at {there:,}"
                )
            there = held  # further than this piece where the question is asked anew

    def _put_piece(self, body: Body, place: Place) -> int:
        piece = part_of(body, place.offset, self._piece)
        return self._carrier.put(place.model_dump_json(), piece, self._seconds)

    def _fetched(self, header: str, size: int, alive: Callable[[], None]) -> Path:
        if not 0 < size <= LONGEST:
            raise SiteRefusedError(f"{self._name} answers with {size:,} bytes; {LONGEST:,} are taken at most")
        handle, name = tempfile.mkstemp(dir=self._folder, suffix=SUFFIX)
        with os.fdopen(handle, "wb") as file:
            while (there := file.tell()) < size:
                self._tried(partial(self._fetch_piece, file, self._place(header, there, size)), alive)
        return Path(name)

    def _fetch_piece(self, file: BinaryIO, place: Place) -> None:
        piece = self._carrier.fetch(place.model_dump_json(), self._seconds)
        if not 0 < len(piece) <= place.size - place.offset:
            raise SiteRefusedError(
                f"{self._name} sent {len(piece):,} bytes at {place.offset:,} of {place.size:,}"
            )
        file.write(piece)

    def _place(self, header: str, offset: int, size: int) -> Place:
        session, number = number_of(header)
        return Place(session=session, number=number, offset=offset, size=size)

    def _tried(self, move: Callable[[], Told], alive: Callable[[], None]) -> Told:
        """Move a piece; sites that wait for their turn hold none of it in memory."""
        for last in (*[False] * (TRIES - 1), True):
            while not self._moving.acquire(timeout=TURN):
                alive()
            alive()
            try:
                return move()
            except LineError:
                if last:
                    raise
            finally:
                self._moving.release()
        raise AssertionError("the last try returns or raises")
