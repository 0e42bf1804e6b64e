"""No exchange: nothing travels besides weights."""

from typing import Literal

import numpy as np

from training.desk import Desk
from training.exchanges.base import Exchange, Parcel
from training.messages import Tensors, Update


class NoExchange(Exchange):
    """Nothing goes out and nothing is kept."""

    name: Literal["none"] = "none"

    def outgoing(
        self, client: str, round_: int, memory: Tensors, random: np.random.Generator, desk: Desk
    ) -> Parcel:
        """Nothing."""
        return Parcel()

    def collect(self, update: Update, memory: Tensors, desk: Desk) -> Tensors:
        """Nothing to remember."""
        return memory
