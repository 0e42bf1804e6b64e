"""What it costs that a codebook asks of every patient once: how well its codes stand for test patches.

The clients of a recipe learn a codebook twice: with each step over a part of the patients, as a job does, and
with each step over all of them, as version 0.1.0 did. Printed: the root mean squared distance of a test
patch's pixels to its code, the share of what varies in test patches that codes explain, and how many codes
are used.

    DERMFED_DATA=... python benchmarks/codebook.py
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import torch
import typer
from quick import is_quick, start
from recipe_runs import read_recipe
from tables import print_conditions, print_table

from clients.data.pictures.cache import cache_folder
from clients.data.prepare import prepare
from clients.store import ClientStore
from training.algorithms.client import Client
from training.algorithms.objectives import codebook
from training.algorithms.objectives.codebook import CELLS, CODEBOOK, WHITE, Codebook, nearest
from training.data.dataset import Dataset
from training.jobs.job import Job
from training.messages.message import Broadcast, Tensors, Update
from training.models import initial_model
from training.models.patches import PatchGrid, patch_grid, patchify


def learn(tokenizer: Codebook, job: Job, data: Dataset, grid: PatchGrid, *, parts: bool) -> torch.Tensor:
    """The codes `(size, pixels)`, 0 to 255, that the clients learn together."""
    with tempfile.TemporaryDirectory() as folder:
        device = SimpleNamespace(device=torch.device("cpu"))
        clients = [
            Client(name, job.seed, job.privacy.min_count, data, ClientStore(Path(folder)), device)  # type: ignore[arg-type]
            for name in data.clients
        ]

        def ask(request: str, tensors: Tensors, options: Mapping[str, Any] | None = None) -> Sequence[Update]:
            given = dict(options or {})
            asked = [Broadcast(c.id, "0-pretrain", 0, request, "global", tensors, given) for c in clients]
            if not parts:
                codebook.parts_of = of_step(given["step"] if request == CELLS else 0)
            return [tokenizer.answer(each, c, grid) for each, c in zip(asked, clients, strict=True)]

        once = codebook.parts_of
        try:
            return tokenizer.prepare(ask, job.seed)[CODEBOOK].double() * WHITE
        finally:
            codebook.parts_of = once


def of_step(step: int) -> Any:
    """A rule by which all patients are of this step."""
    return lambda people, parts, min_count, random: np.full(len(people), step)


def judge(codes: torch.Tensor, data: Dataset, grid: PatchGrid) -> tuple[float, float, int]:
    """The distance in grey values, the share explained, and how many codes are nearest to a test patch."""
    patches = []
    for name in data.clients:
        examples = data.examples(name, "test")
        if len(examples):
            pictures = torch.from_numpy(examples.batch(np.arange(len(examples)))).permute(0, 3, 1, 2)
            patches.append(patchify(pictures.double(), grid).flatten(0, 1))
    points = torch.cat(patches)
    own = nearest(points, codes)
    apart = (points - codes[own]).square().mean()
    varies = (points - points.mean(dim=0)).square().mean()
    return float(apart.sqrt()), float(1 - apart / varies), len(own.unique())


def main(
    recipe: Annotated[str, typer.Option(help="One that pre-trains with BEiT.")] = "fed-beit@ham10000",
) -> None:
    """Print the table."""
    job = Job.model_validate(read_recipe(recipe))
    data = prepare(job.data, seed=job.seed, folder=Path(), cache=cache_folder())
    (tokenizer,) = (t for stage in job.stages if (t := tokenizer_of(stage)) is not None)
    grid = patch_grid(initial_model(job.model, job.seed, job.data.image_size, len(data.labels)), "beit")
    rows: list[list[object]] = []
    for name, parts in (("each patient in one step", True), ("all patients in every step", False)):
        far, explained, used = judge(learn(tokenizer, job, data, grid, parts=parts), data, grid)
        rows.append([name, f"{far:.2f}", f"{explained:.4f}", f"{used} of {tokenizer.size}"])
    print_conditions(
        "Codes of test patches", {"recipe": recipe, "clients": len(data.clients), "quick": is_quick()}
    )
    print_table(["codebook", "grey values off", "explained", "codes used"], rows)


def tokenizer_of(stage: Any) -> Codebook | None:
    """The codebook that a stage learns, if any."""
    found = getattr(getattr(stage, "objective", None), "tokenizer", None)
    return found if isinstance(found, Codebook) else None


if __name__ == "__main__":
    start(main, "", pictures=True)
