"""All of the model learns."""

from typing import Literal

from training.algorithms.trains.base import Trains


class TrainsAll(Trains):
    """Encoder and head."""

    name: Literal["all"] = "all"
