"""Workers that are ended, that end, and what is in them; and what one says that has been taken over."""

import contextlib
import json
import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from registry.bundle.errors import NotAPicture
from serving.decoding.decoders import ENOUGH
from serving.decoding.messages import LONGEST_PACKET, PIXELS, QUESTION, Pixels, Refused
from serving.decoding.template import Decoder, DecoderEnded, Template
from serving.protocol.problems import NoDecoder, PictureTooCostly
from tests.serving.decoding.conftest import MEGABYTE, RULE, SOUND, sound
from tests.serving.hostile.archived import archived
from tests.serving.hostile.corpus import corpus

ROOT = Path(__file__).parents[3]
LITTLE = {"decode_memory": 132 * MEGABYTE}


@pytest.fixture
def pool(decoders):
    """Decoders of one worker with little memory."""
    return decoders(**LITTLE)


@pytest.fixture(scope="module")
def template():
    """One of its own, of a service with secrets."""
    made = Template()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERMFED_REGISTRY_URL", "postgresql://dermfed:secret@db/registry")
        patch.setenv("DERMFED_STORE", "/srv/secret")
        yield made
    made.close()


def worker(pool):
    """The one worker that there is."""
    (decoder,) = pool._decoders
    return psutil.Process(decoder.pid)


def wait_for(process, status):
    while process.status() != status:
        os.sched_yield()


def submit(pool):
    return pool.submit(lambda decode: decode(SOUND, RULE), "key")


def suspended(pool):
    """The one worker, suspended with a picture, and the future of that."""
    assert sound(pool)
    (decoder,) = pool._decoders
    asked, before = psutil.Process(decoder.pid), decoder.questions
    asked.suspend()
    wait_for(asked, psutil.STATUS_STOPPED)
    decoding = submit(pool)
    while decoder.questions == before:  # one that ends before is replaced, and says nothing
        os.sched_yield()
    return asked, decoding


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
    wait_for(ended, psutil.STATUS_ZOMBIE)
    assert sound(pool)
    assert not ended.is_running()


@pytest.mark.parametrize(
    ("number", "why"),
    [(signal.SIGKILL, "more memory"), (signal.SIGSEGV, "ended the decoder"), (signal.SIGXCPU, "longer than")],
)
def test_one_that_ends_with_a_picture_says_why(pool, number, why):
    asked, decoding = suspended(pool)
    asked.send_signal(number)
    with contextlib.suppress(psutil.NoSuchProcess):
        asked.resume()
    with pytest.raises(PictureTooCostly, match=why):
        decoding.result(60)
    assert sound(pool)


def test_closing_a_pool_ends_what_is_in_work_and_refuses_what_waits(pool):
    asked, decoding = suspended(pool)
    waits = submit(pool)
    pool.close()
    with pytest.raises(PictureTooCostly):
        decoding.result(60)
    assert not asked.is_running()
    for late in (waits, submit(pool)):
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


def test_a_template_that_ended_is_started_again(decoders, template):
    pool = decoders(template=template, **LITTLE)
    assert sound(pool)
    ended = worker(pool)
    ended.parent().kill()
    psutil.wait_procs([ended], 60)
    assert sound(pool)
    pool.close()


def test_nothing_of_the_service_is_in_them(decoders, template):
    pool = decoders(template=template, **LITTLE)
    assert sound(pool)
    decoder = worker(pool)
    for process in (decoder, decoder.parent()):
        assert "secret" not in f"{process.environ()}{process.cmdline()}"
        assert process.environ()["OPENBLAS_NUM_THREADS"] == "1"
    places = {one.readlink().name.partition(":")[0] for one in Path(f"/proc/{decoder.pid}/fd").iterdir()}
    assert places == {"null", "socket"}
    assert "Seccomp:\t2" in Path(f"/proc/{decoder.pid}/status").read_text()
    pool.close()


THREE = """
import json, sys
from serving.decoding.template import Template
template = Template()
made = [template.fork(2**28, 2**20) for _ in range(3)]
print(json.dumps([one.pid for one in made]), flush=True)
sys.stdin.read()
"""


def test_they_end_with_the_service_however_it_ends():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", THREE], **pipes, env=environment) as service:
        below = [psutil.Process(pid) for pid in json.loads(service.stdout.readline())]
        below.append(below[0].parent())
        service.kill()
    _, left = psutil.wait_procs(below, 60)
    assert not left


IMPORTS = """
import pickle, sys
from serving.decoding import worker
from registry.bundle.pictures.rule import PictureRule
rule = PictureRule(size=16).model_dump_json().encode()
contents = pickle.load(sys.stdin.buffer)
worker._warm_up()
before = set(sys.modules)
for content in contents:
    shared = worker.np.zeros(worker.PIXELS, worker.np.uint8)
    shared[: len(content)] = worker.np.frombuffer(content, worker.np.uint8)
    worker.decode(worker.QUESTION.pack(len(content), 0) + rule, shared)
print(sorted(set(sys.modules) - before))
"""


def test_a_worker_that_can_open_no_file_has_nothing_left_to_import():
    contents = [*(one.content for one in corpus()[::20]), *archived()]
    command, environment = [sys.executable, "-c", IMPORTS], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, input=pickle.dumps(contents), capture_output=True, env=environment, check=True
    )
    assert done.stdout.decode().strip() == "[]"


# What a worker says that has been taken over


class Pretended:
    """A template with one worker, which is a function: it gets the socket."""

    def __init__(self, work):
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line, self.ended = ours, 0

        def run():
            with its:
                work(its)

        self._thread = threading.Thread(target=run)
        self._thread.start()
        self.decoder = Decoder(self, None, 0, ours, mmap.mmap(-1, PIXELS))
        self.decoder._limit = lambda seconds: None

    def end(self, control, pid):
        self.ended += 1
        self._line.shutdown(socket.SHUT_RDWR)
        self._thread.join()


def asked(said):
    """What comes of a worker that says this to the first question."""

    def work(line):
        question = line.recv(LONGEST_PACKET)
        assert QUESTION.unpack_from(question) == (len(SOUND), 0)
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
    found = asked(answer.model_dump_json().encode())
    assert (found.answer if isinstance(answer, Pixels) else found) == answer


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

    def work(line):
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
