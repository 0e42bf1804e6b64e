"""The processes next to the service: a template, and the workers that are forked from it.

The template has everything imported that workers need, and no secret in it. It has a socket to the service,
on which it is asked to fork a worker or to end one, and ends when that is closed. Signals that a terminal or
a system sends to all processes of the service are left to the service: a worker that ended while it drains
would lose its picture. A worker that ended stays a zombie until the service asks for it, so that its number
is given to no other process while the service still means the worker.

A worker decodes one picture after the other that it is sent, and can do nothing else.
"""

import gc
import importlib
import io
import mmap
import os
import signal
import socket
import struct
import sys
import warnings
from contextlib import suppress
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

from registry.bundle.errors import PictureError
from registry.bundle.pictures.rule import PictureRule
from serving.decoding.confine import NoFilterError, build_filter, close_others, confine, die_with_parent
from serving.decoding.messages import (
    LONGEST,
    LONGEST_PACKET,
    PIXELS,
    QUESTION,
    Pixels,
    Refused,
    RefusedAs,
    decode_here,
)

LINE: Final = 3
"""The descriptor of the socket to the service, in every worker."""

REQUEST: Final = struct.Struct("<q")
"""The bytes of memory that decoding may take in a new worker, sent with its socket and its shared memory; or
the negative id of a worker that is to end."""

REPLY: Final = struct.Struct("<i")
"""The id of a worker, or an error as a negative number; or how a worker ended, as of `waitpid`."""

_LATE: Final = ("PIL.ImageOps", "PIL.features", "pi_heif.as_plugin", "pydicom.pixels")
"""What decoders import when they first need it; pi_heif and pydicom need not be there."""


def main() -> None:
    """Serves the socket whose descriptor is the first argument, until it is closed."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    with socket.socket(fileno=int(sys.argv[1])) as control:
        _warm_up()
        rules, missing = _filter()
        gc.collect()
        gc.freeze()
        control.send(b"here" + missing.encode()[:LONGEST])
        workers: set[int] = set()
        with suppress(ConnectionError):
            while _serve(control, rules, workers):
                pass
    for pid in workers:
        os.kill(pid, signal.SIGKILL)


def _serve(control: socket.socket, rules: Any, workers: set[int]) -> bool:
    """Does what it is asked next; whether there was something."""
    message, descriptors, _, _ = socket.recv_fds(control, REQUEST.size, 2)
    if not message:
        return False
    (asked,) = REQUEST.unpack(message)
    if asked > 0:
        reply = _fork(control, descriptors, asked, rules)
        if reply > 0:
            workers.add(reply)
    else:
        workers.remove(-asked)
        os.kill(-asked, signal.SIGKILL)  # no harm to one that has ended
        _, reply = os.waitpid(-asked, 0)
    for descriptor in descriptors:
        os.close(descriptor)
    control.send(REPLY.pack(reply))
    return True


def _fork(control: socket.socket, descriptors: list[int], memory: int, rules: Any) -> int:
    template = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        return -(error.errno or 1)
    if pid == 0:
        try:
            control.detach()  # a worker closes what it does not need by number
            line, shared = descriptors
            work(line, shared, memory, rules, template)
        finally:
            os._exit(1)
    return pid


def _filter() -> tuple[Any, str]:
    """The filter of system calls, and what is missing where there is none."""
    try:
        rules = build_filter(LINE)
    except NoFilterError as error:
        return None, str(error)
    pid = os.fork()
    if pid == 0:
        code = 1
        with suppress(Exception):
            rules.load()
            code = 0
        os._exit(code)
    if os.waitpid(pid, 0)[1] != 0:
        return None, "this system does not let processes filter their system calls"
    return rules, ""


def work(line: int, shared: int, memory: int, rules: Any, parent: int) -> None:
    """Answers requests until the service closes the socket.

    Args:
        line: descriptor of the socket to the service.
        shared: descriptor of the memory that pictures and pixels are put into.
        memory: bytes that decoding may take.
        rules: a filter of system calls, or None.
        parent: the id of the process that this one was forked from.
    """
    die_with_parent(parent)
    pixels = np.frombuffer(mmap.mmap(shared, 0, mmap.MAP_SHARED), np.uint8)
    os.dup2(line, LINE)
    close_others(LINE + 1)
    with socket.socket(fileno=LINE) as asked:
        confine(memory, rules)
        while question := asked.recv(LONGEST_PACKET):
            asked.send(decode(question, pixels).model_dump_json().encode())


def decode(question: bytes, shared: NDArray[np.uint8]) -> Pixels | Refused:
    """Decodes the picture of a question, which lies in the shared memory, and puts its pixels there."""
    length, frame = QUESTION.unpack_from(question)
    rule = PictureRule.model_validate_json(question[QUESTION.size :])
    try:
        found = decode_here(shared[:length].tobytes(), rule, frame or None)
    except PictureError as error:
        return Refused(error=_known(error), said=str(error)[:LONGEST])
    except MemoryError:
        return Refused(error="MemoryError", said="")
    shared[: found.pixels.size] = found.pixels.reshape(-1)
    return found.answer


def _known(error: PictureError) -> RefusedAs:
    """The name of the error, or of the nearest above it that the service knows."""
    names: tuple[RefusedAs, ...] = get_args(RefusedAs)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    # From the most particular one on: a truncated picture is a damaged one too.
    return next((name for name in reversed(names) if name in kinds), "DamagedPicture")


def _warm_up() -> None:
    """Imports all that decoding imports when it first needs it: a worker can open no file."""
    Image.init()
    for name in _LATE:
        with suppress(ImportError):
            importlib.import_module(name)
    for name in ("ascii", "cp1252", "idna", "latin-1", "utf-16", "utf-32", "utf-8-sig"):
        b"".decode(name)
    # And computes what is computed once: colours that have to be converted take longest.
    rule = PictureRule(size=8).model_dump_json().encode()
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    profile = profile.replace(b"rXYZ", b"....").replace(b"bXYZ", b"rXYZ").replace(b"....", b"bXYZ")
    for form in ("JPEG", "PNG", "WEBP", "AVIF"):
        file = io.BytesIO()
        Image.new("RGB", (20, 20), "red").save(file, form, icc_profile=profile)
        shared = np.frombuffer(file.getvalue(), np.uint8).copy()
        shared.resize(PIXELS)
        decode(QUESTION.pack(file.tell(), 0) + rule, shared)
