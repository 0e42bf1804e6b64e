"""What somebody may try who has taken over a worker: `python attacks.py FILE MODE` tells it, as JSON.

The modes are `free`, of a process that nothing is taken from; `limits`, where there is no filter of system
calls; and `filter`, what a worker has.
"""

import ctypes
import json
import mmap
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from serving.decoding.confine import build_filter, confine
from serving.decoding.worker import LINE

libc = ctypes.CDLL(None, use_errno=True)
secret = sys.argv[1]


def read_file() -> None:
    os.close(os.open(secret, os.O_RDONLY))


def write_file() -> None:
    with Path(secret + ".new").open("w") as file:
        file.write("mine")


def open_socket() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()


def make_pair() -> None:
    socket.socketpair()


def fork() -> None:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def execute() -> None:
    os.execv("/bin/true", ["true"])


def signal_others() -> None:
    os.kill(os.getppid(), 0)


def write_elsewhere() -> None:
    os.write(1, b"")


def trace() -> None:
    if libc.ptrace(0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def run_what_was_written() -> None:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


def take_memory() -> None:
    mmap.mmap(-1, 2**33).close()


def raise_limits() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE))


def start_thread() -> None:
    """No attack: decoders have threads."""
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


TRIED: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        read_file, write_file, open_socket, make_pair, fork, execute, signal_others, write_elsewhere, trace,
        run_what_was_written, take_memory, raise_limits, start_thread,
    )
}  # fmt: skip


def outcome(attack: Callable[[], None], mode: str) -> str:
    """How it went: `done`, the exception, or the signal that ended the process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, LINE)
        if mode != "free":
            confine(256 * 2**20, build_filter(LINE) if mode == "filter" else None)
        try:
            attack()
            told = "done"
        except BaseException as error:  # noqa: BLE001 - all of them are told
            told = type(error).__name__
        os.write(LINE, told.encode())
        os._exit(0)
    os.close(writing)
    told = os.read(reading, 100).decode()
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return told or "done"  # another program has taken its place


if __name__ == "__main__":
    print(json.dumps({name: outcome(attack, sys.argv[2]) for name, attack in TRIED.items()}))
