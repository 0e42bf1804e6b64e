"""Who is let in, for how long, and what becomes of those who go away."""

import asyncio
import json
import socket
import threading
import time
from contextlib import AsyncExitStack, ExitStack
from types import SimpleNamespace

import pytest

from registry.bundle.model import Graph
from serving.access.admission import GRACE, Admission
from serving.protocol.problems import Busy, CallerGone, DeadlinePassed, Draining


class Refused:
    """Counts, in place of `Metrics`."""

    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        return lambda: self.told.append(name)


def request(began=0.0, *, leaves=None, key=None):
    """A request that began so many seconds ago; it goes away when `leaves` is set."""

    async def receive():
        await (leaves or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    return SimpleNamespace(state=SimpleNamespace(began=time.monotonic() - began, key=key), receive=receive)


def test_as_many_as_may_are_let_in_and_each_who_leaves_makes_room():
    async def ask():
        metrics = Refused()
        admission = Admission(2, 60, metrics)
        async with admission.admit(request()):
            async with admission.admit(request()):
                with pytest.raises(Busy, match="2 requests") as busy:
                    await admission.admit(request()).__aenter__()
                assert int(busy.value.headers["Retry-After"]) >= 1
            async with admission.admit(request()):
                pass
            with pytest.raises(ValueError):
                async with admission.admit(request()):
                    raise ValueError("a picture that is none")
            async with admission.admit(request()):
                pass
        assert metrics.told == ["busy"]

    asyncio.run(ask())


def test_a_key_is_let_in_while_it_holds_fewer_places_than_are_free():
    """Of eight, the first takes four, the second two of the four that are left, the third and fourth one."""

    async def ask():
        metrics = Refused()
        admission = Admission(8, 60, metrics)
        for _ in range(2):  # nothing of those who have left is remembered
            metrics.told.clear()
            async with AsyncExitStack() as inside:
                for key, many in {"a": 4, "b": 2, "c": 1, "d": 1, "e": 0}.items():
                    for _ in range(many):
                        await inside.enter_async_context(admission.admit(request(key=key)))
                    with pytest.raises(Busy) as busy:
                        await admission.admit(request(key=key)).__aenter__()
                    assert int(busy.value.headers["Retry-After"]) >= 1
                    if key == "b":
                        assert "2 requests with the API key b are waiting, and 2 places are left" in str(busy)
            assert metrics.told == ["over_share", "over_share", "over_share", "busy", "busy"]
        assert not admission._admitted_by_key

    asyncio.run(ask())


@pytest.mark.parametrize(("began", "work"), [(0.0, 30), (59.99, 30), (100.0, 30)])
def test_what_takes_too_long_is_given_up(began, work):
    async def ask():
        metrics = Refused()
        admission = Admission(1, 60.0 if began else 0.02, metrics)
        with pytest.raises(DeadlinePassed) as passed:
            async with admission.admit(request(began)):
                await asyncio.sleep(work)
        assert int(passed.value.headers["Retry-After"]) >= 1
        async with admission.admit(request()):  # the place is free again
            pass
        assert metrics.told == ["deadline"]

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_nobody_works_for_a_caller_who_went_away():
    async def ask():
        metrics, leaves, before = Refused(), asyncio.Event(), asyncio.all_tasks()
        admission = Admission(1, 60, metrics)

        async def work():
            async with admission.admit(request(leaves=leaves)) as admitted:
                admitted.watch_for_disconnect()
                asyncio.get_running_loop().call_later(0.01, leaves.set)
                await asyncio.sleep(30)

        with pytest.raises(CallerGone):
            await work()
        async with admission.admit(request()) as admitted:
            admitted.watch_for_disconnect()
        assert metrics.told == ["cancelled"]
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before  # nobody is watched any longer

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_a_service_that_ends_lets_nobody_in_and_hurries_those_inside():
    async def ask():
        metrics = Refused()
        admission, now = Admission(4, 60, metrics), asyncio.get_running_loop().time
        came = now()
        async with admission.admit(request()) as slow, admission.admit(request(50)) as soon:
            admission.check_open()
            told = now()
            admission.drain()
            assert told <= slow.scope.deadline - GRACE <= now()
            assert came - 0.01 <= soon.scope.deadline - 10 <= told + 0.01
            with pytest.raises(Draining) as draining:
                await admission.admit(request()).__aenter__()
            assert draining.value.headers["Connection"] == "close"
            with pytest.raises(Draining):
                admission.check_open()
        assert metrics.told == ["draining"]

    asyncio.run(ask())


# Over HTTP.


@pytest.fixture
def slow(monkeypatch):
    """A model that answers when it is told to; it counts its runs."""
    run, told = Graph.run, SimpleNamespace(go=threading.Event(), begun=threading.Semaphore(0), runs=0)

    def wait(graph, images):
        told.runs += 1
        told.begun.release()
        assert told.go.wait(120)
        return run(graph, images)

    told.attach = lambda: monkeypatch.setattr("registry.bundle.model.Graph.run", wait)
    yield told
    told.go.set()


@pytest.fixture
def released(registry, promote, bundle):
    return promote(registry, bundle())


def head(size, *more):
    lines = ["POST /v1/diagnoses HTTP/1.1", "Host: localhost", "Content-Type: image/png", *more]
    return "\r\n".join([*lines, f"Content-Length: {size}", "", ""]).encode()


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def diagnosed(started, content, secret):
    return started.diagnose(content, "image/png", headers=bearer(secret))


def counted(started, why, secret=None):
    text = started.client.get("/metrics", headers=bearer(secret)).text
    rows = [one for one in text.splitlines() if f'why="{why}"' in one]
    return sum(float(one.rpartition(" ")[2]) for one in rows if "_created" not in one)


class Asking:
    """A request in a thread of its own."""

    def __init__(self, started, content):
        self.answer = None
        self._thread = threading.Thread(target=self._ask, args=(started, content))
        self._thread.start()

    def _ask(self, started, content):
        self.answer = started.diagnose(content, "image/png")

    def done(self):
        self._thread.join(60)
        return self.answer


def test_one_key_that_sends_slowly_does_not_keep_another_out(serve, registry, released, picture, problem):
    content = picture("PNG")
    slow, other = (registry.create_key(name)[1] for name in ("slow", "other"))
    with serve(queue=4, deadline_seconds=120) as started, ExitStack() as lines:
        for secret in (slow, other):  # both are known to the service from here on
            started.eventually(lambda secret=secret: diagnosed(started, content, secret).status_code == 200)
        for _ in range(6):
            line = lines.enter_context(socket.create_connection(("127.0.0.1", started.port), timeout=60))
            line.sendall(head(len(content), f"Authorization: Bearer {slow}") + content[:20])
        # Two are let in, and what they do not send is waited for; the other four are told at once.
        started.eventually(lambda: counted(started, "share", other) == 4)
        body = problem(diagnosed(started, content, slow), 503)
        assert body["type"].endswith(":busy")
        assert "2 places are left" in body["detail"]
        assert [diagnosed(started, content, other).status_code for _ in range(3)] == [200] * 3
        assert counted(started, "busy", other) == 0


def test_a_body_that_comes_too_slowly_is_given_up(serve, released, picture):
    content = picture("PNG")
    with serve(deadline_seconds=0.3) as started:
        got = started.raw(head(len(content)) + content[:20])
        assert b" 503 " in got.partition(b"\r\n")[0]
        assert json.loads(got.partition(b"\r\n\r\n")[2])["type"].endswith(":deadline")
        started.eventually(lambda: started.diagnose(content, "image/png").status_code == 200)


def test_whoever_hangs_up_is_neither_decoded_nor_shown(serve, released, picture, slow, monkeypatch):
    content, decoded = picture("PNG"), []
    with serve(threads=1, lone_threads=1, queue=3) as started:
        slow.attach()
        asking = Asking(started, content)
        assert slow.begun.acquire(timeout=60)
        for _ in range(6):  # more than there are places
            with socket.create_connection(("127.0.0.1", started.port), timeout=60) as line:
                line.sendall(head(len(content)) + content)
            before = len(decoded)
            started.eventually(lambda before=before: counted(started, "cancelled") > before)
            decoded.append(1)
        slow.go.set()
        assert asking.done().status_code == 200
        assert slow.runs == 1
        assert started.diagnose(content, "image/png").status_code == 200
        assert slow.runs == 2
