"""A server and hospitals with kits, each behind a cable of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

from benchmarks.loopback.permissive import permissive
from clients.data.adapters.table import make_adapter
from clients.data.manifests.csv_file import write_manifest
from clients.data.manifests.manifest import Manifest, Row
from clients.federation.admin_client import AdminClient
from clients.federation.kit import Federation, open_kit
from clients.federation.provision import provision

from .cable import Cable
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
