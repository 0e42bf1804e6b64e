"""A worker: decodes one picture after the other that it is sent, and can do nothing else."""

import mmap
import os
import socket
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import PictureError
from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import (
    PictureRule,
    decode_opened,
    lies_on_its_side,
    refuse_too_large,
    unused_profile,
)
from serving.decoding.confine import close_others, confine, die_with_parent
from serving.decoding.wire import (
    LONGEST,
    SHARED,
    Answer,
    Pixels,
    Question,
    Refused,
    RefusedAs,
    answer_bytes,
    read_question,
)

LINE: Final = 3
"""The descriptor of the socket to the service, in every worker."""


def work(line: int, shared: int, memory: int, rules: Any, parent: int) -> None:
    """Answers questions until nobody asks any more.

    Args:
        line: descriptor of the socket to the service.
        shared: descriptor of the memory that pixels are put into.
        memory: bytes that decoding may take.
        rules: a filter of system calls, or None.
        parent: the id of the process that this one was forked from.
    """
    die_with_parent(parent)
    pixels = np.frombuffer(mmap.mmap(shared, SHARED, mmap.MAP_SHARED), np.uint8)
    os.dup2(line, LINE)
    close_others(LINE + 1)
    with socket.socket(fileno=LINE) as asked:
        confine(memory, rules)
        while (question := _next(asked, pixels)) is not None:
            answer = decode(question, pixels)
            del question
            asked.sendall(answer_bytes(answer))


def _next(asked: socket.socket, shared: NDArray[np.uint8]) -> Question | None:
    def read(length: int) -> bytes:
        content = bytearray(length)
        view, got = memoryview(content), 0
        while got < length:
            more = asked.recv_into(view[got:])
            if not more:
                raise EOFError
            got += more
        return bytes(content)

    try:
        return read_question(read, shared)
    except (EOFError, ConnectionError):
        return None


def decode(question: Question, pixels: NDArray[np.uint8]) -> Answer:
    """Decodes the picture of a question.

    Args:
        question: the picture and its rule.
        pixels: where its pixels are put, `(n,)` bytes.
    """
    try:
        return _decode(question, pixels)
    except PictureError as error:
        return Refused(error=_known(error), said=str(error)[:LONGEST])
    except MemoryError:
        return Refused(error="MemoryError", said="")


def _known(error: PictureError) -> RefusedAs:
    """The name of the error, or of the nearest above it that the service knows."""
    names: tuple[RefusedAs, ...] = get_args(RefusedAs)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    # From the most particular one on: a truncated picture is a damaged one too.
    return next((name for name in reversed(names) if name in kinds), "DamagedPicture")


def _decode(question: Question, pixels: NDArray[np.uint8]) -> Answer:
    rule = PictureRule.model_validate_json(question.rule)
    image = open_picture(question.content)
    width, height = image.size  # before the decoder scales down
    refuse_too_large(width, height, rule)
    not_used = unused_profile(image)
    decoded = decode_opened(image, rule)
    pixels[: decoded.size] = decoded.reshape(-1)
    why = None if not_used is None else not_used[:LONGEST]
    on_its_side = lies_on_its_side(image)
    return Pixels(width=width, height=height, unused_profile=why, on_its_side=on_its_side)
