"""What a worker says that has been taken over: it is read strictly, and is no answer where it is none."""

import json
import mmap
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from serving.decoding.decoder import Decoder, DecoderEnded
from serving.decoding.forking import Forked
from serving.decoding.wire import (
    LONGEST_ANSWER,
    SHARED,
    Pixels,
    Question,
    Refused,
    answer_bytes,
    read_question,
)

QUESTION = Question(b"{}", b"picture")


@pytest.fixture(autouse=True)
def no_limits(monkeypatch):
    """What is asked is this very process."""
    monkeypatch.setattr(Decoder, "_cap", lambda self, seconds: None)


class Pretended:
    """A template whose workers are a function: it gets the socket."""

    def __init__(self, work: Callable[[socket.socket], None]) -> None:
        self._work = work
        self.ended = 0

    def fork(self, memory: int) -> Forked:
        ours, its = socket.socketpair()

        def run() -> None:
            with its:
                self._work(its)

        self._thread = threading.Thread(target=run)
        self._thread.start()
        return Forked(threading.get_native_id(), ours, mmap.mmap(-1, SHARED), 1)

    def end(self, worker: Forked) -> int | None:
        self.ended += 1
        worker.line.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        return None


def hear(line: socket.socket) -> None:
    """Reads the question."""
    read_question(lambda length: line.recv(length, socket.MSG_WAITALL), np.zeros(SHARED, np.uint8))


def asked(said: bytes) -> Any:
    """What comes of a worker that says this to the first question."""

    def work(line: socket.socket) -> None:
        hear(line)
        line.sendall(said)

    pretended = Pretended(work)
    decoder = Decoder(pretended, 2**20)  # type: ignore[arg-type]
    try:
        return decoder.ask(QUESTION, 3600.0)
    finally:
        decoder.close()
        assert pretended.ended == 1


def told(**answer: Any) -> bytes:
    text = json.dumps(answer).encode()
    return struct.pack("<I", len(text)) + text


@pytest.mark.parametrize(
    "answer",
    [
        Pixels(width=3, height=2**31),
        Pixels(width=3, height=4, unused_profile="it is damaged"),
        Refused(error="DamagedPicture", said="ä" * 1000),
        Refused(error="MemoryError", said=""),
    ],
)
def test_an_answer_comes_as_it_was_meant(answer):
    assert asked(answer_bytes(answer)) == answer


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\0",
        struct.pack("<I", 0),
        struct.pack("<I", 100) + b"{}",
        struct.pack("<I", LONGEST_ANSWER + 1) + bytes(LONGEST_ANSWER + 1),
        struct.pack("<I", 2**32 - 1),
        struct.pack("<I", 4) + b"\x80\x04N.",
        told(),
        told(answer="other"),
        told(answer="pixels", width=0, height=1),
        told(answer="pixels", width="3", height=1),
        told(answer="pixels", width=2**40, height=1),
        told(answer="pixels", width=3, height=1, more=1),
        told(answer="refused", error="SystemExit", said=""),
        told(answer="refused", error="NotAPicture", said="t" * 1001),
        told(answer="refused", error="NotAPicture", said=None),
        told(
            answer="refused",
            error="NotAPicture",
            said={"text": "", "values": {f"v{n}": {"text": ""} for n in range(11)}},
        ),
    ],
)
def test_whatever_else_is_said_ends_it(said):
    with pytest.raises(DecoderEnded):
        asked(said)


def test_one_that_speaks_unasked_is_not_asked():
    begun = threading.Event()

    def work(line: socket.socket) -> None:
        line.sendall(b"x")
        begun.set()
        line.recv(1)

    decoder = Decoder(Pretended(work), 2**20)  # type: ignore[arg-type]
    assert begun.wait(60)
    assert not decoder.lives
    decoder.close()


def test_one_that_answers_a_byte_at_a_time_has_no_more_time_for_it(monkeypatch):
    """Each byte comes once its time was looked at: bytes that come together are read together."""
    said = iter(answer_bytes(Refused(error="NotAPicture", said="t" * 900)))
    looked = threading.Semaphore(1)

    def work(line: socket.socket) -> None:
        hear(line)
        for number in said:
            looked.acquire(timeout=60)
            try:
                line.sendall(bytes([number]))
            except OSError:
                return

    decoder = Decoder(Pretended(work), 2**20)  # type: ignore[arg-type]
    looks, look, end = iter(range(10**6)), decoder._look, decoder._end

    def look_and_let_another_come() -> None:
        look()
        looked.release()

    def let_the_rest_come_and_end() -> None:
        looked.release(2000)
        end()

    monkeypatch.setattr(decoder, "_used", lambda: next(looks) / 10)
    monkeypatch.setattr(decoder, "_look", look_and_let_another_come)
    monkeypatch.setattr(decoder, "_end", let_the_rest_come_and_end)
    with pytest.raises(DecoderEnded, match="time"):
        decoder.ask(QUESTION, 3.0)
    decoder.close()
