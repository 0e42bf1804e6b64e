import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from types import SimpleNamespace

import pytest

from registry.bundle.model import Graph
from serving.admission import GRACE, Admission
from serving.metrics import Metrics
from serving.protocol.problems import Busy, CallerGone, DeadlinePassed, Draining


@pytest.fixture
def metrics():
    return Metrics()


def refused(metrics):
    """How many requests were refused, by why."""
    return {labels["why"]: n for labels, n in metrics.totals().named("dermfed_refused_total")}


def request(began=0.0, *, leaves=None, key=None):
    """A request that began so many seconds ago; it disconnects when `leaves` is set."""

    async def receive():
        await (leaves or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    return SimpleNamespace(state=SimpleNamespace(began=time.monotonic() - began, key=key), receive=receive)


async def refusal(admission, error, **asked):
    """The error that a further request is refused with."""
    with pytest.raises(error) as refused:
        await admission.admit(request(**asked)).__aenter__()
    return refused.value


@pytest.mark.anyio
async def test_as_many_as_may_are_admitted_and_each_that_leaves_makes_room(metrics):
    admission = Admission(2, 60, metrics)
    async with admission.admit(request()):
        async with admission.admit(request()):
            busy = await refusal(admission, Busy)
            assert int(busy.headers["Retry-After"]) >= 1
        with pytest.raises(ValueError):
            async with admission.admit(request()):
                raise ValueError("a picture that is none")
        async with admission.admit(request()):
            pass
    assert refused(metrics) == {"busy": 1}


@pytest.mark.anyio
async def test_a_key_is_admitted_while_it_holds_fewer_places_than_are_free(metrics):
    """Of eight, the first takes four, the second two of the four that are left, the third and fourth one."""
    admission = Admission(8, 60, metrics)
    for _ in range(2):  # those that have left are forgotten
        async with AsyncExitStack() as inside:
            for key, many in {"a": 4, "b": 2, "c": 1, "d": 1, "e": 0}.items():
                for _ in range(many):
                    await inside.enter_async_context(admission.admit(request(key=key)))
                busy = await refusal(admission, Busy, key=key)
                assert int(busy.headers["Retry-After"]) >= 1
                if key == "b":
                    assert "2 requests with the API key b are waiting, and 2 places are left" in str(busy)
    assert refused(metrics) == {"share": 2 * 3, "busy": 2 * 2}
    assert not admission._admitted_by_key


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("deadline", "began"),
    [
        pytest.param(0.02, 0.0, id="it takes too long"),
        pytest.param(60.0, 59.99, id="it came long ago"),
        pytest.param(60.0, 100.0, id="its time was over when it was admitted"),
    ],
)
async def test_what_takes_too_long_is_given_up_and_makes_room(metrics, deadline, began):
    admission = Admission(1, deadline, metrics)
    with pytest.raises(DeadlinePassed) as passed:
        async with admission.admit(request(began)):
            await asyncio.sleep(30)
    assert int(passed.value.headers["Retry-After"]) >= 1
    async with admission.admit(request()):
        pass
    assert refused(metrics) == {"deadline": 1}


@pytest.mark.anyio
async def test_work_for_a_caller_who_disconnects_ends(metrics):
    leaves, before = asyncio.Event(), asyncio.all_tasks()
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
    assert refused(metrics) == {"cancelled": 1}
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before  # none is watched any longer


@pytest.mark.anyio
async def test_a_service_that_ends_admits_none_and_hurries_those_inside(metrics):
    admission, now = Admission(4, 60, metrics), asyncio.get_running_loop().time
    came = now()
    async with admission.admit(request()) as slow, admission.admit(request(50)) as soon:
        admission.check_open()
        began = now()
        admission.drain()
        assert began <= slow.scope.deadline - GRACE <= now()
        assert came - 0.01 <= soon.scope.deadline - 10 <= began + 0.01
        draining = await refusal(admission, Draining)
        assert draining.headers["Connection"] == "close"
        with pytest.raises(Draining):
            admission.check_open()
    assert refused(metrics) == {"draining": 1}


# Over HTTP.


def head(size, *more):
    lines = ["POST /v1/diagnoses HTTP/1.1", "Host: localhost", "Content-Type: image/png", *more]
    return "\r\n".join([*lines, f"Content-Length: {size}", "", ""]).encode()


def counted(started, why, headers=None):
    text = started.client.get("/metrics", headers=headers).text
    rows = [one for one in text.splitlines() if f'why="{why}"' in one]
    return sum(float(one.rpartition(" ")[2]) for one in rows if "_created" not in one)


def connected(started):
    return socket.create_connection(("127.0.0.1", started.port), timeout=60)


def test_one_key_that_sends_slowly_does_not_keep_another_out(
    serve, registry, released, picture, problem, bearer
):
    content = picture("PNG")
    secret = registry.create_key("slow")[1]
    slow, other = bearer(secret), bearer(registry.create_key("other")[1])
    with serve(queue=4, deadline_seconds=120) as started, ExitStack() as lines:

        def status(headers):
            return started.diagnose(content, "image/png", headers=headers).status_code

        for headers in (slow, other):  # both are known to the service from here on
            started.eventually(lambda headers=headers: status(headers) == 200)
        for _ in range(6):
            line = lines.enter_context(connected(started))
            line.sendall(head(len(content), f"Authorization: Bearer {secret}") + content[:20])
        # Two are admitted, and what they do not send is waited for; the other four are answered at once.
        started.eventually(lambda: counted(started, "share", other) == 4)
        body = problem(started.diagnose(content, "image/png", headers=slow), 503)
        assert body["type"].endswith(":busy")
        assert [status(other) for _ in range(3)] == [200] * 3
        assert counted(started, "busy", other) == 0


def test_a_body_that_comes_too_slowly_is_given_up(serve, released, picture):
    content = picture("PNG")
    with serve(deadline_seconds=0.3) as started:
        got = started.raw(head(len(content)) + content[:20])
        assert b" 503 " in got.partition(b"\r\n")[0]
        assert json.loads(got.partition(b"\r\n\r\n")[2])["type"].endswith(":deadline")
        started.eventually(lambda: started.diagnose(content, "image/png").status_code == 200)


@pytest.fixture
def slow(monkeypatch):
    """A model that answers when `go` is set; it counts its runs."""
    run, found = Graph.run, SimpleNamespace(go=threading.Event(), begun=threading.Semaphore(0), runs=0)

    def wait(graph, images):
        found.runs += 1
        found.begun.release()
        assert found.go.wait(120)
        return run(graph, images)

    found.attach = lambda: monkeypatch.setattr("registry.bundle.model.Graph.run", wait)
    yield found
    found.go.set()


def test_a_picture_whose_sender_hung_up_is_not_shown_to_the_model(serve, released, picture, slow):
    content = picture("PNG")
    with serve(threads=1, lone_threads=1, queue=3) as started, ThreadPoolExecutor(1) as callers:
        slow.attach()
        asking = callers.submit(started.diagnose, content, "image/png")
        assert slow.begun.acquire(timeout=60)
        for number in range(6):  # more than there are places
            with connected(started) as line:
                line.sendall(head(len(content)) + content)
            started.eventually(lambda number=number: counted(started, "cancelled") > number)
        slow.go.set()
        assert asking.result(60).status_code == 200
        assert slow.runs == 1
        assert started.diagnose(content, "image/png").status_code == 200
        assert slow.runs == 2
