"""Serves an application on sockets that were opened before, until it is told to end; then nobody is lost.

How it ends, once the application has told its callers for a while that it will (`Connection: close`):

1. Where the whole service ends, no new connection begins; who tries is refused before he sends anything.
2. The connections that wait in the kernel's queue are accepted.
3. The sockets are closed.
4. A request that has come, or has begun to come, is answered; a connection on which none has is closed.
"""

import asyncio
import contextlib
import logging
import select
import socket
from collections.abc import Callable, Sequence
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from serving.transport.config import Bounds, Config
from serving.transport.listening import WAITING, refuse_new
from serving.transport.protocol import HttpProtocol

log = logging.getLogger("dermfed.serve")

GRACE: Final = 30
"""How long the answers to what was asked before the end may take; seconds."""

_LOOKS: Final = 0.25  # how often each connection is looked at; seconds
_QUEUE_SECONDS: Final = 5.0  # for a queue that does not empty, since no filter holds new connections back


class Server(uvicorn.Server):
    """Serves until it is told to end (`should_exit`, or a signal)."""

    def __init__(
        self,
        app: ASGIApp,
        bounds: Bounds,
        connections: int,
        whole_service_ends: Callable[[], bool] = lambda: True,
    ) -> None:
        """Not started yet.

        Args:
            app: what answers.
            bounds: how long a caller may hold a connection.
            connections: how many there may be at once.
            whole_service_ends: asked when this process ends: whether nobody else accepts from its sockets.
        """
        super().__init__(Config(app, HttpProtocol, bounds, connections))
        self._whole_service_ends = whole_service_ends
        self._watching: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the application and accepts connections."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(
                WAITING
            )  # uvicorn has one number for both: what is accepted at once, and what may wait
        self._watching = asyncio.create_task(self._watch())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends without losing a request, and then the application."""
        await self._stop_accepting(sockets or [])
        loop = asyncio.get_running_loop()
        last = loop.time() + GRACE
        while self.server_state.connections and loop.time() < last and not self.force_exit:
            self._each(HttpProtocol.end_if_unused, loop.time())
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching

    async def _stop_accepting(self, sockets: Sequence[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        if self._whole_service_ends():
            for one in sockets:
                refuse_new(one)
            last = loop.time() + _QUEUE_SECONDS
            while select.select(sockets, [], [], 0)[0] and loop.time() < last:
                await asyncio.sleep(0.001)
        for one in sockets:
            loop.remove_reader(one.fileno())
        for _ in range(4):
            await asyncio.sleep(0)  # what was accepted is given to a protocol a turn of the loop later
        for server in self.servers:
            server.close()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOKS)
            self._each(HttpProtocol.check, loop.time())

    def _each(self, act: Callable[[HttpProtocol, float], None], now: float) -> None:
        for connection in [*self.server_state.connections]:
            if not isinstance(connection, HttpProtocol):
                continue
            try:
                act(connection, now)
            except Exception:  # what is wrong with one must not end the watch over all others
                log.exception("a connection failed while it was looked at, and is closed")
                connection.abort()
