"""Peers by chance: what similarity is worth is seen beside them (FedPerl, section 3.3, "Random peers")."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from training.desk import Desk
from training.exchanges.choices.base import Candidate, Choice
from training.messages import Tensors


class ByChance(Choice):
    """Every order of the others is as likely, in every round anew."""

    name: Literal["random"] = "random"

    def profile(self, weights: Tensors, accuracy: float | None, desk: Desk) -> Tensor:
        """Nothing, `(0,)`."""
        return torch.empty(0, dtype=torch.float64)

    def rank(
        self, client: str, profiles: Mapping[str, Tensor], random: np.random.Generator
    ) -> Sequence[Candidate]:
        """In a drawn order."""
        others = [name for name in sorted(profiles) if name != client]
        return [Candidate(others[place], None) for place in random.permutation(len(others))]
