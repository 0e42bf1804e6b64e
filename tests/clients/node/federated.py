"""A federation of real processes whose hospitals misbehave when they are told to, by a file in `deeds`."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from safetensors.torch import load_file

from benchmarks.loopback.federated import ADMIN, ROOT, Federated

HOSPITALS = ("north", "south", "east", "west")
DEEDS = Path(__file__).parent / "deeds"
MASKS = {"min_count": 1, "secure_aggregation": {"fewest": 3}}


class Misbehaving(Federated):
    """See `deeds/sitecustomize.py` for what may be asked of a hospital."""

    def __init__(self, folder):
        super().__init__(folder, {name: 26 + 3 * number for number, name in enumerate(HOSPITALS)})
        self.deeds = folder / "deeds"
        self.deeds.mkdir()
        self.environment |= {
            "PYTHONPATH": os.pathsep.join(map(str, (DEEDS, ROOT))),
            "DERMFED_TEST_DEEDS": str(self.deeds),
        }

    def run(self, job, out, *options):
        return subprocess.run(
            [sys.executable, "training/run.py", str(job), "--out", str(out), *options],
            env=self.environment,
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
        out = self.folder / "there" / job["name"]
        return self.run(path, out, "--engine", "nvflare", "--kit", str(self.kits / ADMIN), *options), out


def data_of(names=HOSPITALS):
    """The `data` block of a job of these hospitals' pictures."""
    return {
        "manifest": [f"{name}.csv" for name in names],
        "label_map": "malignancy",
        "image_size": 16,
        "clients": {"by": "manifest"},
    }


def start_another(net, kit, data):
    """A node of another kit beside those of a federation, which whoever asks for it ends."""
    command = [sys.executable, "-m", "clients.node.cli", "start", "--kit", str(kit), "--data", str(data)]
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return subprocess.Popen(command, env=net.environment, cwd=ROOT, **quiet)


@contextmanager
def running(folder):
    """A server and four hospitals that run."""
    made = Misbehaving(folder)
    made.start_all()
    try:
        yield made
    finally:
        made.stop()


def weights(folder):
    return {
        (path.parent.name, name): tensor.numpy().tobytes()
        for path in sorted((folder / "checkpoints").glob("*/outcome.safetensors"))
        for name, tensor in load_file(path).items()
    }


def alike(line):
    """A round's line without its seconds, and without its bytes: over a network counts are under masks."""
    return {name: value for name, value in line.items() if name != "seconds" and "bytes" not in name}
