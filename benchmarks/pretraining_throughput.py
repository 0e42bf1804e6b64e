"""Pictures a second in pre-training: MAE and MoCo through our objectives, and plain PyTorch beside them.

Ours: one client's round by `training.rounds.client.fit.train_locally`, from `begin` to the
last `after_step`, with what the client kept of its last round. Plain: the same timm model, batches,
augmentation, masks, size of the queue, momentum and optimizer in the loops of `benchmarks/plain`, which call
none of our objectives. That
both do the same is checked before anything is timed: after a round on the same pictures, views and masks
their mean losses agree, and in float32 their weights too, but for how sums are ordered.

Ours and plain alternate in one process at the same number of threads, and who comes first alternates too. The
figure is the median over pairs of time(ours) / time(plain). Then rounds of the round loop are timed against
bare local training of the same clients (see `pretraining_rounds`). On a GPU the share of its arithmetic that
training uses is told as well: counted operations over the peak of a large bf16 matrix product.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import torch
import torch.nn.functional as F
import typer
from loop_overhead import Duration, measured, scratch, spread
from noise_pictures import NoisePictures
from pretraining_rounds import time_rounds
from quick import start
from tables import print_conditions, print_table
from torch import Tensor, nn
from utilisation import count_operations, matrix_peak, synchronise

from training.algorithms.augmentations.batch import augment
from training.algorithms.local_model import LocalModel
from training.algorithms.objectives import Objective
from training.algorithms.objectives.base import LocalRound
from training.algorithms.objectives.epochs import in_batches
from training.engines.malloc import keep_freed_memory
from training.jobs.job import Job
from training.jobs.stages.pretrain import Pretrain
from training.messages.message import GLOBAL
from training.models import initial_model
from training.models.classifier import float_state
from training.models.encoders.files import prepare_torchvision
from training.rounds.client.fit import train_locally

prepare_torchvision()
from plain.mae_loop import PlainMAE, train_mae  # noqa: E402  (it imports timm)
from plain.moco_loop import PlainMoCo, train_moco  # noqa: E402

FEATURES, MASK_RATIO, TEMPERATURE, MOMENTUM = 128, 0.75, 0.2, 0.99
DECODER = {"width": 128, "depth": 2, "heads": 4}
TOLERANCE = {"float32": 1e-4, "bf16": 2e-2}  # between mean losses, relative
PARTED = 1e-2  # between weights in float32, as a share of how far they moved
# What the plain masked autoencoder calls the parts of ours.
DECODER_NAMES = {
    "decoder_embed": "decoder_projection",
    "mask_token": "decoder.mask_token",
    "decoder_blocks": "decoder.blocks",
    "decoder_norm": "decoder.norm",
    "decoder_pred": "decoder.pixels",
}


class Name(StrEnum):
    """What can be measured."""

    MOCO = "moco"
    MAE = "mae"


def describe_job(
    name: Name,
    model: dict[str, Any],
    *,
    size: int,
    batch_size: int,
    queue: int,
    rounds: int,
    engine: dict[str, Any],
    exchange: str,
) -> Job:
    """A job that pre-trains."""
    block: dict[str, Any] = {"name": name.value, "batch_size": batch_size}
    if name == Name.MOCO:
        block |= {"queue": queue, "features": FEATURES, "momentum": MOMENTUM, "temperature": TEMPERATURE}
    else:
        block |= {"mask_ratio": MASK_RATIO, **{f"decoder_{key}": value for key, value in DECODER.items()}}
    block["optimizer"] = {"name": "adamw", "lr": 1e-3, "weight_decay": 0.05}
    stage = {
        "stage": "pretrain",
        "rounds": rounds,
        "objective": block,
        "exchange": {"name": exchange if name == Name.MOCO else "none"},
        "aggregator": {"name": "fedavg"},
    }
    return Job.model_validate(
        {
            "name": "pretraining-throughput",
            "data": {"adapter": "noise", "image_size": size},
            "model": model,
            "engine": engine,
            "stages": [stage],
        }
    )


def objective_of(job: Job) -> Objective:
    """The objective of its only stage."""
    stage = job.stages[0]
    assert isinstance(stage, Pretrain)
    return stage.objective


class Ours:
    """One client's rounds through the objective."""

    def __init__(self, job: Job, dataset: NoisePictures) -> None:
        self.objective = objective_of(job)
        model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels))
        self.local_model = LocalModel(model, job.engine.device, job.engine.precision).with_heads(
            self.objective
        )
        client = dataset.clients[0]
        self.work = LocalRound(
            client=client,
            stage=job.key(0),
            track=GLOBAL,
            round=1,
            rounds=1,
            seed=job.seed,
            examples=dataset.examples(client, "train"),
            subgroups=dataset.subgroups,
            received={},
            kept=first_kept(self.objective, dataset.per_split),
            device=self.local_model.device,
            frozen_copies=self.local_model.frozen_copies,
        )

    def train(self) -> float:
        """A round; returns the mean loss over pictures."""
        result = train_locally(self.local_model, self.objective, self.work, {})
        self.work = replace(self.work, kept=result.kept)
        counts = result.num_examples
        return sum(counts[name] * result.losses[name] for name in counts) / sum(counts.values())

    def weights(self) -> dict[str, Tensor]:
        """All but the classifier's head, which does not train."""
        return {
            name: tensor for name, tensor in float_state(self.local_model.model).items() if not is_head(name)
        }


def is_head(name: str) -> bool:
    """Whether a weight is of the linear classifier of ResNets and vision transformers."""
    return name.startswith(("encoder.fc.", "encoder.head."))


def first_kept(objective: Objective, pictures: int) -> dict[str, Tensor]:
    """A full bank, for an objective that has one."""
    if objective.name != "moco":
        return {}
    size = min(objective.queue, pictures)
    return {"features": F.normalize(torch.randn(size, FEATURES, generator=torch.Generator().manual_seed(0)))}


class Plain:
    """The same client's rounds in a plain loop, from copies of our weights and the same draws."""

    def __init__(self, ours: Ours) -> None:
        """Copy the model that `ours` starts from."""
        self._work, self._objective, self._local_model = ours.work, ours.objective, ours.local_model
        network = deepcopy(ours.local_model.model)
        if ours.objective.name == "moco":
            head = network.heads.get_submodule("projector")
            queue = ours.work.kept["features"].clone()
            self.model: nn.Module = PlainMoCo(network.encoder, head, queue, TEMPERATURE, MOMENTUM)
        else:
            self.model = PlainMAE(network.encoder, **DECODER, mask_ratio=MASK_RATIO)
            heads = {f"heads.{name}": tensor for name, tensor in network.heads.state_dict().items()}
            wanted = self.model.state_dict()
            own = {name: heads[our_name(name)] for name in wanted if our_name(name) in heads}
            self.model.load_state_dict({**wanted, **own})
        self.model.to(ours.local_model.device, memory_format=torch.channels_last).train()
        settings = ours.objective.optimizer
        self._optimizer = torch.optim.AdamW(
            [parameter for parameter in self.model.parameters() if parameter.requires_grad],
            lr=settings.lr,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def train(self) -> float:
        """An epoch; returns the mean loss over pictures."""
        loop = train_moco if isinstance(self.model, PlainMoCo) else train_mae
        return loop(self.model, self._optimizer, self._batches(), self._autocast)

    def _autocast(self) -> AbstractContextManager[None]:
        bf16 = self._local_model.precision == "bf16"
        return torch.autocast(self._local_model.device.type, torch.bfloat16, enabled=bf16)

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Two views each, or pictures and the noise by which patches are masked."""
        work, device, settings = self._work, self._local_model.device, self._objective.augment
        order = work.numpy_generator("order 0").permutation(len(work.examples))
        views, masks = work.torch_generator("views 0"), work.torch_generator("masks")
        for positions in in_batches(order, self._objective.batch_size):
            bytes_ = torch.from_numpy(work.examples.images[positions]).to(device)
            images = bytes_.permute(0, 3, 1, 2).float().div_(255)
            first = augment(images, settings, views)
            if isinstance(self.model, PlainMoCo):
                yield first, augment(images, settings, views)
            else:
                yield first, torch.rand(len(images), self.model.rows**2, generator=masks).to(device)

    def weights(self) -> dict[str, Tensor]:
        """By our names."""
        return {our_name(name): tensor for name, tensor in float_state(self.model).items()}


def our_name(name: str) -> str:
    """What we call a part of a plain model."""
    first, _, rest = name.partition(".")
    if first == "query":
        place, _, rest = rest.partition(".")
        return f"encoder.{rest}" if place == "0" else f"heads.projector.{rest}"
    if first in DECODER_NAMES:
        return ".".join(["heads", DECODER_NAMES[first], *([rest] if rest else [])])
    return name


def check_same(ours: Ours, plain: Plain) -> str:
    """Refuse to compare two loops that do not do the same, and say how near they are; also warms both up."""
    start = {name: tensor.clone() for name, tensor in ours.weights().items()}
    told, expected = ours.train(), plain.train()
    precision = ours.local_model.precision
    if not abs(told - expected) <= TOLERANCE[precision] * abs(expected):
        raise SystemExit(
            f"{ours.objective.name}: the loops differ: mean losses {told:.6f} and {expected:.6f}"
        )
    ended, other = ours.weights(), plain.weights()
    moved = norm(ended[name] - start[name] for name in start)
    parted = norm(ended[name] - other[name] for name in start) / moved
    if precision == "float32" and not parted <= PARTED:
        raise SystemExit(f"{ours.objective.name}: the weights parted by {parted:.2%} of how far they moved")
    return f"mean losses {told:.6f} and {expected:.6f}, weights apart by {parted:.1e} of how far they moved"


def norm(tensors: Iterator[Tensor]) -> float:
    """The L2 norm over all of them."""
    return sum(float(tensor.double().square().sum()) for tensor in tensors) ** 0.5


def time_pairs(ours: Ours, plain: Plain, pairs: int) -> list[tuple[Duration, Duration]]:
    """Durations of (ours, plain), the first of a pair in turn."""

    def timed(contestant: Ours | Plain) -> Duration:
        return measured(lambda: (contestant.train(), synchronise(ours.local_model.device)))

    durations = []
    for pair in range(pairs):
        if pair % 2 == 0:
            of_ours = timed(ours)
            of_plain = timed(plain)
        else:
            of_plain = timed(plain)
            of_ours = timed(ours)
        durations.append((of_ours, of_plain))
    return durations


def row_of(label: str, durations: Sequence[tuple[Duration, Duration]], pictures: int) -> list[str]:
    """Pictures a second of both, and the ratios of times."""
    wall = [first.wall / second.wall for first, second in durations]
    cpu = [first.cpu / second.cpu for first, second in durations]
    speeds = [
        median(pictures / duration.wall for duration in column) for column in zip(*durations, strict=True)
    ]
    return [
        label,
        *(f"{speed:.1f}" for speed in speeds),
        f"{median(wall):.4f}",
        spread(wall),
        f"{median(cpu):.4f}",
    ]


def print_utilisation(ours: Ours, durations: Sequence[tuple[Duration, Duration]]) -> None:
    """What share of the GPU's measured peak our round reaches; says why not where there is no GPU."""
    device = ours.local_model.device
    if device.type != "cuda":
        print(f"Utilisation of the arithmetic units: not measured, for training runs on the {device.type}.\n")
        return
    operations, peak = count_operations(ours.train), matrix_peak(device)
    reached = operations / median(first.wall for first, _ in durations)
    print(
        f"{ours.objective.name}: {operations / 1e12:.3f} TFLOP a round, {reached / 1e12:.1f} TFLOP/s, "
        f"{reached / peak:.1%} of the {peak / 1e12:.0f} TFLOP/s of a bf16 product of 8192 x 8192 matrices "
        f"on {torch.cuda.get_device_name(device)}\n"
    )


def main(
    objectives: Annotated[list[Name] | None, typer.Option(help="moco, mae; both by default.")] = None,
    moco_model: Annotated[str, typer.Option(help="A timm model for MoCo.")] = "resnet18",
    mae_model: Annotated[
        str, typer.Option(help="A timm VisionTransformer for MAE.")
    ] = "vit_tiny_patch16_224",
    patch: Annotated[int, typer.Option(help="Pixels on both sides of a patch.")] = 8,
    size: Annotated[int, typer.Option(help="Pixels on both sides.")] = 64,
    batch_size: Annotated[int, typer.Option(help="Pictures in a batch.")] = 64,
    queue: Annotated[int, typer.Option(help="MoCo's K; no more than a client has pictures.")] = 4096,
    pictures: Annotated[int, typer.Option(help="Training pictures of each client.")] = 256,
    clients: Annotated[int, typer.Option(help="Clients of the round loop.")] = 10,
    exchange: Annotated[str, typer.Option(help="MoCo's in the round loop: features or none.")] = "features",
    pairs: Annotated[int, typer.Option(help="Interleaved pairs of rounds.")] = 5,
    threads: Annotated[int, typer.Option(help="Threads of each loop.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[str | None, typer.Option(help="float32 or bf16; bf16 on a GPU by default.")] = None,
    folder: Annotated[Path | None, typer.Option(help="A folder on the disk for checkpoints.")] = None,
) -> None:
    """Time pre-training against plain loops, and the round loop against bare training."""
    on_gpu = device != "cpu" and torch.cuda.is_available()
    engine = {
        "threads_per_client": threads,
        "device": device,
        "precision": precision or ("bf16" if on_gpu else "float32"),
    }
    torch.set_num_threads(threads)
    keep_freed_memory()
    print_conditions(
        "Pre-training beside plain loops",
        {
            "moco": f"{moco_model}, bank of {min(queue, pictures)} features, momentum {MOMENTUM}",
            "mae": f"{mae_model} with patches of {patch}, {MASK_RATIO:.0%} masked, decoder {DECODER}",
            "pictures": f"{size} x {size} pixels, batches of {batch_size}, AdamW (fused), augmented",
            "precision": f"{engine['precision']} on the {'GPU' if on_gpu else 'CPU'}, channels last",
            "threads": threads,
            "pairs": f"{pairs}, interleaved in one process",
            "round loop": f"{clients} clients of {pictures} pictures, exchange {exchange} for moco",
        },
    )
    beside, around = [], []
    for name in objectives or list(Name):
        moco = name == Name.MOCO
        model = {"name": moco_model if moco else mae_model}
        job = describe_job(
            name,
            model if moco else {**model, "options": {"patch_size": patch, "img_size": size}},
            size=size,
            batch_size=batch_size,
            queue=queue,
            rounds=pairs + 1,
            engine=engine,
            exchange=exchange,
        )
        ours = Ours(job, NoisePictures(1, pictures, size))
        plain = Plain(ours)
        print(f"{name}: {check_same(ours, plain)}\n", flush=True)
        durations = time_pairs(ours, plain, pairs)
        beside.append(row_of(name, durations, pictures))
        print_utilisation(ours, durations)
        with scratch(folder) as place:
            durations = time_rounds(job, NoisePictures(clients, pictures, size), pairs, place)
        around.append(row_of(name, durations, clients * pictures))
    ratio = ("median", "range", "median, processor time")
    print_table(
        ("objective", "ours, pictures/s", "plain, pictures/s", *(f"ours / plain: {r}" for r in ratio)), beside
    )
    print_table(
        ("objective", "loop, pictures/s", "bare, pictures/s", *(f"loop / bare: {r}" for r in ratio)), around
    )


if __name__ == "__main__":
    start(main, "--size 32 --batch-size 16 --pictures 16 --queue 16 --clients 2 --pairs 1 --device cpu")
