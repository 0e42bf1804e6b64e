"""Memory of the coordinator's own code against the number of hospitals, without FLARE's.

The coordinator is a process of its own and does what it does inside FLARE's job (`CoordinatorSession`:
registration, engine, acknowledged rounds). Its channels lead through sockets to one other process in which
all hospitals' request handlers are. Every hospital's answer is held back until the last one has trained, so
that all arrive at once, which is the worst case. Updates beyond `--in-memory` wait on disk.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import typer
from hospitals import draw, environment, write_job
from job_processes import PEAK, told_by_kernel
from rich.console import Console

from benchmarks.loopback.permissive import permissive
from clients.node.chunk_receiver import ChunkReceiver
from clients.node.request_handler import RequestHandler
from training.engines.flare.calls import AT_ONCE, ChunkedTransfer, Heartbeat
from training.engines.flare.engine import NvflareEngine
from training.engines.flare.session import CoordinatorSession
from training.engines.flare.wire import Payload
from training.jobs.job import Job, read_job
from training.jobs.run_folder import RunFolder
from training.rounds.requests import FIT

MIB = 1 << 20
SILENCE = 600  # seconds
SIZE, PICTURES = 32, 16  # pixels; pictures of each hospital
MODEL = {"name": "resnet18", "options": {"channels": [32, 64, 128, 256]}}
OBJECTIVE = {"samples": 2, "batch_size": 2, "optimizer": {"name": "sgd", "lr": 1e-3, "momentum": 0.0}}


class SocketChannel:
    """A channel to a request handler in another process; implements `Channel` and `ChunkChannel`."""

    def __init__(self, name: str, address: str, folder: Path, in_flight: threading.BoundedSemaphore) -> None:
        self._name = name
        self._address = address
        self._transfer = ChunkedTransfer(name, self, folder, SILENCE, in_flight)

    def handshake(self, handshake: str, seconds: float) -> str:
        """See `Channel`."""
        return str(self._call("handshake", handshake))

    def register(self, seconds: float) -> str:
        """See `Channel`."""
        return str(self._call("register"))

    def join(self, roster: str, seconds: float) -> str:
        """See `Channel`."""
        return str(self._call("join", roster))

    def ask(
        self, header: str, body: Payload, seconds: float, alive: Callable[[], None]
    ) -> tuple[str, Payload]:
        """See `Channel`."""
        return self._transfer.ask(header, body, seconds, alive)

    def put(self, place: str, piece: bytes, seconds: float) -> int:
        """See `ChunkChannel`."""
        return int(self._call("put", place, piece))

    def fetch(self, place: str, seconds: float) -> bytes:
        """See `ChunkChannel`."""
        return bytes(self._call("fetch", place))

    def answer(self, header: str, body: bytes, size: int, seconds: float) -> tuple[str, bytes, int]:
        """See `ChunkChannel`."""
        head, first, whole = self._call("answer", header, body, size)
        return head, first, whole

    def ping(self, seconds: float) -> Heartbeat:
        """See `Channel`."""
        return Heartbeat(busy=True)

    def _call(self, method: str, *arguments: object) -> Any:
        with Client(self._address, family="AF_UNIX") as connection:
            connection.send((self._name, method, arguments))
            return connection.recv()


class HospitalProcess:
    """All hospitals in one process, one after another, their answers to a training all at once."""

    def __init__(self, job: Job, manifests: dict[str, Path], folder: Path) -> None:
        self._one = threading.Lock()
        self._all = threading.Barrier(len(manifests))
        self._there = {name: self._receiver(name, job, path, folder) for name, path in manifests.items()}

    @staticmethod
    def _receiver(name: str, job: Job, manifest: Path, folder: Path) -> ChunkReceiver:
        states = folder / name
        states.mkdir(parents=True)
        handler = RequestHandler(
            name,
            job,
            manifest,
            cache=folder / "cache",
            states=states,
            say=lambda _: None,
            guard=permissive(folder),
        )
        return ChunkReceiver(handler, states)

    def serve(self, connection: Connection) -> None:
        """Answer one call."""
        with connection:
            name, method, arguments = connection.recv()
            connection.send(self._call(self._there[name], method, *arguments))

    def _call(self, receiver: ChunkReceiver, method: str, *arguments: Any) -> Any:
        if method in ("put", "fetch"):
            return getattr(receiver, method)(*arguments)
        asked = receiver if method == "answer" else receiver.handler
        with self._one:
            answer = getattr(asked, method)(*arguments)
        if method == "answer" and json.loads(arguments[0])["ask"] == FIT:
            self._all.wait()
        return answer

    @contextmanager
    def listening(self, address: str) -> Iterator[None]:
        """Take calls while it lasts."""
        listener = Listener(address, family="AF_UNIX", backlog=256)

        def listen() -> None:
            while True:
                connection = listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()
        yield
        listener.close()


def measure(count: int, rounds: int, in_memory: float, folder: Path) -> dict[str, int]:
    """The coordinator's memory with so many hospitals, in bytes: after the imports, and at its peak."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:  # hospitals' memory ends with it
        return apart.submit(with_hospitals, count, rounds, in_memory, folder).result()


def with_hospitals(count: int, rounds: int, in_memory: float, folder: Path) -> dict[str, int]:
    """`measure` in the process that has the hospitals."""
    names = [f"hospital-{number:02d}" for number in range(count)]
    manifests = {name: draw(folder, name, PICTURES, SIZE, seed) for seed, name in enumerate(names)}
    job_file = write_job(
        folder,
        list(manifests.values()),
        size=SIZE,
        model=MODEL,
        objective=OBJECTIVE,
        rounds=rounds,
        engine={"network": {"heartbeat_timeout": SILENCE}},
    )
    address = str(folder / "socket")
    with HospitalProcess(read_job(job_file), manifests, folder / "hospitals").listening(address):
        command = [sys.executable, __file__, "--alone", str(job_file), "--socket", address]
        command += ["--out", str(folder / "out"), "--in-memory", str(in_memory), *names]
        settings = {**environment(), "MALLOC_ARENA_MAX": "4"}  # as `dermfed-node start` has it
        ended = subprocess.run(command, env=settings, check=True, capture_output=True, text=True)
    answer: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    return answer


def coordinate(job: Job, names: Sequence[str], address: str, out: Path, in_memory: float) -> dict[str, int]:
    """The coordinator, in this process."""
    imported = told_by_kernel("self", PEAK)
    out.mkdir(parents=True)
    in_flight = threading.BoundedSemaphore(AT_ONCE)
    channels = {name: SocketChannel(name, address, RunFolder(out).spool, in_flight) for name in names}
    defaults = NvflareEngine.__init__.__kwdefaults__
    with patch.dict(defaults, memory=int(in_memory * MIB)):
        result = CoordinatorSession(job, "one", channels, RunFolder(out), Console(quiet=True)).run(names)
    sent = result.summary["stages"][0]["bytes_up"]
    return {"imported": imported, "peak": told_by_kernel("self", PEAK), "sent": sent}


def main(
    names: Annotated[list[str], typer.Argument(help="The hospitals.")],
    alone: Annotated[Path, typer.Option(help="The job.")],
    socket: Annotated[str, typer.Option(help="Where the hospitals listen.")],
    out: Annotated[Path, typer.Option(help="The run's folder.")],
    in_memory: Annotated[float, typer.Option(help="MiB of updates that may wait in memory.")],
) -> None:
    """Be the coordinator of `measure`, which starts this process."""
    print(json.dumps(coordinate(read_job(alone), names, socket, out, in_memory)))


if __name__ == "__main__":
    typer.run(main)
