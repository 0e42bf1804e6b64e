"""A cable between a node and the coordinator that can be cut: a TCP proxy on 127.0.0.1."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

CHUNK = 1 << 16
UP, DOWN = "up", "down"


class Cable:
    """Carries bytes between whoever connects to `port` and the port `to`, as long as it is not disturbed.

    Args:
        to: the coordinator's port.

    Attributes:
        port: where the node connects to.
        carried: bytes so far, up and down.
        refused: how often somebody tried while it was cut.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._loop = asyncio.new_event_loop()
        self._refuses = False
        self._through: dict[str, asyncio.Event] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.carried = {UP: 0, DOWN: 0}
        self.refused = 0
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name=f"cable-{to}")
        self._thread.start()
        self.port: int = self._do(self._open())

    def drop(self) -> None:
        """Break all connections; new ones are taken."""
        self._do(self._break())

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self._refuses = True
        self.drop()

    def stall(self, *ways: str) -> None:
        """Let nothing through any more, in one direction or in both, with connections as they are."""
        self._do(self._hold(ways or (UP, DOWN)))

    def mend(self) -> None:
        """Be an ordinary cable again; what was held back arrives."""
        self._refuses = False
        self._do(self._let_go())

    def close(self) -> None:
        """Break everything and end."""
        self.cut()
        self._do(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _open(self) -> int:
        self._through = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        await self._let_go()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _shut(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _break(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _hold(self, ways: tuple[str, ...]) -> None:
        for way in ways:
            self._through[way].clear()

    async def _let_go(self) -> None:
        for event in self._through.values():
            event.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            self.refused += 1
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._writers |= ends
        ways = [
            asyncio.create_task(self._carry(reader, far_writer, UP)),
            asyncio.create_task(self._carry(far_reader, writer, DOWN)),
        ]
        self._tasks |= set(ways)
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ways:
                task.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in ends:
                end.transport.abort()
            self._writers -= ends
            self._tasks -= set(ways)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await self._through[way].wait()
                writer.write(chunk)
                await writer.drain()
                self.carried[way] += len(chunk)
