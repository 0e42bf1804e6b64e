"""What a picture that took over a worker may try: `python attacks.py FILE MODE` prints it, as JSON.

The modes are `free`, of a process that nothing is taken from; `limits`, where there is no filter of system
calls; and `filter`, what a worker has.
"""

import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving.decoding.confine import build_filter, confine
from serving.decoding.worker import LINE

libc = ctypes.CDLL(None, use_errno=True)
secret = sys.argv[1]


def write_file() -> None:
    Path(secret + ".new").write_text("mine")


def fork() -> None:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def trace() -> None:
    if libc.ptrace(0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def start_thread() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


READ_WRITE_EXECUTE = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
CORE = resource.getrlimit(resource.RLIMIT_CORE)
TRIED: dict[str, Callable[[], Any]] = {
    "read_file": lambda: os.close(os.open(secret, os.O_RDONLY)),
    "write_file": write_file,
    "open_socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
    "make_pair": socket.socketpair,
    "fork": fork,
    "execute": lambda: os.execv("/bin/true", ["true"]),
    "signal_others": lambda: os.kill(os.getppid(), 0),
    "write_elsewhere": lambda: os.write(1, b""),
    "trace": trace,
    "run_what_was_written": lambda: mmap.mmap(-1, 4096, prot=READ_WRITE_EXECUTE).close(),
    "take_memory": lambda: mmap.mmap(-1, 2**33).close(),
    "raise_limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, CORE),
    "start_thread": start_thread,  # no attack: decoders have threads
}


def outcome(attack: Callable[[], Any], mode: str) -> str:
    """How it went: `done`, the exception, or the signal that ended the process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, LINE)
        if mode != "free":
            confine(256 * 2**20, build_filter(LINE) if mode == "filter" else None)
        try:
            attack()
            how = "done"
        except BaseException as error:  # noqa: BLE001 - all of them are outcomes
            how = type(error).__name__
        os.write(LINE, how.encode())
        os._exit(0)
    os.close(writing)
    how = os.read(reading, 100).decode()
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return how or "done"  # another program has taken its place


if __name__ == "__main__":
    print(json.dumps({name: outcome(attack, sys.argv[2]) for name, attack in TRIED.items()}))
