"""The process that workers are forked from: everything they need is imported, and no secret is in it.

It has a socket to the service, on which it is told to fork a worker or to end one, and ends when that is
closed. Signals that a terminal or a system sends to all processes of the service are left to the service: a
worker that ended while it drains would lose its picture.

A worker that ended stays a zombie until the service asks for it, so that its number is given to no other
process while the service still means the worker.
"""

import gc
import os
import signal
import socket
import struct
import sys
import warnings
from contextlib import suppress
from typing import Any, Final

import numpy as np

from registry.bundle.errors import PictureError
from registry.bundle.pictures.rule import PictureRule
from serving.decoding.samples import samples
from serving.decoding.system_calls import NoFilterError, build_filter
from serving.decoding.wire import SHARED, Question
from serving.decoding.worker import LINE, decode, work

FORK: Final = struct.Struct("<4sQ")
"""`fork` and the bytes of memory that decoding may take, with two descriptors: a socket and memory."""

END: Final = struct.Struct("<4si")
"""`end ` and the id of a worker."""

TOLD: Final = struct.Struct("<i")
"""The id of a worker, or an error as a negative number; or how a worker ended, as of `waitpid`."""

LONGEST: Final = 1024


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
        control.send(b"here" + missing.encode()[: LONGEST - 4])
        workers: set[int] = set()
        with suppress(ConnectionError):
            while _serve(control, rules, workers):
                pass
    for pid in workers:
        os.kill(pid, signal.SIGKILL)


def _serve(control: socket.socket, rules: Any, workers: set[int]) -> bool:
    """Does what it is told next; whether there was something."""
    message, descriptors, _, _ = socket.recv_fds(control, LONGEST, 2)
    if not message:
        return False
    if len(message) == FORK.size:
        _, memory = FORK.unpack(message)
        told = _fork(control, descriptors, memory, rules)
        if told > 0:
            workers.add(told)
    else:
        _, pid = END.unpack(message)
        workers.remove(pid)
        os.kill(pid, signal.SIGKILL)  # no harm to one that has ended
        _, told = os.waitpid(pid, 0)
    for descriptor in descriptors:
        os.close(descriptor)
    control.send(TOLD.pack(told))
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
    _, told = os.waitpid(pid, 0)
    return (
        (rules, "") if told == 0 else (None, "this system does not let processes filter their system calls")
    )


def _warm_up() -> None:
    """Decodes pictures of every kind: a worker, which can open no file, has nothing left to import."""
    rule = PictureRule(size=8).model_dump_json().encode()
    pixels = np.zeros(SHARED, np.uint8)
    for content in samples():
        with suppress(PictureError):
            decode(Question(rule, content), pixels)
    for name in ("ascii", "cp1252", "idna", "latin-1", "utf-16", "utf-32", "utf-8-sig"):
        b"".decode(name)
