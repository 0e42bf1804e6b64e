"""One connection: uvicorn's protocol, with a bound on what a caller can hold by sending slowly or not at all.

| what a caller does | what becomes of it |
| --- | --- |
| sends a head too slowly | 408 after `header_seconds` |
| sends nothing | closed after `header_seconds` |
| sends a head of more than 64 to 128 KiB | 431 |
| sends what is no HTTP | 400 |
| sends a body too slowly | closed `header_seconds` after the application's own deadline |
| goes on sending after the answer | read past as long as that deadline, then closed |
| keeps a connection without asking | closed after `keep_alive_seconds` |
| does not read its answer | closed after that deadline |

Of uvicorn's class, beside the methods of `asyncio.Protocol`, these are used: `conn` (h11's connection),
`cycle`, `on_response_complete`, `send_400_response`, `timeout_keep_alive_handler` and `shutdown`.
"""

import asyncio
import fcntl
import struct
import sys
import termios
import uuid
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from serving.http.middleware import with_security_headers
from serving.protocol.problems import (
    HeadTooLarge,
    HeadTooSlow,
    MalformedRequest,
    ProblemResponse,
    TooManyConnections,
    problem_response,
)
from serving.transport.config import HEAD_BYTES, Config
from serving.transport.connections import Phase, peer_of
from serving.transport.lingering import LingeringTransport

FIRST_BYTE_SECONDS: Final = 1.0
"""How long a service that ends waits for the first byte on a connection that was just opened."""


class HttpProtocol(H11Protocol):
    """One connection, of which somebody has to call `check` now and then.

    Attributes:
        phase: what it is at.
        since: since when; the event loop's time.
        peer: the address that it is counted by.
    """

    transport: LingeringTransport

    def __init__(self, config: Config, *arguments: Any, **options: Any) -> None:
        """Takes what uvicorn gives each connection."""
        super().__init__(config, *arguments, **options)
        self.phase = Phase.HEAD
        self.peer = ""
        self._bounds = config.bounds
        self._table = config.table
        self._has_asked = False
        self._not_read_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection was accepted."""
        super().connection_made(LingeringTransport(transport, self._more_to_come))
        self.since = self.loop.time()
        self.peer = peer_of(self.client[0] if self.client else "")
        if not self._table.admit(self, self.since):
            self._refuse(
                TooManyConnections(
                    "as many connections are open as may be, and each is being answered; "
                    "ask again a little later",
                    {"Retry-After": "1"},
                )
            )
            self.transport.close_now()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._table.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self.transport.is_closing():
            return  # the answer was given and the connection ended: what still comes is read past
        # h11 holds against its bound what is left without an end, so it is shown no more at once.
        while len(data) > HEAD_BYTES and self.phase in (Phase.HEAD, Phase.IDLE):
            super().data_received(data[:HEAD_BYTES])
            data = data[HEAD_BYTES:]
            self._look()
        if self.phase is not Phase.CLOSING:
            super().data_received(data)
            self._look()

    def on_response_complete(self) -> None:
        """The whole answer was handed to the transport."""
        self._has_asked = True
        super().on_response_complete()
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no request; uvicorn calls it while it handles h11's error."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        if status == HeadTooLarge.status:
            self._refuse(
                HeadTooLarge(f"the head of a request has more than {HEAD_BYTES} bytes; send fewer headers")
            )
        else:
            self._refuse(MalformedRequest("what was sent is no request of HTTP/1.1; send one that is"))

    def pause_writing(self) -> None:
        """The caller reads more slowly than it is answered."""
        self._not_read_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The caller has read."""
        self._not_read_since = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing was asked for long; what has come just now is answered first."""
        if not self.has_unread():
            super().timeout_keep_alive_handler()
            self._look()

    def check(self, now: float) -> None:
        """Ends the connection if what it is at has taken too long.

        Args:
            now: the event loop's time; seconds.
        """
        bounds, waited = self._bounds, now - self.since
        if self._not_read_since is not None and now - self._not_read_since > bounds.request_seconds:
            self.abort()
        elif self.phase is Phase.HEAD and waited > bounds.header_seconds:
            if self._half_a_head():
                late = f"the head of the request was not there within {bounds.header_seconds:g} seconds"
                self._refuse(HeadTooSlow(f"{late}; send it at once"))
            else:
                self.transport.close()
        elif self.phase is Phase.IDLE and waited > bounds.keep_alive_seconds:
            self.timeout_keep_alive_handler()
        elif (
            (self.phase is Phase.CLOSING and waited > bounds.header_seconds)
            or (self.phase is Phase.REST and waited > bounds.request_seconds)
            or (
                self.phase is Phase.ANSWERING
                and self.conn.their_state is h11.SEND_BODY
                and waited
                > bounds.request_seconds + bounds.header_seconds  # the application's answer is earlier
            )
        ):
            self.abort()

    def end_if_unused(self, now: float) -> None:
        """Closes it where the service ends and no request is on its way or being answered.

        Args:
            now: the event loop's time; seconds.
        """
        if self.has_unread() or self._half_a_head():
            return
        fresh = not self._has_asked and now - self.since <= FIRST_BYTE_SECONDS
        if self.phase is Phase.IDLE or (self.phase is Phase.HEAD and not fresh):
            self.transport.close()
            self._look()

    def shutdown(self) -> None:
        """The service ends, and waits no longer for who is not being answered."""
        if self.phase is Phase.ANSWERING:
            self.cycle.keep_alive = False
        else:
            self.transport.close()
            self._look()

    def has_unread(self) -> bool:
        """Whether the kernel holds bytes that have come and were not read."""
        open_socket = self.transport.get_extra_info("socket")
        if open_socket is None or open_socket.fileno() < 0:
            return False
        (waiting,) = struct.unpack("i", fcntl.ioctl(open_socket.fileno(), termios.FIONREAD, bytes(4)))
        return bool(waiting)

    def abort(self) -> None:
        """Closes it at once; whoever works on its request is told that the caller is gone."""
        self.transport.abort()

    def _enter(self, phase: Phase) -> None:
        if phase is not self.phase:
            self.since = self.loop.time()
            self._table.move(self, phase)

    def _look(self) -> None:
        """Finds what the connection is at."""
        if self.transport.is_closing():
            self._enter(Phase.CLOSING)
        elif self.cycle is not None and not self.cycle.response_complete:
            self._enter(Phase.ANSWERING)
        elif self.conn.their_state is not h11.IDLE:
            self._enter(Phase.REST)
        elif self._half_a_head() or not self._has_asked:
            self._enter(Phase.HEAD)
        else:
            self._enter(Phase.IDLE)

    def _half_a_head(self) -> bool:
        return self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])

    def _more_to_come(self) -> bool:
        """Whether the caller has begun something and not ended it, as far as is known."""
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR) or self._half_a_head() or self.has_unread()

    def _refuse(self, problem: ProblemResponse) -> None:
        """Answers what has not become a request, and ends the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # its application is told; nothing else can be said to its caller
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            told = problem_response(problem, request_id := str(uuid.uuid4()))
            own = [(b"connection", b"close"), (b"x-request-id", request_id.encode())]
            head = h11.Response(
                status_code=problem.status, headers=with_security_headers([*told.raw_headers, *own])
            )
            for event in (head, h11.Data(data=bytes(told.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()
        self._look()
