"""Runs of `training/run.py` as processes of their own, and what they leave behind, as digests."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from safetensors import safe_open

REPOSITORY = Path(__file__).parents[1]

# Every training stage and everything that is released: some twenty seconds of work, start-up included.
JOB: Mapping[str, Any] = {
    "name": "small",
    "seed": 5,
    "data": {
        "adapter": "synthetic",
        "options": {"pictures": 300, "size": 32},
        "label_map": "malignancy",
        "image_size": 32,
        "subgroups": {
            "scale": "fitzpatrick",
            "groups": {"light": ["1", "2", "3"], "dark": ["4", "5", "6"]},
        },
        "clients": {"by": "subgroup"},
    },
    "model": {"name": "resnet18", "options": {"channels": [8, 16, 32, 64]}},
    "engine": {"workers": 1, "threads_per_client": 1, "device": "cpu"},
    "privacy": {"min_count": 3},
    "stages": [
        {
            "stage": "federate",
            "rounds": 4,
            "objective": {
                "name": "supervised",
                "batch_size": 16,
                "optimizer": {"name": "adam", "lr": 1e-3},
                "augment": {"rotation": 30, "brightness": 0.1},
            },
            "aggregator": {"name": "fedauto"},
        },
        {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 2}},
        {"stage": "export"},
        {"stage": "calibrate"},
    ],
}


def write_job(folder: Path, job: Mapping[str, Any] = JOB) -> Path:
    """A job as a file."""
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(dict(job), sort_keys=False))
    return path


def start_run(job: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """Start `python training/run.py`; the run draws and decodes its own pictures, beside its folder."""
    command = [sys.executable, "training/run.py", str(job), "--out", str(out), *options]
    environment = {**os.environ, "DERMFED_CACHE": str(out.with_suffix(".cache"))}
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(run: subprocess.Popen[str]) -> None:
    """Wait for a run to end.

    Raises:
        SystemExit: when it fails, with what it said.
    """
    _, errors = run.communicate()
    if run.returncode:
        raise SystemExit(f"the run ended with exit code {run.returncode}:\n{errors}")


def digests(out: Path) -> dict[str, str]:
    """What a finished run left, each as a digest.

    `weights` is of the models after every stage, name by name and byte by byte. `bundles` is of the released
    files as they are. `log` and `summary` are of the figures without the seconds they took.
    """
    log = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((out / "summary.json").read_text())
    return {
        "weights": digest(stage_tensors(out)),
        "bundles": digest(files(out / "bundles")),
        "log": digest([as_bytes(log)]),
        "summary": digest([as_bytes(summary)]),
    }


def stage_tensors(out: Path) -> Iterable[bytes]:
    """Names and bytes of all tensors that the stages left, in order."""
    for path in sorted(out.glob("checkpoints/*/outcome.safetensors")):
        yield path.parent.name.encode()
        with safe_open(path, framework="numpy") as file:
            for name in sorted(file.keys()):
                yield name.encode()
                yield file.get_tensor(name).tobytes()


def files(folder: Path) -> Iterable[bytes]:
    """Names and contents of all files in a folder, in order."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield str(path.relative_to(folder)).encode()
        yield path.read_bytes()


def as_bytes(value: object) -> bytes:
    """JSON without any `seconds`."""
    return json.dumps(without_seconds(value), sort_keys=True).encode()


def without_seconds(value: Any) -> Any:
    """The same value without entries called `seconds`, at any depth."""
    if isinstance(value, dict):
        return {key: without_seconds(inner) for key, inner in value.items() if key != "seconds"}
    if isinstance(value, list):
        return [without_seconds(inner) for inner in value]
    return value


def digest(parts: Iterable[bytes]) -> str:
    """One word for a sequence of bytes; where one part ends matters."""
    total = hashlib.sha256()
    count = 0
    for part in parts:
        total.update(hashlib.sha256(part).digest())
        count += 1
    if not count:
        raise SystemExit("a run left nothing to compare")
    return total.hexdigest()[:16]
