"""Workers that are ended, that end, and that outlive nobody; and what is in them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from registry.bundle.errors import NotAPicture
from registry.bundle.pictures.rule import PictureRule
from serving.decoding.decoders import ENOUGH, Decoders
from serving.decoding.forking import Template
from serving.metrics.metrics import Metrics
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
    return psutil.Process(decoder._forked.pid)


def until(process: psutil.Process, *states: str) -> None:
    """Waits until the process is in one of these states."""
    while process.status() not in states:
        os.sched_yield()


def sound(pool: Decoders) -> bool:
    """Whether a sound picture is decoded."""
    found = pool.decode(SOUND, RULE)
    return (found.width, found.height, found.pixels.shape) == (40, 30, (16, 16, 3))


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
    assert not any(decoder._forked.pixels[: 2**20])
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
        "from serving.decoding.forking import Template\n"
        "template = Template()\n"
        "print(json.dumps([template.fork(2**28).pid for _ in range(3)]), flush=True)\n"
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
