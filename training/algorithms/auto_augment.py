"""AutoAugment on whole batches on the device, with draws per picture (Cubuk et al. 2019, section 3).

Each picture goes through one sub-policy, drawn uniformly: through each of its two operations with that
operation's probability, at level k / 9 for the magnitude k. Operations that have two directions take the one
that a sign says, drawn for each picture and operation. Operations and ranges are RandAugment's.

Departures: as RandAugment's, for its reasons: beyond its border a picture goes on as its mirror image, and
geometry is bilinear.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from training.algorithms.augmentation_operations import OPERATIONS as RAND_AUGMENT
from training.algorithms.augmentation_operations import Operation, apply_in_turn, invert

MAX_MAGNITUDE = 9
"""Magnitudes are whole numbers from 0: ten values, uniform over an operation's range."""


class Step(NamedTuple):
    """One operation of a sub-policy.

    Attributes:
        operation: its name in `OPERATIONS`.
        probability: the share of the pictures of the sub-policy that go through it.
        magnitude: how far it goes, 0 to 9; of no effect on an operation that has no range.
    """

    operation: str
    probability: float
    magnitude: int = 0


Policy = tuple[tuple[Step, Step], ...]
"""Sub-policies, one of which is drawn for each picture: two operations, one after the other."""


IMAGENET: Policy = (
    (Step("posterize", 0.4, 8), Step("rotate", 0.6, 9)),
    (Step("solarize", 0.6, 5), Step("auto-contrast", 0.6)),
    (Step("equalize", 0.8), Step("equalize", 0.6)),
    (Step("posterize", 0.6, 7), Step("posterize", 0.6, 6)),
    (Step("equalize", 0.4), Step("solarize", 0.2, 4)),
    (Step("equalize", 0.4), Step("rotate", 0.8, 8)),
    (Step("solarize", 0.6, 3), Step("equalize", 0.6)),
    (Step("posterize", 0.8, 5), Step("equalize", 1.0)),
    (Step("rotate", 0.2, 3), Step("solarize", 0.6, 8)),
    (Step("equalize", 0.6), Step("posterize", 0.4, 6)),
    (Step("rotate", 0.8, 8), Step("colour", 0.4, 0)),
    (Step("rotate", 0.4, 9), Step("equalize", 0.6)),
    (Step("equalize", 0.0), Step("equalize", 0.8)),
    (Step("invert", 0.6), Step("equalize", 1.0)),
    (Step("colour", 0.6, 4), Step("contrast", 1.0, 8)),
    (Step("rotate", 0.8, 8), Step("colour", 1.0, 2)),
    (Step("colour", 0.8, 8), Step("solarize", 0.8, 7)),
    (Step("sharpness", 0.4, 7), Step("invert", 0.6)),
    (Step("shear x", 0.6, 5), Step("equalize", 1.0)),
    (Step("colour", 0.4, 0), Step("equalize", 0.6)),
    (Step("equalize", 0.4), Step("solarize", 0.2, 4)),
    (Step("solarize", 0.6, 5), Step("auto-contrast", 0.6)),
    (Step("invert", 0.6), Step("equalize", 1.0)),
    (Step("colour", 0.6, 4), Step("contrast", 1.0, 8)),
    (Step("equalize", 0.8), Step("equalize", 0.6)),
)


OPERATIONS: Mapping[str, Operation] = {**RAND_AUGMENT, "invert": invert}
PLACES = {name: place for place, name in enumerate(OPERATIONS)}


def auto_augment(images: Tensor, policy: Policy, generator: torch.Generator) -> Tensor:
    """Pictures after their sub-policies, `(batch, 3, height, width)` in [0, 1]; the input is left as it is.

    Args:
        images: pictures in [0, 1]; what comes back has their device and memory format.
        policy: the sub-policies to draw from.
        generator: of the draws, on the CPU.
    """
    return apply_in_turn(images, draw_steps(len(images), policy, generator), tuple(OPERATIONS.values()))


def draw_steps(count: int, policy: Policy, generator: torch.Generator) -> list[tuple[Tensor, Tensor]]:
    """Of both steps, each picture's operation, as its place in `OPERATIONS`, and signed level; `(count,)`.

    A picture that is spared a step goes through `identity` there.
    """
    drawn = torch.randint(len(policy), (count,), generator=generator)
    spared = torch.rand(2, count, generator=generator)
    signs = torch.where(torch.rand(2, count, generator=generator) < 0.5, 1.0, -1.0)
    steps = []
    for step in (0, 1):
        known = [pair[step] for pair in policy]
        kinds = torch.tensor([PLACES[one.operation] for one in known])[drawn]
        probabilities = torch.tensor([one.probability for one in known])[drawn]
        levels = torch.tensor([one.magnitude / MAX_MAGNITUDE for one in known])[drawn]
        kinds = torch.where(spared[step] < probabilities, kinds, PLACES["identity"])
        steps.append((kinds, levels * signs[step]))
    return steps


POLICIES = {"imagenet": IMAGENET}
"""What `augment.auto` may name."""
