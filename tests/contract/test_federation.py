"""Node and coordinator are killed and started again: the weights are those of one process.

Everything is done by the commands of docs/federation.md and docs/hospital.md. Weights are equal only where
no hospital withholds anything: the policies here allow counts of one patient. By default a hospital leaves
out subgroups and classes of fewer than ten patients, which one process with all manifests would train on.
"""

import csv
import os
import signal
import socket
import subprocess
import sysconfig
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import yaml

from .weights import digest, final_weights

pytestmark = pytest.mark.long

SCRIPTS = Path(sysconfig.get_path("scripts"))
ROOT = Path(__file__).parents[2]
HOSPITALS = {"north": 34, "south": 24, "east": 28}  # pictures of each
ROUNDS = 16
PATIENCE = 400  # seconds, on a machine that does much else
POLICY = {"privacy": {"min_count": 1, "masked_counts": False, "fewest": 2}}
JOB = {
    "name": "contract",
    "seed": 3,
    "data": {
        "manifest": [f"{name}.csv" for name in HOSPITALS],
        "label_map": "malignancy",
        "image_size": 16,
        "clients": {"by": "manifest"},
        "split": {"train": 0.5, "validation": 0.2, "calibration": 0.1, "test": 0.2},
    },
    "model": {"name": "resnet18", "weights": "none", "options": {"channels": [4, 8, 16, 32]}},
    "engine": {"threads_per_client": 1, "device": "cpu", "network": {"heartbeat_timeout": 5}},
    "privacy": {"min_count": 1, "counts": {"masks": False}},
    "stages": [
        {
            "stage": "federate",
            "rounds": ROUNDS,
            "objective": {
                "name": "supervised",
                "batch_size": 8,
                "optimizer": {"name": "adam", "lr": 1e-3, "state": "keep"},
            },
            "sync": {"name": "except", "groups": ["norm"]},
            "aggregator": {"name": "fedauto"},
        }
    ],
}


class Machines:
    """The processes of a federation, each started by its owner's command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        cache = {"DERMFED_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
        others = {key: value for key, value in os.environ.items() if not key.startswith("DERMFED_")}
        self.environment = {**others, **cache}

    def call(self, command: str, *arguments: object) -> None:
        """Run a command to its end, which has to be a good one."""
        ended = subprocess.run(
            [SCRIPTS / command, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]

    def start(self, name: str, command: str, *arguments: object) -> subprocess.Popen[bytes]:
        """Start a command under a name; what it says is added to `NAME.txt`."""
        with (self.folder / f"{name}.txt").open("ab") as said:
            self.running[name] = subprocess.Popen(
                [SCRIPTS / command, *map(str, arguments)],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        return self.running[name]

    def start_node(self, name: str) -> None:
        """Start a hospital's node, or the coordinator."""
        data = () if name == "server" else ("--data", f"{name}.csv")
        self.start(name, "dermfed-node", "start", "--kit", f"kits/{name}", *data)

    def kill(self, name: str) -> None:
        """End a command and all that it started, as a power cut does."""
        eldest = psutil.Process(self.running[name].pid)
        family = [eldest, *eldest.children(recursive=True)]
        for process in family:
            process.kill()
        psutil.wait_procs(family, timeout=30)
        self.running.pop(name).wait()

    def stop(self) -> None:
        """Stop all as Ctrl-C would, and whatever does not obey."""
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in list(self.running.items()):
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill(name)

    def last_words(self) -> str:
        """What each said at last, for a failure's message."""
        return "\n".join(f"{path.name}: {path.read_text()[-600:]}" for path in self.folder.glob("*.txt"))


@contextmanager
def machines(folder: Path):
    """Machines that are stopped at the end, whatever comes."""
    made = Machines(folder)
    try:
        yield made
    finally:
        made.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_until(condition, net: Machines, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}\n{net.last_words()}"
        time.sleep(0.1)


def draw_pictures(net: Machines) -> None:
    """Give each hospital pictures, lesions and patients of its own."""
    for seed, (name, pictures) in enumerate(HOSPITALS.items(), start=1):
        drawn = ("--pictures", pictures, "--size", 32, "--seed", seed)
        net.call("dermfed-data", "synth", "--out", f"{name}-pictures", *drawn)
        with (net.folder / f"{name}-pictures" / "manifest.csv").open() as file:
            rows = list(csv.DictReader(file))
        with (net.folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            table.writerows({**row, "image": f"{name}-pictures/{row['image']}"} for row in rows)


def provision(net: Machines) -> None:
    """Make the kits, and let each hospital allow a job of few patients."""
    federation = {
        "name": "skin",
        "coordinator": {"host": "localhost", "port": free_port(), "also": ["127.0.0.1"]},
        "hospitals": [{"name": name} for name in HOSPITALS],
    }
    (net.folder / "federation.yaml").write_text(yaml.safe_dump(federation))
    net.call("dermfed-node", "provision", "federation.yaml", "--out", "kits")
    for name in HOSPITALS:
        (net.folder / "kits" / name / "policy.yaml").write_text(yaml.safe_dump(POLICY))


def test_killed_and_started_again_it_ends_with_the_weights_of_one_process(tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB, sort_keys=False))
    with machines(tmp_path) as net:
        draw_pictures(net)
        provision(net)
        for name in ("server", *HOSPITALS):
            net.start_node(name)
        there = ("--engine", "nvflare", "--kit", "kits/admin", "--out", "there")
        run = net.start("run", "dermfed-train", "job.yaml", *there)
        log = tmp_path / "there" / "metrics.jsonl"

        def rounds() -> int:
            assert run.poll() in (None, 0), net.last_words()
            return len(log.read_text().splitlines()) if log.is_file() else 0

        for name, after in (("north", 2), ("server", 6)):
            wait_until(lambda after=after: rounds() >= after, net, f"round {after}")
            assert rounds() < ROUNDS, "nothing was under way any more"
            net.kill(name)
            net.start_node(name)
        wait_until(lambda: run.poll() is not None, net, "the end of the run")
        assert run.returncode == 0, net.last_words()
        net.running.pop("run")
        assert rounds() == ROUNDS
        net.call("dermfed-train", "job.yaml", "--out", "here")
        [far] = (tmp_path / "kits" / "server" / "private" / "runs").glob("contract-*")
        ours, theirs = final_weights(tmp_path / "here"), final_weights(far)
        assert len(ours) > 100
        assert digest(ours) == digest(theirs)
