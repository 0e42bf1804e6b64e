"""A server and hospitals with kits, each behind a cable of its own."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

from clients.data.adapters.table import make_adapter
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import write_manifest
from clients.federation.admin_client import AdminClient
from clients.federation.kit import Federation, open_kit
from clients.federation.provision import provision

from .permissive import permissive
from .processes import family, kill

ROOT = Path(__file__).parents[2]
SERVER, ADMIN = "server", "admin"
ENDS_IN = 60  # seconds that a node may take to stop


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def drawn(folder: Path, name: str, pictures: int, size: int) -> None:
    """A hospital's manifest of drawn pictures, with lesions and patients of its own."""
    adapter = make_adapter("synthetic", {"pictures": pictures, "size": size, "seed": pictures})
    made = adapter.manifest(folder / name)
    rows = [
        Row(
            str(Path(made.folder) / row.image),
            row.label,
            row.skin_tone,
            row.skin_tone_scale,
            f"{name} {row.lesion_id}",
            f"{name} {row.patient_id}",
        )
        for row in made.rows
    ]
    write_manifest(Manifest.of(rows, folder), folder / f"{name}.csv")


CHUNK = 1 << 16
UP, DOWN = "up", "down"


class Cable:
    """Carries bytes between whoever connects to `port` and the port `to`, as long as it is not disturbed.

    Args:
        to: the coordinator's port.

    Attributes:
        port: where the node connects to.
        refused: how often somebody tried while it was cut.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._loop = asyncio.new_event_loop()
        self._refuses = False
        self._through: dict[str, asyncio.Event] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused = 0
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name=f"cable-{to}")
        self._thread.start()
        self.port: int = self._do(self._open())

    def drop(self) -> None:
        """Break all connections; new ones are taken."""
        self._do(self._break())

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self._refuses = True
        self.drop()

    def stall(self, *ways: str) -> None:
        """Let nothing through any more, in one direction or in both, with connections as they are."""
        self._do(self._hold(ways or (UP, DOWN)))

    def mend(self) -> None:
        """Be an ordinary cable again; what was held back arrives."""
        self._refuses = False
        self._do(self._let_go())

    def close(self) -> None:
        """Break everything and end."""
        self.cut()
        self._do(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _open(self) -> int:
        self._through = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        await self._let_go()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _shut(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _break(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _hold(self, ways: tuple[str, ...]) -> None:
        for way in ways:
            self._through[way].clear()

    async def _let_go(self) -> None:
        for event in self._through.values():
            event.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            self.refused += 1
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._writers |= ends
        ways = [
            asyncio.create_task(self._carry(reader, far_writer, UP)),
            asyncio.create_task(self._carry(far_reader, writer, DOWN)),
        ]
        self._tasks |= set(ways)
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ways:
                task.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in ends:
                end.transport.abort()
            self._writers -= ends
            self._tasks -= set(ways)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await self._through[way].wait()
                writer.write(chunk)
                await writer.drain()


class Federated:
    """A federation of processes on this machine.

    Args:
        folder: where kits, pictures and runs go.
        pictures: how many each hospital has, in client order.
        size: of a picture, in pixels.
        cables: whether each hospital, and whoever sends jobs, reaches the coordinator by a cable that can
            be cut.
        environment: further variables of all processes.

    Attributes:
        cables: by kit.
        nodes: the processes by kit; of `admin` it is `run.py`.
        said: what `run.py` said, and when.
    """

    def __init__(
        self,
        folder: Path,
        pictures: Mapping[str, int],
        *,
        size: int = 32,
        cables: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.hospitals = tuple(pictures)
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.cables: dict[str, Cable] = {}
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DERMFED_CACHE": str(folder / "cache"),
            **(environment or {}),
        }
        self.said: list[tuple[float, str]] = []
        self._sent: tuple[Path, Path] | None = None
        self.port = free_port()
        self.federation = {
            "name": "skin",
            "coordinator": {"host": "localhost", "port": self.port, "also": ["127.0.0.1"]},
            "hospitals": [{"name": name} for name in self.hospitals],
        }
        for name, number in pictures.items():
            drawn(folder, name, number, size)
        provision(Federation.model_validate(self.federation), folder, self.kits)
        for name in self.hospitals:
            permissive(self.kits / name)
        if cables:
            for name in (*self.hospitals, ADMIN):
                self.cables[name] = Cable(self.port)
                self._plug_in(name)

    @property
    def kits(self) -> Path:
        """The folder of all kits."""
        return self.folder / "kits"

    def _plug_in(self, name: str) -> None:
        """Let a kit name its cable's port instead of the coordinator's."""
        for file in (self.kits / name / "startup").glob("fed_*.json"):
            content = json.loads(file.read_text())
            text = json.dumps(content).replace(str(self.port), str(self.cables[name].port))
            file.write_text(text)

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a node with the command that its owner uses, and options of that."""
        data = [] if name == SERVER else ["--data", str(self.folder / f"{name}.csv")]
        command = [sys.executable, "-m", "clients.node.cli", "start", "--kit", str(self.kits / name)]
        self.nodes[name] = subprocess.Popen(
            [*command, *data, *options],
            env=self.environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self.nodes[name]

    def start_all(self) -> None:
        """Start the server and every hospital."""
        for name in (SERVER, *self.hospitals):
            self.start(name)

    def kill(self, name: str) -> None:
        """Let a machine lose its power."""
        kill(family(self.nodes[name].pid))
        self.nodes[name].wait()

    def stop(self) -> None:
        """Stop every node as its owner does, and take the cables away."""
        for process in self.nodes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.nodes.values():
            process.wait(ENDS_IN)
        for cable in self.cables.values():
            cable.close()

    def link(self) -> AdminClient:
        """A link as `run.py` has it."""
        return AdminClient(open_kit(self.kits / ADMIN, ADMIN))

    def send(self, job: Path, out: Path, *options: str) -> None:
        """Start `run.py` with a job; what it says is in `said`."""
        self._sent = (job, out)
        there = ("--engine", "nvflare", "--kit", str(self.kits / ADMIN))
        process = subprocess.Popen(
            [sys.executable, "training/run.py", str(job), "--out", str(out), *there, *options],
            env=self.environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.nodes[ADMIN] = process
        Thread(target=self._listen, args=(process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            for line in stream:
                self.said.append((monotonic(), line.decode(errors="replace").rstrip()))

    def resume(self) -> None:
        """Start `run.py` again with the job that it was started with."""
        assert self._sent is not None
        self.send(*self._sent, "--resume")

    def metrics_log(self, run: str) -> list[dict[str, Any]]:
        """The rounds of a job's run that are done, as the coordinator keeps them."""
        lines = []
        for path in (self.kits / SERVER / "private" / "runs").glob(f"{run}-*/metrics.jsonl"):
            for line in path.read_text().splitlines():
                with suppress(json.JSONDecodeError):  # it is being written
                    lines.append(json.loads(line))
        return lines

    def results(self, run: str) -> Path:
        """The folder at the coordinator of the one run of a job."""
        [folder] = (self.kits / SERVER / "private" / "runs").glob(f"{run}-*")
        return folder
