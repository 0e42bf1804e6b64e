"""The counter in front of a node's reception: long questions arrive there, and long answers leave, in pieces.

See `training.engines.nvflare.pieces` for the coordinator's half.
"""

import os
import tempfile
import threading
from pathlib import Path

from clients.node.reception import Reception
from training.body import PIECE, Body, part_of, size_of
from training.engines.nvflare.pieces import Place
from training.engines.nvflare.pulse import Pulse
from training.errors import MessageError
from training.spool import SUFFIX
from training.wire import number_of

ARRIVING = "arriving-"  # how the files are called


class Parcel:
    """A question's body as it arrives, in a file.

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
        handle, name = tempfile.mkstemp(dir=folder, prefix=ARRIVING, suffix=SUFFIX)
        os.close(handle)
        self._path = Path(name)

    def add(self, offset: int, piece: bytes) -> None:
        """Take a piece; one that is here already, or does not follow what is here, changes nothing."""
        if offset == self.held and offset + len(piece) <= self.size:
            with self._path.open("r+b") as file:
                file.seek(self.held)  # a full disk may have left a part of a piece
                file.write(piece)
            self.held += len(piece)

    def whole(self) -> Path:
        """All of it.

        Raises:
            MessageError: pieces are missing.
        """
        if self.held != self.size:
            raise MessageError(
                f"{self.held:,} of {self.size:,} bytes of question {self.number} are here; it cannot be read"
            )
        return self._path

    def close(self) -> None:
        """Remove it; whoever has opened it can go on reading."""
        self._path.unlink(missing_ok=True)


class Counter:
    """Takes and gives pieces for one reception.

    Args:
        reception: of the node.
        folder: where long questions arrive; what an earlier counter left there is removed.
        piece: bytes of one.

    Attributes:
        reception: of the node.
    """

    def __init__(self, reception: Reception, folder: Path, piece: int = PIECE) -> None:
        self.reception = reception
        for path in folder.glob(f"{ARRIVING}*{SUFFIX}"):
            path.unlink()
        self._folder = folder
        self._piece = piece
        self._lock = threading.Lock()
        self._parcel: Parcel | None = None
        # Session and number of the last answer, and its body.
        self._told: tuple[str, int, Body] = ("", 0, b"")

    def put(self, place: str, piece: bytes) -> int:
        """Take a piece of a question; how many bytes of it are here by now.

        Raises:
            MessageError: a later question has begun to arrive, or the coordinator has begun another session.
        """
        where = Place.model_validate_json(place)
        if where.session != self.reception.session:
            raise MessageError(f"a piece of a question of session {where.session}, which is over; dropped")
        with self._lock:
            parcel = self._parcel_for(where)
            parcel.add(where.offset, piece)
            return parcel.held

    def answer(self, header: str, body: bytes, size: int) -> tuple[str, bytes, int]:
        """Answer a question, whose body came in pieces where it is not `size` bytes long.

        Returns:
            The answer's header, its body unless that is to be fetched, and how many bytes that has.

        Raises:
            MessageError: pieces are missing; or see `Reception.answer`.
        """
        session, number = number_of(header)
        head, told = self.reception.answer(
            header, body if len(body) == size else self._arrived(session, number)
        )
        with self._lock:
            self._told = (session, number, told)
        size = size_of(told)
        return head, part_of(told, 0, size) if size <= self._piece else b"", size

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
            return part_of(told, where.offset, self._piece)

    def pulse(self) -> Pulse:
        """See `Reception.pulse`."""
        pulse = self.reception.pulse()
        with_call = pulse.answer if pulse.answer <= self._piece else 0
        return Pulse(busy=pulse.busy, answer=with_call)

    def close(self) -> None:
        """Remove what waits here."""
        self._drop()
        self.reception.close()

    def _drop(self) -> None:
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
        self._drop()
        self._parcel = Parcel(where.session, where.number, where.size, self._folder)
        return self._parcel

    def _arrived(self, session: str, number: int) -> Body:
        with self._lock:
            there = self._parcel
            if there is None or (there.session, there.number) != (session, number):
                raise MessageError(f"question {number} came without its tensors; it cannot be read")
            return there.whole()
