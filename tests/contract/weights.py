"""Small jobs of every family of algorithms, and what identifies the weights that each ends with.

Weights are those of the safetensors files that docs/jobs.md and docs/personalization.md name:
`checkpoints/<stage>/outcome.safetensors` of every stage, and the models of single clients in `personal/`.

`weights.yaml` holds two things of each job:

- a digest of all bytes. It is of one kind of processor, and is compared where `probe()` gives the stored
  value.
- how many numbers there are, and the norm and the mean of a few tensors. These are compared everywhere,
  within `TOLERANCE`.

`python -m tests.contract.weights` makes the file anew, which needs a reason in the commit.
`python -m tests.contract.weights --compare` prints how far this processor is from it, job by job; so the
tolerance was found, under the settings that `python -m tests.processors` prints.
"""

import csv
import hashlib
import math
import os
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml
from safetensors.torch import load_file

from dermfed import commands

STORED = Path(__file__).with_suffix(".yaml")
# Some ten times the largest distance that was found with vector instructions, 2e-5. Without any, first steps
# of Adam flip where a gradient is next to nothing: 2e-3 in group-dro, 5e-4 in fedavg, 3e-4 in two more.
TOLERANCE = 2e-4
TENSORS = 4  # of each job, of which norm and mean are stored

SUPERVISED = {"name": "supervised", "batch_size": 8, "optimizer": {"name": "adam", "lr": 1e-3}}
VIT = {
    "name": "vit_tiny_patch16_224",
    "weights": "none",
    "options": {"img_size": 16, "patch_size": 4, "depth": 1, "embed_dim": 16, "num_heads": 2},
}
WITHOUT_STATISTICS = {
    "name": "resnet18",
    "weights": "none",
    "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"},
}
BASE: dict[str, Any] = {
    "seed": 3,
    "data": {
        "adapter": "synthetic",
        "options": {"pictures": 72, "size": 32, "seed": 1},
        "label_map": "malignancy",
        "image_size": 16,
        "subgroups": {"scale": "fitzpatrick", "groups": {"light": ["1", "2", "3"], "dark": ["4", "5", "6"]}},
        "clients": {"by": "iid", "count": 3},
        "split": {"train": 0.5, "validation": 0.2, "calibration": 0.1, "test": 0.2},
    },
    "model": {"name": "resnet18", "weights": "none", "options": {"channels": [4, 8, 16, 32]}},
    "engine": {"workers": 1, "threads_per_client": 1, "device": "cpu"},
    "privacy": {"min_count": 2},
}


def _federate(aggregator: str = "fedavg", **changes: Any) -> dict[str, Any]:
    return {
        "stage": "federate",
        "rounds": 2,
        "objective": SUPERVISED,
        "aggregator": {"name": aggregator},
        **changes,
    }


# By name: what each changes of `BASE`. A block of `data`, `engine` or `privacy` adds to that of the base.
JOBS: Mapping[str, dict[str, Any]] = {
    "fedavg": {"data": {"clients": {"by": "subgroup"}}, "stages": [_federate()]},
    "fedauto": {"stages": [_federate("fedauto", participation=0.7)]},
    "group-dro": {"stages": [_federate("group-dro", rounds=3)]},
    "fedprox": {
        "data": {"clients": {"by": "dirichlet", "count": 3, "alpha": 2.0}},
        "stages": [
            _federate(
                "fedequal",
                objective={
                    "name": "supervised",
                    "batch_size": 8,
                    "epochs": 2,
                    "mu": 0.1,
                    "sampling": "class-balanced",
                    "optimizer": {"name": "sgd", "lr": 0.02, "momentum": 0.9, "state": "keep"},
                    "schedule": {"name": "cosine"},
                },
                sync={"name": "except", "groups": ["norm"]},
            )
        ],
    },
    "fedclf": {
        "data": {"label_fraction": 0.5},
        "stages": [
            {
                "stage": "pretrain",
                "rounds": 2,
                "objective": {
                    "name": "moco",
                    "queue": 16,
                    "batch_size": 8,
                    "optimizer": {"name": "sgd", "lr": 0.03, "momentum": 0.9, "state": "keep"},
                },
                "exchange": {"name": "features"},
                "aggregator": {"name": "fedavg"},
            },
            _federate(rounds=1),
        ],
    },
    "fedmae": {
        "model": VIT,
        "stages": [
            {
                "stage": "pretrain",
                "rounds": 2,
                "objective": {
                    "name": "mae",
                    "decoder_width": 8,
                    "decoder_depth": 1,
                    "decoder_heads": 2,
                    "batch_size": 8,
                    "optimizer": {"name": "adamw", "lr": 1e-3, "state": "keep"},
                },
                "sync": {"name": "except", "groups": ["class_token"]},
                "aggregator": {"name": "fedavg"},
            }
        ],
    },
    "fedperl": {
        "data": {"label_fraction": 0.4, "clients": {"by": "iid", "count": 4}},
        "stages": [
            _federate(
                "fedequal",
                rounds=3,
                participation=0.75,
                objective={
                    "name": "fixmatch",
                    "batch_size": 4,
                    "samples": 8,
                    "threshold": 0.1,
                    "optimizer": {"name": "adam", "lr": 1e-3},
                },
                exchange={"name": "peers", "warm_up": 1},
            )
        ],
    },
    "fedirm": {
        "data": {"label_fraction": 0.5},
        "model": {
            "name": "resnet18",
            "weights": "none",
            "options": {"channels": [4, 8, 16, 32], "drop_rate": 0.2},
        },
        "stages": [
            _federate(
                "fedequal",
                objective={
                    "name": "fedirm",
                    "batch_size": 4,
                    "samples": 8,
                    "passes": 2,
                    "min_confidence": 0.1,
                    "optimizer": {"name": "adam", "lr": 1e-3},
                },
                exchange={"name": "relations"},
            )
        ],
    },
    "masked": {"privacy": {"secure_aggregation": {"fewest": 3}}, "stages": [_federate()]},
    "compressed": {
        "compression": {"up": "8-bit", "down": "half", "exact_below": 64},
        "stages": [_federate()],
    },
    # Of small noise, since that follows from no seed: no digest, and what counts is how updates are clipped.
    "clipped": {
        "model": WITHOUT_STATISTICS,
        "privacy": {"client_level": {"clip": 0.01, "noise_multiplier": 1e-4}},
        "stages": [_federate("fedequal")],
    },
    "lora": {
        "model": VIT,
        "stages": [
            {
                "stage": "pretrain",
                "rounds": 1,
                "objective": {"name": "rotation", "batch_size": 8, "optimizer": {"name": "adam", "lr": 1e-3}},
                "aggregator": {"name": "fedavg"},
            },
            _federate(trainable={"name": "lora", "rank": 2, "alpha": 2}),
        ],
    },
    "cases": {
        "data": {"adapter": None, "options": None, "manifest": "drawn/cases.csv", "unit": "lesion"},
        "stages": [_federate()],
    },
    "personalized": {
        "data": {"clients": {"by": "subgroup"}},
        "stages": [
            _federate(rounds=1),
            {
                "stage": "personalize",
                "strategy": {
                    "name": "ditto",
                    "epochs": 2,
                    "pull": 0.1,
                    "objective": {
                        "name": "supervised",
                        "batch_size": 8,
                        "optimizer": {"name": "adam", "lr": 0.01},
                    },
                },
                "selection": {"band": 1.0, "rule": "paper", "proof": None},
            },
        ],
    },
}
NOISY = frozenset({"clipped"})  # with noise from the operating system
DRAWN_PICTURES = ("--out", "drawn", "--pictures", 72, "--size", 32, "--seed", 1)  # of the job `cases`


def job(name: str) -> dict[str, Any]:
    """A job of `JOBS`, whole."""
    whole = {"name": name, **deepcopy(BASE)}
    for block, value in JOBS[name].items():
        adds = block in ("data", "engine", "privacy")
        whole[block] = {**whole[block], **value} if adds else deepcopy(value)
    whole["data"] = {key: value for key, value in whole["data"].items() if value is not None}
    return whole


def write_cases(synthesized: Path) -> None:
    """Make cases of two pictures and three facts out of what `dermfed-data synth` drew."""
    with (synthesized / "manifest.csv").open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (row["label"], row["skin_tone"], row["image"]))
    pairs = [pair for pair in zip(rows[::2], rows[1::2], strict=True) if pair[0]["label"] == pair[1]["label"]]
    with (synthesized / "cases.csv").open("w", newline="") as file:
        facts = {"image_kind": "", "age": "", "sex": "", "site": ""}
        table = csv.DictWriter(file, [*rows[0].keys() - facts.keys(), *facts])
        table.writeheader()
        for place, pair in enumerate(pairs):
            shared = {key: pair[0][key] for key in ("lesion_id", "patient_id", "skin_tone")}
            facts = {"age": str(30 + place), "sex": ("female", "male", "")[place % 3], "site": "trunk"}
            for row, kind in zip(pair, ("close-up", "dermoscopic"), strict=True):
                table.writerow({**row, **shared, **facts, "image_kind": kind})


def final_weights(run: Path) -> dict[str, torch.Tensor]:
    """The weights that a run ended with, by stage, file and name."""
    found = {}
    folder = run / "checkpoints"
    for path in sorted((*folder.glob("*/outcome.safetensors"), *folder.glob("*/personal/*.safetensors"))):
        for name, tensor in load_file(path).items():
            if name.startswith("test/"):
                continue  # counts of answers, beside the weights
            found[f"{path.relative_to(folder).with_suffix('')} {name}"] = tensor
    return found


def digest(weights: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 of all names, kinds, shapes and bytes."""
    found = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


def summary(weights: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """How many numbers there are, and norm and mean of matrices and kernels, evenly among all.

    Statistics of batches of few pictures, and biases before them, differ from processor to processor by
    hundred times as much.
    """
    larger = sorted(name for name, each in weights.items() if each.dim() > 1)
    step = max(len(larger) // TENSORS, 1)
    return {
        "numbers": sum(tensor.numel() for tensor in weights.values()),
        "tensors": {
            name: [weights[name].double().norm().item(), weights[name].double().mean().item()]
            for name in larger[::-1][::step][:TENSORS]
        },
    }


def distance(weights: Mapping[str, torch.Tensor], stored: Mapping[str, Any]) -> float:
    """How far the norms and means are from the stored ones, at most, beside the norm or the root mean square.

    A mean may be next to zero where its terms are not, so that it is not compared with itself.
    """
    apart = [0.0]
    for name, (norm, mean) in stored["tensors"].items():
        tensor = weights[name].double()
        size = norm or 1.0  # of a tensor that is all zero
        apart.append(abs(tensor.norm().item() - norm) / size)
        apart.append(abs(tensor.mean().item() - mean) / (size / math.sqrt(tensor.numel())))
    return max(apart)


def probe() -> str:
    """Identify this processor's arithmetic by the bytes of a convolution, a product and an exponential.

    They are of random numbers, with their gradients, on one thread, in shapes such as the jobs have.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        draw = torch.Generator().manual_seed(0)
        pictures = torch.randn(8, 3, 16, 16, generator=draw)
        found = hashlib.sha256()
        for channels, size in ((4, 7), (32, 3)):
            kernel = torch.randn(channels, 3, size, size, generator=draw).requires_grad_()
            maps = torch.nn.functional.conv2d(pictures, kernel, stride=2, padding=size // 2)
            head = torch.randn(channels * 64, 16, generator=draw).requires_grad_()
            probabilities = (torch.nn.functional.gelu(maps).flatten(1) @ head / 50).exp().softmax(1)
            torch.nn.functional.layer_norm(probabilities, (16,)).pow(3).sum().backward()
            for tensor in (maps, probabilities, kernel.grad, head.grad):
                assert tensor is not None
                found.update(tensor.detach().numpy().tobytes())
        return found.hexdigest()
    finally:
        torch.set_num_threads(threads)


def _call(name: str, *arguments: object) -> None:
    """Call a command as it is typed; a process for each job would take twice the time."""
    sys.argv = [f"dermfed-{name}", *map(str, arguments)]
    try:
        getattr(commands, name)()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"{sys.argv} ended with {ended.code}") from ended


def _each() -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
    """Train every job; gives its name and its weights."""
    with TemporaryDirectory() as folder:
        os.environ["DERMFED_CACHE"] = f"{folder}/cache"
        os.chdir(folder)
        _call("data", "synth", *DRAWN_PICTURES)
        write_cases(Path("drawn"))
        for name in JOBS:
            Path("job.yaml").write_text(yaml.safe_dump(job(name), sort_keys=False))
            _call("train", "job.yaml", "--out", name)
            yield name, final_weights(Path(folder) / name)


def main() -> None:
    """Make the stored values anew, or print how far this processor is from them."""
    if "--compare" in sys.argv:
        stored = yaml.safe_load(STORED.read_text())
        print(f"the stored digests are {'' if stored['probe'] == probe() else 'not '}of this processor")
        for name, weights in _each():
            of = stored["jobs"][name]
            print(f"{name}: {distance(weights, of):.1e}, {digest(weights) == of.get('digest')}", flush=True)
        return
    jobs = {}
    for name, weights in _each():
        jobs[name] = {**({} if name in NOISY else {"digest": digest(weights)}), **summary(weights)}
        print(name, flush=True)
    STORED.write_text(yaml.safe_dump({"probe": probe(), "jobs": jobs}, sort_keys=False, width=110))


if __name__ == "__main__":
    main()
