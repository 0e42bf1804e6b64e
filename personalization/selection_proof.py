"""Proof that a personal model is better for new patients, and harms none: else the global model stays.

An epoch that looks best on some validation pictures is often no better on others: of six that are truly three
points worse, the rule of `select` takes one in most draws of 50 pictures. So the epoch that it chooses for a
subgroup must be shown to gain over the global model, on the same pictures
(`registry.bundle.metrics.patient`):

- the lower limit of the gain in balanced accuracy, or that in malignant sensitivity, is above 0; and
- neither of the two is lost by more than `margin`: both lower limits are above −margin.

Malignant sensitivity is at the most probable class. `confidence` is of both statements together, for all
epochs among which the choice was made and, in the first, both figures (Bonferroni): each limit is at level
1 − (1 − confidence) / epochs, in the first half of that share.
"""

from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field

from registry.bundle.lesion_counts import PairedCounts
from registry.bundle.metrics.patient import GAINS, Gain
from training.config import FrozenConfig

CALLED = {"malignant_sensitivity": "malignant sensitivity", "balanced_accuracy": "balanced accuracy"}
"""Figures as people say them."""


class ProofConfig(FrozenConfig):
    """What must be shown of a personal model before it takes the place of the global one."""

    confidence: float = Field(0.95, gt=0.5, lt=1)
    margin: float = Field(0.05, ge=0, lt=1)  # what may be lost of malignant sensitivity or balanced accuracy


@dataclass(frozen=True)
class Proof:
    """What was shown of the epoch that was chosen for one subgroup.

    Attributes:
        epoch: which was looked at.
        holds: whether it may take the global model's place.
        gains: the gain in each figure, with the limit by which harm is excluded; None where the figure has no
            pictures.
        reason: why it may or may not, with the numbers.
    """

    epoch: int
    holds: bool
    gains: dict[str, Gain | None]
    reason: str

    def to_json(self) -> dict[str, Any]:
        """For `summary.json`."""
        return asdict(self)


def prove(
    counts: PairedCounts, epoch: int, epochs: int, config: ProofConfig, *, has_malignancy: bool
) -> Proof:
    """Whether one subgroup's chosen epoch is shown to be better than the global model.

    Args:
        counts: of the global model's and this epoch's answers to the same validation pictures.
        epoch: the chosen one.
        epochs: how many the choice was made among, the global model not counted.
        config: what must be shown.
        has_malignancy: whether some of the classes are malignant and others not.
    """
    if not counts.n.any():
        return Proof(epoch, False, {}, "no hospital could tell how it compares with the global model")
    share = (1 - config.confidence) / epochs
    asked = {name: gain for name, gain in GAINS.items() if has_malignancy or name != "malignant_sensitivity"}
    gains = {name: gain(counts, 1 - share) for name, gain in asked.items()}
    better = {name: gain(counts, 1 - share / 2) for name, gain in asked.items()}
    lost = [
        _said(name, gain) for name, gain in gains.items() if gain is not None and gain.low <= -config.margin
    ]
    lost += [f"{CALLED[name]}: no such validation pictures" for name, gain in gains.items() if gain is None]
    shown = [_said(name, gain) for name, gain in better.items() if gain is not None and gain.low > 0]
    if lost:
        reason = f"a loss of more than {100 * config.margin:g} points is not excluded: {'; '.join(lost)}"
    elif not shown:
        told = "; ".join(_said(name, gain) for name, gain in better.items() if gain is not None)
        reason = f"no gain is shown: {told}"
    else:
        reason = f"a gain is shown: {'; '.join(shown)}"
    return Proof(epoch, bool(shown) and not lost, gains, reason)


def _said(name: str, gain: Gain) -> str:
    return (
        f"{CALLED[name]} {100 * gain.value:+.1f} points ({gain.gained} gained and {gain.lost} lost of "
        f"{gain.n}), {100 * gain.low:+.1f} at worst"
    )
