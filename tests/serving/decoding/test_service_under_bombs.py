"""A service that gets pictures which cost a lot: others are answered meanwhile, and it goes on."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from serving.decoding import decoded as in_process
from serving.decoding.decoders import Decoders
from serving.inference import costly_line
from tests.serving.hostile.costly import dicom_scan_bomb, memory_bomb, scan_bomb
from tests.serving.hostile.piece import encoded, pixels

BIG = memory_bomb(3900)


@pytest.fixture
def held(monkeypatch) -> tuple[threading.Semaphore, threading.Event]:
    """Decoding in the costly lane counts in the first, and waits for the second."""
    begun, go_on = threading.Semaphore(0), threading.Event()
    decode = Decoders.decode

    def wait(self: Decoders, content: bytes, rule: object, *, costly: bool = False) -> object:
        if costly:
            begun.release()
            assert go_on.wait(60)
        return decode(self, content, rule, costly=costly)  # type: ignore[arg-type]

    monkeypatch.setattr(Decoders, "decode", wait)
    return begun, go_on


@pytest.fixture
def one_thread(places, registry, promote, bundle, serve) -> Callable[..., object]:
    """A service with one thread."""
    promote(registry, bundle())
    return lambda **settings: serve(**{"threads": 1, "requests_per_minute": 0, **settings})


def test_others_are_answered_while_a_costly_picture_is_decoded(one_thread, held):
    begun, go_on = held
    with one_thread() as service, ThreadPoolExecutor() as asking:
        costly = asking.submit(service.diagnose, BIG, "image/webp")
        assert begun.acquire(timeout=60)
        for _ in range(3):
            assert service.diagnose().status_code == 200
        assert not costly.done()
        go_on.set()
        assert costly.result().status_code == 200


def test_few_costly_pictures_may_wait(one_thread, held, problem, monkeypatch):
    monkeypatch.setattr(costly_line, "MAX_COSTLY", 2)
    begun, go_on = held
    with one_thread() as service, ThreadPoolExecutor(4) as asking:
        first = asking.submit(service.diagnose, BIG, "image/webp")
        assert begun.acquire(timeout=60)
        waiting = [asking.submit(service.diagnose, BIG, "image/webp") for _ in range(2)]
        service.eventually(lambda: "dermfed_waiting 2.0" in service.client.get("/metrics").text)
        refused = service.diagnose(BIG, "image/webp")
        assert refused.headers["retry-after"] == "5"
        assert "long to decode" in problem(refused, 503)["detail"]
        assert service.diagnose().status_code == 200
        go_on.set()
        assert {one.result().status_code for one in (first, *waiting)} == {200}


def test_a_costly_picture_that_was_given_up_is_not_decoded(one_thread, held):
    begun, go_on = held
    with one_thread(deadline_seconds=1.0) as service, ThreadPoolExecutor() as asking:
        both = [asking.submit(service.diagnose, BIG, "image/webp") for _ in range(2)]
        assert {one.result().status_code for one in both} == {503}
        go_on.set()
        assert service.diagnose().status_code == 200
    assert begun.acquire(blocking=False)
    assert not begun.acquire(blocking=False)


def test_bombs_are_refused_and_told(one_thread, problem):
    with one_thread(decode_memory=400 * 2**20) as service:
        for bomb, kind in ((scan_bomb(), "image/jpeg"), (dicom_scan_bomb(), "application/dicom")):
            assert "scans" in problem(service.diagnose(bomb, kind), 400)["detail"]
        told = problem(service.diagnose(memory_bomb(), "image/webp"), 413)
        assert told["type"] == "urn:dermfed:problem:too-costly"
        assert "send a smaller copy" in told["detail"].lower()
        assert service.diagnose().status_code == 200


def test_nothing_is_decoded_by_the_service_itself(one_thread, monkeypatch):
    def never(*arguments: object) -> None:
        raise AssertionError("decoded in the service's own process")

    monkeypatch.setattr(in_process, "decode_opened", never)
    monkeypatch.setattr(in_process, "open_picture", never)
    with one_thread() as service:
        for form in ("JPEG", "PNG", "WEBP"):
            assert service.diagnose(encoded(pixels(), form), f"image/{form.lower()}").status_code == 200
