"""What the question `fit` says beside the tensors that it carries."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from training.config import FrozenConfig


class FitQuestion(FrozenConfig):
    """How to train.

    Attributes:
        cell_weights: what a picture of each cell counts, where the aggregator weighs cells.
    """

    cell_weights: Mapping[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}
