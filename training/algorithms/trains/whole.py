"""All of the model learns."""

from typing import Literal

from training.algorithms.trains.base import Trains
from training.models import Classifier


class TrainsAll(Trains):
    """Encoder and head."""

    name: Literal["all"] = "all"

    def network(self, model: Classifier) -> Classifier:
        """The model itself."""
        return model
