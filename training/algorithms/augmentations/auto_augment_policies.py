"""The policies of AutoAugment (Cubuk et al. 2019): sub-policies of two operations each."""

from typing import NamedTuple

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
