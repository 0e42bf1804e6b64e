import asyncio
import threading
import time

import pytest

from serving.one_thread import LineFullError, NotYetError, OneThread


@pytest.fixture
def line():
    found = OneThread("line", most=2, patience=120)
    yield found
    found.close(60)


def test_what_is_done_is_returned_and_what_fails_is_raised(line):
    async def ask():
        assert await line.run(lambda: threading.current_thread().name) == "line"
        with pytest.raises(KeyError, match="a bug"):
            await line.run(lambda: {}["a bug"])
        return await line.run(lambda: 7)

    assert asyncio.run(ask()) == 7


def test_work_is_done_in_its_order_while_the_loop_goes_on(line):
    go, done = threading.Event(), []

    def wait():
        assert go.wait(60)
        done.append("first")

    async def ask():
        first = asyncio.ensure_future(line.run(wait))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(line.run(lambda: done.append("second")))
        await asyncio.sleep(0.01)
        assert done == []  # and this runs meanwhile
        go.set()
        await asyncio.gather(first, second)

    asyncio.run(ask())
    assert done == ["first", "second"]


def test_nobody_waits_for_ever_and_the_work_is_done_all_the_same():
    line, go, done = OneThread("line", most=5, patience=0.02), threading.Event(), []

    async def ask():
        with pytest.raises(NotYetError):
            await line.run(lambda: go.wait(60))
        assert line.stuck_for > 0
        with pytest.raises(NotYetError):
            await line.run(lambda: done.append("late"))  # at once: what is before it takes too long already
        assert line.waiting == 1

    asyncio.run(ask())
    assert done == []
    go.set()
    assert line.close(60) == 0
    assert done == ["late"]
    assert line.stuck_for == 0


def test_a_line_takes_so_much_and_no_more(line):
    go, begun = threading.Event(), threading.Event()

    def wait():
        begun.set()
        assert go.wait(60)

    async def ask():
        works = [asyncio.ensure_future(line.run(wait))]
        while not begun.is_set():
            await asyncio.sleep(0.001)
        works += [asyncio.ensure_future(line.run(lambda: None)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(LineFullError):
            await line.run(lambda: None)
        go.set()
        await asyncio.gather(*works)

    asyncio.run(ask())


def test_closing_counts_what_was_not_done():
    line, go = OneThread("line", most=9, patience=0.01), threading.Event()

    async def ask():
        for work in (lambda: go.wait(60), time.monotonic, time.monotonic):
            with pytest.raises(NotYetError):
                await line.run(work)

    asyncio.run(ask())
    assert line.close(0.01) == 3
    go.set()
    line._thread.join(60)
    assert not line._thread.is_alive()
    with pytest.raises(LineFullError):
        asyncio.run(line.run(time.monotonic))
