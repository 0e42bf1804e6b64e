"""Differential privacy of a client's whole contribution (McMahan et al. 2018, Algorithm 1, at the client).

Of the update Δ = θ_c − θ^t over all that travels, as one vector,

    Δ ← Δ min(1, S / ‖Δ‖₂) + N(0, σ²),   σ = z S       (`noise: each`)
                                         σ = z S / √k   (`noise: together`, k hospitals at least in each sum)

leaves the client, as θ^t + Δ. Clients are neighbours when one of them adds its update or nothing, so the
sensitivity of an update is S, and that of the mean of n equal ones S / n. With `together` the noise of k
clients adds up to z S in the sum.

Departures: clipping and noise are at the client, in this code and in no filter of a transport; no
amplification is claimed for the drawing of clients, since the cohort follows from the job's seed and is in
the log. Losses and other numbers of the training do not leave, for the account does not cover them.
"""

from dataclasses import replace
from math import sqrt

import torch
from torch import Tensor

from training.algorithms.client import Client
from training.errors import DataError
from training.messages.message import Tensors, Update
from training.privacy.dp.accountant import RELEASES, count_release
from training.privacy.settings import PrivacyConfig
from training.secure_random import NoiseSource


def privatise(update: Update, received: Tensors, client: Client, privacy: PrivacyConfig) -> Update:
    """The update, clipped and with noise; its release is counted first.

    Raises:
        DataError: when it is not finite.
    """
    config = privacy.client_level
    assert config is not None, "asked only where the job says so"
    differences = {name: value.double() - received[name].double() for name, value in update.tensors.items()}
    if not differences:
        return replace(update, losses={}, scalars={})
    clipped = clip(differences, config.clip, client.id)
    secure = privacy.secure_aggregation
    sharers = secure.fewest if secure is not None and config.noise == "together" else 1
    deviation = config.noise_multiplier * config.clip / sqrt(sharers)
    releases = count_release(client)
    source = NoiseSource()
    tensors = {
        name: (received[name].double() + value + source.normal(value, deviation)).to(
            update.tensors[name].dtype
        )
        for name, value in clipped.items()
    }
    return replace(update, tensors=tensors, losses={}, scalars={RELEASES: float(releases)})


def clip(differences: Tensors, largest: float, client: str) -> dict[str, Tensor]:
    """Δ min(1, S / ‖Δ‖₂) over all tensors together, in double precision.

    Raises:
        DataError: when they are not finite: nothing may be disclosed of them.
    """
    norm = float(torch.sqrt(sum((value.square().sum() for value in differences.values()), torch.zeros(()))))
    if norm != norm or norm == float("inf"):
        raise DataError(f"{client} diverged: its update is not finite; lower objective.optimizer.lr")
    factor = min(1.0, largest / norm) if norm else 1.0
    return {name: value * factor for name, value in differences.items()}
