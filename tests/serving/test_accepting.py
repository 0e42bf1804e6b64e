"""Who takes the connections that wait on a socket that several workers listen on."""

import asyncio
import contextlib
import socket

import pytest

from serving.accepting import accept_one_by_one

CONNECTIONS = 40


class Caller(asyncio.Protocol):
    """Hangs up when it is told to."""

    def connection_made(self, transport):
        self.transport = transport


def left_for_others(change):
    """Connections that still wait when a loop has looked a few times."""
    made = []

    def protocol():
        made.append(Caller())
        return made[-1]

    async def look(listening, stack):
        change(asyncio.get_running_loop())
        server = await asyncio.get_running_loop().create_server(protocol, sock=listening.dup(), backlog=128)
        for _ in range(3):
            await asyncio.sleep(0)
        left = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                stack.enter_context(listening.accept()[0])
                left += 1
        async with asyncio.timeout(20):
            while sum(hasattr(one, "transport") for one in made) < CONNECTIONS - left:
                await asyncio.sleep(0)
        server.close()
        for one in made:
            one.transport.abort()
        await asyncio.sleep(0)
        return left

    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        listening.setblocking(False)
        for _ in range(CONNECTIONS):
            stack.enter_context(socket.create_connection(listening.getsockname(), timeout=10))
        runner = stack.enter_context(asyncio.Runner(loop_factory=asyncio.SelectorEventLoop))
        return runner.run(look(listening, stack))


def test_what_waits_is_left_for_others_too():
    left = left_for_others(accept_one_by_one)
    assert CONNECTIONS - 10 < left < CONNECTIONS


def test_asyncio_alone_leaves_none():
    assert left_for_others(lambda loop: None) == 0


def test_a_loop_that_accepts_in_another_way_is_left_alone():
    class Other:
        __slots__ = ()

    accept_one_by_one(Other())


@pytest.mark.parametrize("settings", [(), (100,), (100, 60.0, 30.0)])
def test_what_else_is_set_is_handed_on(settings):
    got = []

    class Loop:
        def _accept_connection(self, *given):
            got.append(given)

    loop = Loop()
    accept_one_by_one(loop)
    loop._accept_connection("factory", "socket", None, "server", *settings)
    assert got == [("factory", "socket", None, "server", 1, *settings[1:])]
