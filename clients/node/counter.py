"""The counter in front of a node's reception: long questions arrive there, and long answers leave, in pieces.

See `training.engines.nvflare.pieces` for the coordinator's half.
"""

import mmap
import tempfile
import threading
from pathlib import Path
from typing import IO

from clients.node.reception import Reception
from training.engines.nvflare.pieces import PIECE, Place
from training.engines.nvflare.pulse import Pulse
from training.errors import MessageError
from training.wire import Body, number_of


class Parcel:
    """A question's body as it arrives, in a file that has no name and vanishes with the last who reads it.

    Args:
        session, number: of the question.
        size: bytes of the whole.
        folder: on the disk that has room for it.
    """

    def __init__(self, session: str, number: int, size: int, folder: Path) -> None:
        self.session = session
        self.number = number
        self.size = size
        self.held = 0
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - see `close`

    def add(self, offset: int, piece: bytes) -> None:
        """Take a piece; one that is here already, or does not follow what is here, changes nothing."""
        if offset == self.held and offset + len(piece) <= self.size:
            self._file.write(piece)
            self.held += len(piece)

    def whole(self) -> Body:
        """All of it.

        Raises:
            MessageError: pieces are missing.
        """
        if self.held != self.size:
            raise MessageError(
                f"{self.held:,} of {self.size:,} bytes of question {self.number} are here; it cannot be read"
            )
        self._file.flush()
        return mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_READ)

    def close(self) -> None:
        """Take no more; whoever reads the whole still can."""
        self._file.close()


class Counter:
    """Takes and gives pieces for one reception.

    Args:
        reception: of the node.
        folder: where long questions wait until they are whole.
        piece: bytes of one.

    Attributes:
        reception: of the node.
    """

    def __init__(self, reception: Reception, folder: Path, piece: int = PIECE) -> None:
        self.reception = reception
        self._folder = folder
        self._piece = piece
        self._lock = threading.Lock()
        self._parcel: Parcel | None = None
        self._told: tuple[str, int, bytes] = (
            "",
            0,
            b"",
        )  # session and number of the last answer, and its body
        self._moved = 0

    def put(self, place: str, piece: bytes) -> int:
        """Take a piece of a question; how many bytes of it are here by now.

        Raises:
            MessageError: a later question has begun to arrive.
        """
        where = Place.model_validate_json(place)
        with self._lock:
            parcel = self._parcel_for(where)
            parcel.add(where.offset, piece)
            self._moved += len(piece)
            return parcel.held

    def answer(self, header: str, body: bytes, size: int) -> tuple[str, bytes, int]:
        """Answer a question, whose body came in pieces where it is not `size` bytes long.

        Returns:
            The answer's header, the first piece of its body, and how many bytes that has.

        Raises:
            MessageError: pieces are missing; or see `Reception.answer`.
        """
        session, number = number_of(header)
        head, told = self.reception.answer(
            header, body if len(body) == size else self._arrived(session, number)
        )
        with self._lock:
            self._told = (session, number, told)
        return head, told[: self._piece], len(told)

    def fetch(self, place: str) -> bytes:
        """A piece of the last answer.

        Raises:
            MessageError: it is of another answer.
        """
        where = Place.model_validate_json(place)
        with self._lock:
            session, number, told = self._told
            if (session, number) != (where.session, where.number):
                raise MessageError(
                    f"a piece of the answer to question {where.number} was asked for; the last one answered "
                    f"is {number}"
                )
            piece = told[where.offset : where.offset + self._piece]
            self._moved += len(piece)
            return piece

    def pulse(self) -> Pulse:
        """See `Reception.pulse`."""
        pulse = self.reception.pulse()
        return Pulse(busy=pulse.busy, answer=min(pulse.answer, self._piece), moved=self._moved)

    def close(self) -> None:
        """Forget what waits here."""
        if self._parcel is not None:
            self._parcel.close()
            self._parcel = None

    def _parcel_for(self, where: Place) -> Parcel:
        """The parcel that a piece belongs to; a later question's takes an earlier one's place."""
        there = self._parcel
        if there is not None and there.session == where.session:
            if there.number == where.number:
                return there
            if there.number > where.number:
                raise MessageError(
                    f"a piece of question {where.number} is stale: question {there.number} has begun to "
                    "arrive since. It is dropped"
                )
        self.close()
        self._parcel = Parcel(where.session, where.number, where.size, self._folder)
        return self._parcel

    def _arrived(self, session: str, number: int) -> Body:
        with self._lock:
            there = self._parcel
            if there is None or (there.session, there.number) != (session, number):
                raise MessageError(f"question {number} came without its tensors; it cannot be read")
            return there.whole()
