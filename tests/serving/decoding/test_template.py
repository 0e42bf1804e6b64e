"""Workers that are ended, that end, and what is in them; and what one says that has been taken over."""

import contextlib
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from registry.bundle.errors import NotAPicture
from registry.bundle.pictures.rule import PictureRule
from serving.decoding.decoders import ENOUGH, Decoders
from serving.decoding.messages import LONGEST_PACKET, PIXELS, QUESTION, Pixels, Refused
from serving.decoding.template import Decoder, DecoderEnded, Template
from serving.metrics import Metrics
from serving.protocol.problems import NoDecoder, PictureTooCostly
from serving.settings import ServeSettings
from tests.serving.hostile.piece import encoded

RULE = PictureRule(size=16)
SOUND = encoded(Image.new("RGB", (40, 30), (200, 90, 30)), "JPEG")
MEGABYTE = 2**20
ROOT = Path(__file__).parents[3]


def one_worker(template: Any, memory: int = 132 * MEGABYTE) -> Decoders:
    """Decoders of one worker."""
    settings = ServeSettings(threads=1, decode_memory=memory, decode_seconds=60.0)
    return Decoders(settings, Metrics(), template)


@pytest.fixture
def pool(one_template: Any) -> Iterator[Decoders]:
    """Decoders of one worker with little memory."""
    made = one_worker(one_template)
    yield made
    made.close()


def worker(pool: Decoders) -> psutil.Process:
    """The one worker that there is."""
    (decoder,) = pool._decoders
    return psutil.Process(decoder.pid)


def until(process: psutil.Process, *states: str) -> None:
    """Waits until the process is in one of these states."""
    while process.status() not in states:
        os.sched_yield()


def sound(pool: Decoders) -> bool:
    """Whether a sound picture is decoded."""
    found = pool.decode(SOUND, RULE)
    return (found.answer, found.pixels.shape) == (Pixels(width=40, height=30), (16, 16, 3))


def test_a_worker_is_used_again_until_it_has_done_enough(pool):
    assert sound(pool)
    first = worker(pool).pid
    with pytest.raises(NotAPicture):
        pool.decode(b"nothing", RULE)
    assert worker(pool).pid == first
    (decoder,) = pool._decoders
    decoder.questions = ENOUGH
    assert sound(pool)
    assert not pool._decoders


def test_nothing_of_a_picture_stays_in_the_shared_memory(pool):
    assert sound(pool)
    (decoder,) = pool._decoders
    assert not decoder._shared.any()
    assert sound(pool)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_one_that_ended_between_two_pictures_is_replaced(pool, number):
    assert sound(pool)
    ended = worker(pool)
    ended.send_signal(number)
    until(ended, psutil.STATUS_ZOMBIE)
    assert sound(pool)
    assert not ended.is_running()


@pytest.mark.parametrize(
    ("number", "why"),
    [(signal.SIGKILL, "more memory"), (signal.SIGSEGV, "ended the decoder"), (signal.SIGXCPU, "longer than")],
)
def test_one_that_ends_with_a_picture_says_why(pool, number, why):
    assert sound(pool)
    asked = worker(pool)
    asked.suspend()
    until(asked, psutil.STATUS_STOPPED)
    told = pool.submit(lambda decode: decode(SOUND, RULE), "key")
    while not told.running():
        os.sched_yield()
    asked.send_signal(number)
    with contextlib.suppress(psutil.NoSuchProcess):
        asked.resume()
    with pytest.raises(PictureTooCostly, match=why):
        told.result(60)
    assert sound(pool)


def test_closing_a_pool_ends_what_is_in_work_and_refuses_what_waits(pool):
    assert sound(pool)
    asked = worker(pool)
    asked.suspend()
    until(asked, psutil.STATUS_STOPPED)
    told = pool.submit(lambda decode: decode(SOUND, RULE), "key")
    while not told.running():
        os.sched_yield()
    waits = pool.submit(lambda decode: decode(SOUND, RULE), "key")
    pool.close()
    with pytest.raises(PictureTooCostly):
        told.result(60)
    assert not asked.is_running()
    for late in (waits, pool.submit(lambda decode: decode(SOUND, RULE), "key")):
        with pytest.raises(NoDecoder, match="ending"):
            late.result(60)


def test_what_a_terminal_sends_to_all_is_left_to_the_service(pool):
    assert sound(pool)
    before = worker(pool)
    for process in (before, before.parent()):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process.send_signal(number)
    assert sound(pool)
    assert worker(pool).pid == before.pid


@pytest.fixture
def template() -> Iterator[Template]:
    """One of its own."""
    made = Template()
    yield made
    made.close()


def test_a_template_that_ended_is_started_again(template):
    pool = one_worker(template)
    assert sound(pool)
    ended = worker(pool)
    ended.parent().kill()
    psutil.wait_procs([ended], 60)
    assert sound(pool)
    pool.close()


def test_nothing_of_the_service_is_in_them(template, monkeypatch):
    monkeypatch.setenv("DERMFED_REGISTRY_URL", "postgresql://dermfed:secret@db/registry")
    monkeypatch.setenv("DERMFED_STORE", "/srv/secret")
    pool = one_worker(template)
    assert sound(pool)
    decoder = worker(pool)
    for process in (decoder, decoder.parent()):
        assert "secret" not in f"{process.environ()}{process.cmdline()}"
        assert process.environ()["OPENBLAS_NUM_THREADS"] == "1"
    places = {one.readlink().name.partition(":")[0] for one in Path(f"/proc/{decoder.pid}/fd").iterdir()}
    assert places == {"null", "socket"}
    assert "Seccomp:\t2" in Path(f"/proc/{decoder.pid}/status").read_text()
    pool.close()


def test_they_end_with_the_service_however_it_ends():
    program = (
        "import json, sys\n"
        "from serving.decoding.template import Template\n"
        "template = Template()\n"
        "made = [template.fork(2**28, 2**20) for _ in range(3)]\n"
        "print(json.dumps([one.pid for one in made]), flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as service:
        assert service.stdout is not None
        below = [psutil.Process(pid) for pid in json.loads(service.stdout.readline())]
        below.append(below[0].parent())
        service.kill()
    _, left = psutil.wait_procs(below, 60)
    assert not left


class Pretended:
    """A template with one worker, which is a function: it gets the socket."""

    def __init__(self, work: Callable[[socket.socket], None]) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line, self.ended = ours, 0

        def run() -> None:
            with its:
                work(its)

        self._thread = threading.Thread(target=run)
        self._thread.start()
        self.decoder = Decoder(self, None, 0, ours, mmap.mmap(-1, PIXELS))  # type: ignore[arg-type]
        self.decoder._limit = lambda seconds: None  # type: ignore[method-assign]

    def end(self, control: None, pid: int) -> int | None:
        self.ended += 1
        self._line.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        return None


def asked(said: bytes) -> Any:
    """What comes of a worker that says this to the first question."""

    def work(line: socket.socket) -> None:
        question = line.recv(LONGEST_PACKET)
        assert QUESTION.unpack_from(question) == (len(SOUND),)
        if said:
            line.send(said)

    pretended = Pretended(work)
    try:
        return pretended.decoder.ask(SOUND, RULE, 3600.0)
    finally:
        pretended.decoder.close()
        assert pretended.ended == 1


@pytest.mark.parametrize(
    "answer",
    [
        Pixels(width=3, height=2**31),
        Pixels(width=3, height=4, unused_profile="it is damaged", on_its_side=True),
        Refused(error="DamagedPicture", said="ä" * 1000),
        Refused(error="MemoryError", said=""),
    ],
)
def test_an_answer_comes_as_it_was_meant(answer):
    told = asked(answer.model_dump_json().encode())
    assert (told.answer if isinstance(answer, Pixels) else told) == answer


REFUSED = {"error": "NotAPicture", "said": ""}


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\0",
        b"\x80\x04N.",
        b"{}",
        b'{"width": 3, "height": 4, "unused_profile": "' + b"t" * LONGEST_PACKET + b'"}',
        *(
            json.dumps(answer).encode()
            for answer in (
                {"width": 0, "height": 1},
                {"width": "3", "height": 1},
                {"width": 2**40, "height": 1},
                {"width": 3, "height": 1, "more": 1},
                {"width": 3, "height": 1, **REFUSED},
                {"error": "SystemExit", "said": ""},
                {"error": "NotAPicture", "said": "t" * 1001},
                {"error": "NotAPicture", "said": None},
                {"error": "NotAPicture", "said": {"text": ""}},
            )
        ),
    ],
)
def test_whatever_else_is_said_ends_it(said):
    with pytest.raises(DecoderEnded, match="crash"):
        asked(said)


def test_one_that_speaks_unasked_is_not_asked():
    begun, over = threading.Event(), threading.Event()

    def work(line: socket.socket) -> None:
        line.send(b"x")
        begun.set()
        over.wait(60)

    pretended = Pretended(work)
    assert begun.wait(60)
    assert not pretended.decoder.lives
    over.set()
    pretended.decoder.close()


def test_one_that_does_not_answer_is_ended_by_the_clock():
    pretended = Pretended(lambda line: line.recv(1) and line.recv(1))
    with pytest.raises(DecoderEnded, match="time"):
        pretended.decoder.ask(SOUND, RULE, 0.02)
    assert pretended.ended == 1
    pretended.decoder.close()
