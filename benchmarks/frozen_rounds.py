"""What a federated round costs with features that were made once, beside one that trains all of the model.

So many pictures in all, divided among few or many clients; one local epoch, FedAvg, validation off. Both
kinds of rounds run in one process, one after the other, on the same pictures. What making the features costs
is told in rounds that train everything.
"""

import json
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated

import torch
import typer
from noise_pictures import NoisePictures
from quick import start
from rich.console import Console
from safetensors.torch import save_file
from tables import print_conditions, print_table

from clients.store import ClientStore
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.jobs.job import Job
from training.jobs.pipeline import run_stages
from training.models import ModelConfig, build_model
from training.models.classifier import float_state
from training.rounds.server.metrics import MetricsLog


def job_of(weights: Path, model: str, size: int, rounds: int, trainable: str) -> Job:
    """One stage of rounds."""
    return Job.model_validate(
        {
            "name": trainable,
            "data": {"manifest": "noise", "image_size": size},
            "model": {"name": model, "weights": str(weights)},
            "engine": {"workers": 1, "threads_per_client": torch.get_num_threads(), "device": "cpu"},
            "privacy": {"min_count": 1},
            "stages": [
                {
                    "stage": "federate",
                    "rounds": rounds,
                    "evaluate_on": None,
                    "trainable": {"name": trainable},
                    "objective": {"name": "supervised", "batch_size": 32, "sampling": "uniform"},
                    "aggregator": {"name": "fedavg"},
                }
            ],
        }
    )


def timed(job: Job, pictures: NoisePictures, folder: Path) -> tuple[list[float], float, int]:
    """Seconds of each round, seconds before the first, and bytes up in a round."""
    parts = ClientAppParts(job, pictures, ClientStore(folder / "store"))
    engine = InProcessEngine(parts, folder / "spool")
    log = MetricsLog(folder / "metrics.jsonl", Console(quiet=True))
    began = perf_counter()
    try:
        run_stages(job, pictures, engine, log, folder)
    finally:
        engine.close()
    whole = perf_counter() - began
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    seconds = [line["seconds"] for line in lines]
    return seconds, whole - sum(seconds), lines[-1]["bytes_up"]


def main(
    clients: Annotated[str, typer.Option(help="How many, with commas.")] = "3,10,100",
    pictures: Annotated[int, typer.Option(help="Training pictures of all clients together.")] = 2500,
    size: Annotated[int, typer.Option(help="Pixels on both sides.")] = 128,
    model: Annotated[str, typer.Option(help="A timm model.")] = "tf_efficientnet_lite0",
    frozen_rounds: Annotated[int, typer.Option(help="Rounds on features.")] = 30,
    whole_rounds: Annotated[int, typer.Option(help="Rounds that train everything.")] = 1,
    threads: Annotated[int, typer.Option(help="Of torch.")] = 2,
) -> None:
    """Time rounds on features beside rounds that train everything."""
    torch.set_num_threads(threads)
    rows = []
    with tempfile.TemporaryDirectory(prefix="frozen-") as scratch:
        weights = Path(scratch) / "encoder.safetensors"
        drawn = float_state(build_model(ModelConfig(name=model), 2, seed=0, image_size=size))
        save_file({name.removeprefix("encoder."): value for name, value in drawn.items()}, weights)
        for count in map(int, clients.split(",")):
            held = NoisePictures(count, max(pictures // count, 2), size)
            found = {}
            for trainable, rounds in (("head", frozen_rounds), ("all", whole_rounds)):
                folder = Path(scratch) / f"{trainable}-{count}"
                found[trainable] = timed(job_of(weights, model, size, rounds, trainable), held, folder)
            (head, making, up), (whole, _, whole_up) = found["head"], found["all"]
            rows.append(
                [
                    count,
                    f"{1 / median(head):.1f}",
                    f"{median(whole) / median(head):.0f}",
                    f"{making / median(whole):.2f}",
                    f"{up / count / 1e3:.1f}",
                    f"{whole_up / count / 1e6:.1f}",
                ]
            )
    print_conditions(
        "Rounds on features",
        {"model": f"{model} at {size} px", "training pictures": pictures, "threads": threads},
    )
    print_table(
        [
            "clients",
            "rounds a second",
            "a whole round takes so many",
            "making features, in whole rounds",
            "kB up a client",
            "MB up a client, whole",
        ],
        rows,
    )


if __name__ == "__main__":
    start(
        main,
        "--clients 2 --pictures 24 --size 32 --model resnet18 --frozen-rounds 2 --threads 1",
    )
