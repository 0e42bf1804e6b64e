"""RandAugment's time: ours on whole batches over torchvision's picture by picture.

Both begin with a batch of pictures of 8 bits on the device and end with a batch of floats in [0, 1], and both
put each picture through as many operations, bilinear, drawn from the same fourteen at the same magnitude.
Their draws differ, so a measurement takes several batches: then both have about the same mixture. The two
alternate in one process at the same number of threads, and who comes first alternates too. The figure is the
median over pairs of time(ours) / time(theirs).
"""

from collections.abc import Callable
from statistics import median
from typing import Annotated

import torch
import typer
from loop_overhead import Duration, measured, spread
from noise_pictures import NoisePictures
from quick import start
from tables import print_conditions, print_table
from torch import Tensor
from utilisation import synchronise

from training.algorithms.augmentations.rand_augment import RandAugmentConfig, rand_augment
from training.engines.malloc import keep_freed_memory
from training.models.encoders.files import prepare_torchvision

prepare_torchvision()
from torchvision.transforms import InterpolationMode  # noqa: E402  (torchvision needs its operators first)
from torchvision.transforms.v2 import RandAugment  # noqa: E402

Method = Callable[[Tensor], Tensor]


def whole_batch(config: RandAugmentConfig) -> Method:
    """Ours."""
    generator = torch.Generator().manual_seed(0)
    return lambda pictures: rand_augment(pictures.float().div(255), config, generator)


def picture_by_picture(config: RandAugmentConfig) -> Method:
    """Torchvision's, whose levels are 0 to 30."""
    transform = RandAugment(
        config.operations, int(config.magnitude), interpolation=InterpolationMode.BILINEAR
    )
    return lambda pictures: torch.stack([transform(picture) for picture in pictures]).float().div(255)


def time_pairs(
    methods: tuple[Method, Method], pictures: Tensor, batches: int, pairs: int
) -> list[tuple[Duration, Duration]]:
    """Durations of both for so many batches, after one of each that is not counted."""

    def timed(place: int, count: int = batches) -> Duration:
        return measured(
            lambda: ([methods[place](pictures) for _ in range(count)], synchronise(pictures.device))
        )

    for place in (0, 1):
        timed(place, 1)
    durations = []
    for pair in range(pairs):
        both = {place: timed(place) for place in ((0, 1), (1, 0))[pair % 2]}
        durations.append((both[0], both[1]))
    return durations


def row_of(count: int, durations: list[tuple[Duration, Duration]], batches: int) -> tuple[object, ...]:
    """Pictures a second of both, and the ratios of times, for batches of `count`."""
    wall = [ours.wall / theirs.wall for ours, theirs in durations]
    cpu = [ours.cpu / theirs.cpu for ours, theirs in durations]
    speeds = [
        count * batches / median(duration.wall for duration in column)
        for column in zip(*durations, strict=True)
    ]
    return (
        count,
        *(f"{speed:.0f}" for speed in speeds),
        f"{median(wall):.4f}",
        spread(wall),
        f"{median(cpu):.4f}",
    )


def main(
    size: Annotated[int, typer.Option(help="Pixels on both sides.")] = 224,
    batch_sizes: Annotated[list[int] | None, typer.Option(help="Pictures in a batch.")] = None,
    batches: Annotated[int, typer.Option(help="Batches in a measurement.")] = 10,
    operations: Annotated[int, typer.Option(help="N.")] = 2,
    magnitude: Annotated[int, typer.Option(min=0, max=30, help="M, of 30.")] = 10,
    pairs: Annotated[int, typer.Option(help="Interleaved pairs of measurements.")] = 7,
    threads: Annotated[int, typer.Option(help="Threads of both.")] = 1,
    device: Annotated[str, typer.Option(help="Where both work: cpu or cuda.")] = "cpu",
) -> None:
    """Time our RandAugment beside torchvision's."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    keep_freed_memory()
    config = RandAugmentConfig(operations=operations, magnitude=magnitude)
    print_conditions(
        "Time of RandAugment on whole batches over torchvision's picture by picture",
        {
            "pictures": f"{size} x {size} pixels, from 8 bits to floats, on {device}",
            "RandAugment": f"N = {operations}, M = {magnitude}, bilinear",
            "threads": threads,
            "pairs": f"{pairs} of {batches} batches each, interleaved in one process",
        },
    )
    rows = []
    for count in batch_sizes or [16, 64]:
        pool = torch.from_numpy(NoisePictures(1, count, size).images).to(device).permute(0, 3, 1, 2)
        methods = whole_batch(config), picture_by_picture(config)
        durations = time_pairs(methods, pool, batches, pairs)
        rows.append(row_of(count, durations, batches))
    ratio = ("median", "range", "median, processor time")
    print_table(
        (
            "batch",
            "ours, pictures/s",
            "torchvision, pictures/s",
            *(f"ours / torchvision: {one}" for one in ratio),
        ),
        rows,
    )


if __name__ == "__main__":
    start(main, "--size 32 --batch-sizes 4 --batches 1 --pairs 1")
