"""A small application on the service's own server, with bounds that are short enough to be waited for."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from serving.transport.config import Bounds
from serving.transport.listening import listen
from serving.transport.server import Server

LARGE = 64 * 2**20


@dataclass
class Served:
    """A server that runs in a thread, and what its application noticed."""

    port: int
    server: Server
    gone: list[str] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)

    def connect(self, seconds: float = 60) -> socket.socket:
        """A new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    def ask(self, sent: bytes) -> bytes:
        """Sends bytes and reads until the connection is closed."""
        with self.connect() as line:
            line.sendall(sent)
            return read_all(line)

    def open(self) -> int:
        """How many connections there are."""
        return len(self.server.server_state.connections)

    def eventually(self, holds: Callable[[], bool]) -> None:
        """Waits until something holds."""
        until = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < until, "it never came to hold"
            time.sleep(0.01)


def read_all(line: socket.socket) -> bytes:
    """What comes until the other side closes."""
    got = b""
    while more := line.recv(2**16):
        got += more
    return got


def application(served: list[Served]) -> Starlette:
    """`/` answers at once, `/body` with what was sent, `/close` closes, `/held` waits, `/large` says much."""

    async def body(request: Request) -> Response:
        try:
            return PlainTextResponse(str(len(await request.body())))
        except ClientDisconnect:
            served[0].gone.append(request.url.path)
            return PlainTextResponse("to nobody")

    async def at_once(request: Request) -> Response:
        close = {"Connection": "close"} if request.url.path == "/close" else {}
        return PlainTextResponse("here", headers=close)

    async def held(request: Request) -> Response:
        while not served[0].let_go.is_set():
            await asyncio.sleep(0.005)
        return PlainTextResponse("held")

    async def large(request: Request) -> Response:
        return PlainTextResponse(bytes(LARGE))

    paths: dict[str, Any] = {"/": at_once, "/close": at_once, "/body": body, "/held": held, "/large": large}
    return Starlette(routes=[Route(path, one, methods=["GET", "POST"]) for path, one in paths.items()])


@contextmanager
def run_server(connections: int = 64, **bounds: float) -> Iterator[Served]:
    """The small application, served; keywords are bounds."""
    known: list[Served] = []
    given = {"header_seconds": 60.0, "request_seconds": 60.0, "keep_alive_seconds": 60, **bounds}
    server = Server(application(known), Bounds(**given), connections)
    (listening,) = listen("127.0.0.1", 0)
    known.append(Served(listening.getsockname()[1], server))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        known[0].eventually(lambda: server.started)
        yield known[0]
    finally:
        known[0].let_go.set()
        server.should_exit = True
        thread.join()


@pytest.fixture
def serving() -> Callable[..., Any]:
    """Runs the small application; keywords are bounds."""
    return run_server


@pytest.fixture
def until_closed() -> Callable[[socket.socket], bytes]:
    """Reads until the other side closes."""
    return read_all
