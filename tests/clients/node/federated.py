"""A federation of real processes on this machine: kits, certificates, a server and four hospitals."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from safetensors.torch import load_file

from clients.data.adapters.table import make_adapter
from clients.data.manifest import Manifest, Row
from clients.data.manifest_csv import write_manifest
from clients.federation.federation_file import Federation
from clients.federation.kit import open_kit
from clients.federation.link import Link
from clients.federation.provision import provision

HOSPITALS = ("north", "south", "east", "west")
ROOT = Path(__file__).parents[3]
DEEDS = Path(__file__).parent / "deeds"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def manifest(folder, name, pictures):
    made = make_adapter("synthetic", {"pictures": pictures, "size": 32, "seed": pictures}).manifest(
        folder / name
    )
    rows = [
        Row(
            str(made.folder / row.image),
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
    """A federation of processes on this machine."""

    def __init__(self, folder):
        self.folder = folder
        self.nodes = {}
        self.deeds = folder / "deeds"
        self.deeds.mkdir()
        self.env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (DEEDS, ROOT))),
            "DERMFED_CACHE": str(folder / "cache"),
            "DERMFED_TEST_DEEDS": str(self.deeds),
        }
        federation = {
            "name": "skin",
            "coordinator": {"host": "localhost", "port": free_port(), "also": ["127.0.0.1"]},
            "hospitals": [{"name": name} for name in HOSPITALS],
        }
        for number, name in enumerate(HOSPITALS):
            manifest(folder, name, 26 + 3 * number)
        provision(Federation.model_validate(federation), folder, folder / "kits")
        self.federation = federation

    def start(self, name, kit=None):
        data = [] if name == "server" else ["--data", str(self.folder / f"{name}.csv")]
        self.nodes[name] = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "clients.node.cli",
                "start",
                "--kit",
                str(kit or self.folder / "kits" / name),
                *data,
            ],
            env=self.env,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self):
        for process in self.nodes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.nodes.values():
            process.wait(60)

    def link(self):
        return Link(open_kit(self.folder / "kits" / "admin", "admin"))

    def run(self, job, out, *options):
        return subprocess.run(
            [sys.executable, "training/run.py", str(job), "--out", str(out), *options],
            env=self.env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )

    def there(self, job, *options):
        """A job at the hospitals; options as of the command."""
        path = self.folder / f"{job['name']}.json"
        path.write_text(json.dumps(job))
        kit = str(self.folder / "kits" / "admin")
        out = self.folder / "there" / job["name"]
        return self.run(path, out, "--engine", "nvflare", "--kit", kit, *options), out

    def results(self, run):
        [folder] = (self.folder / "kits" / "server" / "private" / "runs").glob(f"{run}-*")
        return folder


def weights(folder):
    return {
        (path.parent.name, name): tensor.numpy().tobytes()
        for path in sorted((folder / "checkpoints").glob("*/outcome.safetensors"))
        for name, tensor in load_file(path).items()
    }
