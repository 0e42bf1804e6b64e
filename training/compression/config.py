"""The `compression` block of a job: in what form weights travel."""

from typing import Literal

from pydantic import Field

from training.config import FrozenConfig

Form = Literal["exact", "half", "8-bit"]


class CompressionConfig(FrozenConfig):
    """How many bits a weight takes on its way.

    Attributes:
        up: the form of what a client trained, as the difference to what it was sent.
        down: the form of what clients are sent for training and for the evaluation of a round. It is the
            weights themselves, since not every client holds those of the round before: 8 bits are too few.
        rounding: of 8 bits; `stochastic` is right in the mean, `nearest` is nearer.
        error_feedback: whether a client keeps what rounding lost of its update and adds it to its next.
        exact_below: tensors of fewer values travel as they are, normalisation and biases among them.
    """

    up: Form = "exact"
    down: Literal["exact", "half"] = "exact"
    rounding: Literal["stochastic", "nearest"] = "stochastic"
    error_feedback: bool = True
    exact_below: int = Field(4096, ge=0)
