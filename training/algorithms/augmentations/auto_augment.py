"""AutoAugment on whole batches on the device, with draws per picture (Cubuk et al. 2019, section 3).

Each picture goes through one sub-policy, drawn uniformly: through each of its two operations with that
operation's probability, at level k / 9 for the magnitude k. Operations that have two directions take the one
that a sign says, drawn for each picture and operation. Operations and ranges are RandAugment's.

Departures: as RandAugment's, for its reasons: beyond its border a picture goes on as its mirror image, and
geometry is bilinear.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from training.algorithms.augmentations.auto_augment_policies import IMAGENET, MAX_MAGNITUDE, Policy, Step
from training.algorithms.augmentations.colours import (
    auto_contrast,
    colour,
    contrast,
    equalize,
    identity,
    invert,
    posterize,
    sharpness,
    solarize,
)
from training.algorithms.augmentations.geometry import rotate, shear_x
from training.algorithms.augmentations.per_picture import Operation, apply_in_turn

# What policies here go through, and what leaves a picture as it is.
OPERATIONS: Mapping[str, Operation] = {
    "identity": identity,
    "auto-contrast": auto_contrast,
    "equalize": equalize,
    "invert": invert,
    "rotate": rotate,
    "solarize": solarize,
    "colour": colour,
    "posterize": posterize,
    "contrast": contrast,
    "sharpness": sharpness,
    "shear x": shear_x,
}
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

__all__ = ["IMAGENET", "OPERATIONS", "POLICIES", "Policy", "Step", "auto_augment"]
