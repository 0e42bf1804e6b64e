"""The head learns on what a frozen encoder sees, as in linear probing (Alain and Bengio 2017).

    min_W (1 / N) Σ_n l_ce(softmax(W f(x_n)), t_n)

with f the encoder, which is never touched. Each client makes f(x_n) of its pictures once, and of some
augmented views of those it trains on, and keeps them; a round then costs what W costs. Of a model of cases
the fusion learns with the head.
"""

from typing import Literal

from pydantic import Field

from training.algorithms.trains.base import Trains
from training.models import Classifier
from training.models.behind_encoder import behind_encoder


class TrainsHead(Trains):
    """What is behind the encoder.

    Attributes:
        views: how many augmented views of each training picture are seen beside the picture itself, drawn as
            the objective's `augment` says. Each costs as much time and room as the pictures themselves.
    """

    name: Literal["head"] = "head"
    views: int = Field(0, ge=0, le=64)

    def network(self, model: Classifier) -> Classifier:
        """A copy of what is behind the encoder."""
        return behind_encoder(model)
