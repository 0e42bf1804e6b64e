"""What a policy of AutoAugment is made of (Cubuk et al. 2019, section 3)."""

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
