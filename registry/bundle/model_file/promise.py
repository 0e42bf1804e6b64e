"""What a manifest says of its model, in numbers: what a probe holds the model to."""

from dataclasses import dataclass
from typing import Final

BATCH: Final = 3
"""Pictures or cases that a probe shows at once."""


@dataclass(frozen=True)
class Promise:
    """What a model takes and answers.

    Attributes:
        size: pixels on both sides of a picture.
        classes: how many probabilities it answers.
        features: the length of the embedding that the manifest's statistics are of; None where it has none.
        slots: how many pictures a case may have; None for a model of single pictures.
        kinds: how many kinds of picture it knows.
        facts: the bounds of each fact of a case.
    """

    size: int
    classes: int
    features: int | None = None
    slots: int | None = None
    kinds: int = 0
    facts: tuple[tuple[float, float], ...] = ()

    @property
    def pixels(self) -> int:
        """The most pixels that a probe shows at once."""
        return BATCH * (self.slots or 1) * self.size**2
