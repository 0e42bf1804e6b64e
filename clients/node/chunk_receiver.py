"""The node's half of chunked transfer: long requests arrive, and long answers leave, in chunks.

See `training.engines.flare.calls` for the coordinator's half.
"""

import os
import tempfile
import threading
from pathlib import Path

from clients.node.request_handler import RequestHandler
from training.engines.flare.calls import ChunkAddress, Heartbeat
from training.engines.flare.wire import CHUNK_BYTES, Payload, number_of, part_of, size_of
from training.errors import MessageError, public
from training.messages.tensor_file import SUFFIX

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
