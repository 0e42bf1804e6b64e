"""One job by two simulators, ours and Flower's, each started from a shell.

Flower's app (`plain/`) is given what ours draws: initial weights, pictures, and the order in which each
client shows them in each round. Both then take the same gradient steps, one thread a client, play as many
clients at once as there are cores, and must end with the same model but for rounding, which grows with the
steps. A plain loop takes the steps and nothing else.

Where the encoder is frozen the head alone travels. Ours makes features once. Flower's app shows the encoder
every picture in every step, as is commonly written; since its users may mend that, Flower is there a second
time with features that each of its processes keeps, and the loop keeps them, too.
"""

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hospitals import Times, environment, run_command, timed
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.algorithms.objectives.epochs import epoch_order
from training.algorithms.objectives.supervised import Supervised
from training.data.dataset import Split
from training.jobs.job import Job, read_job
from training.jobs.stages.federate import Federate
from training.messages import GLOBAL
from training.models import initial_model
from training.models.classifier import float_state, to_model_input
from training.models.encoder_files import GLOBAL_IN_OUTCOME
from training.randomness import generator
from training.wiring import load_data

PLAIN = Path(__file__).resolve().parent / "plain"
SETTINGS = "settings.json"
CLOSE = 1e-3  # how far two models may be apart, over how far they went: rounding grows from round to round
OURS, FLOWER, BARE = "dermfed", "Flower", "steps alone"
KEEPS = ", features kept"


@dataclass(frozen=True)
class Ran:
    """What a simulator did.

    Attributes:
        times: of its rounds.
        weights: at the end.
    """

    times: Times
    weights: dict[str, Tensor]


class Simulators:
    """One job, ready for both.

    Args:
        job_file: the job.
        folder: an empty one.
        flower_python: of the environment that Flower is installed in; None leaves it out.
    """

    def __init__(self, job_file: Path, folder: Path, flower_python: Path | None) -> None:
        self._job_file = job_file
        self._folder = folder
        self._flower = flower_python
        self.job = read_job(job_file)
        self.data = load_data(self.job, job_file)
        self._plain = folder / "plain"
        self._plain.mkdir(parents=True)
        self._export()

    @property
    def names(self) -> list[str]:
        """Who is there."""
        flower = [FLOWER, *([FLOWER + KEEPS] if self.frozen else [])] if self._flower else []
        return [OURS, *flower, BARE + KEEPS if self.frozen else BARE]

    @property
    def frozen(self) -> bool:
        """Whether the head alone learns."""
        return self._stage.trainable.name == "head"

    def run(self, name: str) -> Ran:
        """One whole run."""
        return self._ours() if name == OURS else self._others(name)

    def accuracy(self, weights: dict[str, Tensor]) -> float:
        """On all test pictures, by our own network."""
        model = initial_model(
            self.job.model, self.job.seed, self.job.data.image_size, len(self.data.labels)
        ).eval()
        model.load_state_dict(weights, strict=False)
        right = count = 0
        for client in self.data.clients:
            examples = self.data.examples(client, "test")
            images = to_model_input(examples.batch(np.arange(len(examples.labels))), torch.device("cpu"))
            with torch.inference_mode():
                right += int((model(images).argmax(1).numpy() == examples.labels).sum())
            count += len(examples.labels)
        return right / count

    @property
    def initial(self) -> dict[str, Tensor]:
        """The weights that all begin with."""
        return load_file(self._plain / "initial.safetensors")

    def _ours(self) -> Ran:
        out = self._folder / "ours"
        shutil.rmtree(out, ignore_errors=True)
        metrics = out / "metrics.jsonl"
        times = timed(
            run_command(self._job_file, out),
            environment(),
            self._folder / "ours.log",
            metrics=lambda: metrics,
        )
        return Ran(times, final_weights(out / "checkpoints"))

    def _others(self, name: str) -> Ran:
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._plain, folder)
        settings = json.loads((folder / SETTINGS).read_text())
        (folder / SETTINGS).write_text(json.dumps({**settings, "keeps_features": name.endswith(KEEPS)}))
        python, script = {
            FLOWER: (self._flower, PLAIN / "flower_simulation.py"),
            BARE: (sys.executable, PLAIN / "small_job.py"),
        }[name.removesuffix(KEEPS)]
        told = folder / "times.json"
        # No telemetry: neither their traffic nor its time is of interest.
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(PLAIN)}
        times = timed(
            [str(python), str(script), str(folder)],
            {**os.environ, **quiet},
            self._folder / f"{name}.log",
            ends=lambda: json.loads(told.read_text()),
            folder=folder,
        )
        # Flower tells of the start, too; its first round, like everybody's, is left out.
        rounds = times.rounds[-(self._rounds - 1) :]
        return Ran(Times(rounds, times.whole), load_file(folder / "final.safetensors"))

    @property
    def _stage(self) -> Federate:
        stage = self.job.stages[0]
        assert isinstance(stage, Federate)
        return stage

    @property
    def _rounds(self) -> int:
        return self._stage.rounds

    def _export(self) -> None:
        """Put there what the plain ones read."""
        job, objective = self.job, self._stage.objective
        model = initial_model(job.model, job.seed, job.data.image_size, len(self.data.labels))
        save_file(
            {n: t.contiguous() for n, t in float_state(model).items()}, self._plain / "initial.safetensors"
        )
        settings: dict[str, Any] = {
            "clients": list(self.data.clients),
            "rounds": self._rounds,
            "network": {"classes": len(self.data.labels), **job.model.options},
            "batch_size": objective.batch_size,
            "lr": objective.optimizer.lr,
            "momentum": objective.optimizer.momentum,
            "trainable": self._stage.trainable.name,
            "evaluates": self._stage.evaluate_on is not None,
        }
        (self._plain / SETTINGS).write_text(json.dumps(settings))
        for client in self.data.clients:
            examples = self.data.examples(client, "train")
            orders = [
                [self._order(examples.labels, round_, client, epoch) for epoch in range(objective.epochs)]
                for round_ in range(1, self._rounds + 1)
            ]
            self._export_pictures(client, "train", np.array(orders))
            self._export_pictures(client, "validation", np.array([]))

    def _export_pictures(self, client: str, split: Split, orders: NDArray[Any]) -> None:
        examples = self.data.examples(client, split)
        images = examples.batch(np.arange(len(examples)))
        file = self._plain / f"{client}-{split}.npz"
        np.savez(file, images=images, labels=examples.labels, orders=orders)

    def _order(self, labels: NDArray[np.int64], round_: int, client: str, epoch: int) -> NDArray[np.int64]:
        """Which pictures a client shows in an epoch."""
        objective = self._stage.objective
        assert isinstance(objective, Supervised)
        random = generator(*purpose(self.job, round_, client), f"order {epoch}")
        return epoch_order(labels, objective.sampling, random, objective.samples)


def purpose(job: Job, round_: int, client: str) -> tuple[Any, ...]:
    """Of the draws of a client's round."""
    return job.seed, job.key(0), GLOBAL, round_, client


def final_weights(checkpoints: Path) -> dict[str, Tensor]:
    """The model that our run ended with."""
    stored = load_file(checkpoints / "0-federate" / "outcome.safetensors")
    return {
        n.removeprefix(GLOBAL_IN_OUTCOME): t for n, t in stored.items() if n.startswith(GLOBAL_IN_OUTCOME)
    }


def apart(ours: dict[str, Tensor], theirs: dict[str, Tensor], initial: dict[str, Tensor]) -> float:
    """How far two models are from each other, over how far ours went: ‖θ − θ'‖ / ‖θ − θ⁰‖.

    Of what both have: where the head alone learns, theirs is nothing else.
    """
    both = sorted(ours.keys() & theirs.keys())

    def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
        return sum(float((one[name] - other[name]).square().sum()) for name in both) ** 0.5

    return distance(ours, theirs) / distance(ours, initial)
