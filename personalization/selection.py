"""Fair epoch selection: one epoch per subgroup within a band of accuracy, harmful to none (Xu et al. 2023).

The paper reads Fig. 2 by eye and picks, per skin type, an epoch whose validation accuracy lies in a band
of width 0.05 (Table V). Here the choice is computed: one epoch per subgroup so that max − min ≤ `band`,
with the highest possible minimum, then the highest mean, then the earliest epochs.

That rule alone can buy equality by making the better-served subgroups worse. The default rule therefore
adds a floor: no subgroup may fall below the global model (epoch 0, always a candidate), and the floor beats
the band. Where the band cannot be met the smallest achievable spread is taken, and `Selection` says so and
what meeting the band would have cost.

Departures: the floor and epoch 0 are not in the paper; `rule: paper` leaves the floor out. What the floor's
rule chooses must be proven besides (`proof`): where it is not, the global model stays.

**The fairness-accuracy frontier**: the best accuracy per allowed spread (extends Xu et al. 2023, Table V).

The user chooses the band of `selection`, one number. The frontier shows what each choice costs: for every
spread s, the highest minimum and the highest mean of validation accuracy that any choice of one epoch per
subgroup reaches with max − min ≤ s.

Why one choice per spread maximises both: let m(s) be the highest minimum, and take each subgroup's best
accuracy up to m(s) + s, at its earliest epoch. Any other choice within s has a minimum m' ≤ m(s), so none of
its accuracies lies above m' + s ≤ m(s) + s, and none is higher than the one taken: the minimum and the mean
are highest together, with no trade-off between them. That choice is also the one with the smallest sum of
epochs, so the last tie-break needs no order of subgroups.

Why the computation is exact and short: that choice is determined by its highest accuracy t alone, since each
subgroup takes its best accuracy up to t. So every choice on the frontier has one of the accuracies that occur
as its t. As t falls, neither minimum nor mean rises: a choice is on the frontier where no choice with a
higher t has a spread as small. What a band chooses is the last step within it, or else the first.

Departures: the paper has no frontier.

**Proof** that a personal model is better for new patients, and harms none: else the global model stays.

An epoch that looks best on some validation pictures is often no better on others: of six that are truly three
points worse, the rule takes one in most draws of 50 pictures. So the epoch that it chooses for a
subgroup must be shown to gain over the global model, on the same pictures
(`registry.bundle.metrics.patient`):

- the lower limit of the gain in balanced accuracy, or that in malignant sensitivity, is above 0; and
- neither of the two is lost by more than `margin`: both lower limits are above −margin.

Malignant sensitivity is at the most probable class. `confidence` is of both statements together, for all
epochs among which the choice was made and, in the first, both figures (Bonferroni): each limit is at level
1 − (1 − confidence) / epochs, in the first half of that share.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

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


# Accuracies are ratios of counts. A double determines its ratio up to this denominator, and with ratios
# 0.75 − 0.70 ≤ 0.05 is true instead of a matter of rounding.
_MAX_DENOMINATOR = 10**6


Rule = Literal["floor", "paper"]


class SelectionConfig(FrozenConfig):
    """How one epoch per subgroup is chosen."""

    band: float = Field(0.05, ge=0, le=1)  # largest max − min of validation accuracy over subgroups
    rule: Rule = "floor"  # `paper` is the band without the floor
    proof: ProofConfig | None = ProofConfig()  # null takes what the floor chooses, proven or not

    @property
    def asks_proof(self) -> ProofConfig | None:
        """What must be shown of the chosen epochs; nothing by the paper's rule."""
        return self.proof if self.rule == "floor" else None


@dataclass(frozen=True)
class ChosenEpochs:
    """One epoch per subgroup, with its validation accuracy."""

    epochs: dict[str, int]
    accuracies: dict[str, float]

    @property
    def worst(self) -> float:
        """The lowest accuracy of any subgroup."""
        return min(self.accuracies.values())

    @property
    def mean(self) -> float:
        """The unweighted mean accuracy over subgroups."""
        return sum(self.accuracies.values()) / len(self.accuracies)

    @property
    def spread(self) -> float:
        """The highest minus the lowest accuracy over subgroups."""
        return max(self.accuracies.values()) - min(self.accuracies.values())


@dataclass(frozen=True)
class Selection:
    """The chosen epochs, and the price of the rule.

    Attributes:
        config: the rule that was applied.
        chosen: the epoch and validation accuracy of every subgroup.
        global_accuracies: validation accuracy of the global model (epoch 0) per subgroup.
        within_band: whether the choice meets the band.
        smallest_spread: the smallest spread among the choices that the rule allows.
        floor_binding: subgroups that the band alone would have put below their floor.
        band_alone: what `rule: paper` would have chosen; None where it is the same choice.
        proofs: what was shown of each epoch that the rule chose in place of the global model, by subgroup.
    """

    config: SelectionConfig
    chosen: ChosenEpochs
    global_accuracies: dict[str, float]
    within_band: bool
    smallest_spread: float
    floor_binding: tuple[str, ...]
    band_alone: ChosenEpochs | None
    proofs: Mapping[str, Proof] = field(default_factory=dict)

    @property
    def epochs(self) -> dict[str, int]:
        """The chosen epoch per subgroup; 0 is the global model."""
        return self.chosen.epochs

    @property
    def accuracies(self) -> dict[str, float]:
        """The validation accuracy at the chosen epoch per subgroup."""
        return self.chosen.accuracies

    @property
    def spread(self) -> float:
        """The highest minus the lowest chosen accuracy."""
        return self.chosen.spread

    @property
    def cost(self) -> dict[str, float]:
        """Accuracy that the band without the floor would have taken from each subgroup (negative: given)."""
        if self.band_alone is None:
            return {}
        return {name: self.accuracies[name] - other for name, other in self.band_alone.accuracies.items()}

    @property
    def explanation(self) -> str:
        """The outcome in sentences for the report."""
        return _explain(self)


def select(accuracies: Mapping[str, Mapping[int, float]], config: SelectionConfig) -> Selection:
    """Choose one epoch per subgroup by an exact search.

    Args:
        accuracies: per subgroup, the validation accuracy (probability) of every epoch that was kept;
            epoch 0 is the global model and must be there.
        config: the band and whether the floor holds.

    Returns:
        The choice; equal inputs in another order give the same epochs.
    """
    band = _ratio(config.band)

    def search(rule: Rule) -> tuple[Fraction, dict[str, int]]:
        steps = _steps(accuracies, rule)
        within = [epochs for spread, epochs in steps if spread <= band]
        return steps[0][0], within[-1] if within else steps[0][1]

    smallest, chosen = search(config.rule)
    _, alone = search("paper")
    start = {name: by_epoch[0] for name, by_epoch in accuracies.items()}
    binding = tuple(
        name
        for name, epoch in alone.items()
        if config.rule == "floor" and _ratio(accuracies[name][epoch]) < _ratio(start[name])
    )
    return Selection(
        config=config,
        chosen=chosen_epochs(accuracies, chosen),
        global_accuracies=start,
        within_band=smallest <= band,
        smallest_spread=float(smallest),
        floor_binding=binding,
        band_alone=chosen_epochs(accuracies, alone) if binding else None,
    )


def _steps(
    accuracies: Mapping[str, Mapping[int, float]], rule: Rule
) -> list[tuple[Fraction, dict[str, int]]]:
    """The choices on the frontier with their spreads, from the smallest spread to the largest."""
    ranked: dict[str, list[tuple[Fraction, int]]] = {}  # by accuracy, of equal ones the latest epoch first
    for name, by_epoch in accuracies.items():
        kept = {epoch: _ratio(accuracy) for epoch, accuracy in by_epoch.items()}
        floor = kept[0] if rule == "floor" else 0
        ranked[name] = sorted((accuracy, -epoch) for epoch, accuracy in kept.items() if accuracy >= floor)
    reached = max(kept[0][0] for kept in ranked.values())  # below it, a subgroup has nothing to take
    tops = {accuracy for kept in ranked.values() for accuracy, _ in kept if accuracy >= reached}
    found: list[tuple[Fraction, dict[str, int]]] = []
    for top in sorted(tops, reverse=True):
        # The last at or below the top: the best accuracy there, at its earliest epoch.
        taken = {name: kept[bisect_right(kept, (top, 0)) - 1] for name, kept in ranked.items()}
        spread = top - min(accuracy for accuracy, _ in taken.values())
        if not found or spread < found[-1][0]:
            found.append((spread, {name: -epoch for name, (_, epoch) in taken.items()}))
    return found[::-1]


def with_proofs(
    selection: Selection, accuracies: Mapping[str, Mapping[int, float]], proofs: Mapping[str, Proof]
) -> Selection:
    """The selection where a subgroup keeps the global model if its epoch is not proven.

    Args:
        selection: what the rule chose.
        accuracies: as `select` had them.
        proofs: by subgroup, of each chosen epoch but 0.
    """
    epochs = {
        name: 0 if name in proofs and not proofs[name].holds else epoch
        for name, epoch in selection.epochs.items()
    }
    chosen = chosen_epochs(accuracies, epochs)
    within = _ratio(max(chosen.accuracies.values())) - _ratio(chosen.worst) <= _ratio(selection.config.band)
    return replace(selection, chosen=chosen, within_band=within, proofs=dict(proofs))


def chosen_epochs(accuracies: Mapping[str, Mapping[int, float]], epochs: Mapping[str, int]) -> ChosenEpochs:
    """These epochs with their accuracies."""
    return ChosenEpochs(dict(epochs), {name: accuracies[name][epoch] for name, epoch in epochs.items()})


def _ratio(value: float) -> Fraction:
    return Fraction(value).limit_denominator(_MAX_DENOMINATOR)


def _explain(selection: Selection) -> str:
    config, chosen = selection.config, selection.chosen
    highest = max(chosen.accuracies, key=chosen.accuracies.__getitem__)
    lowest = min(chosen.accuracies, key=chosen.accuracies.__getitem__)
    band = f"the band of {config.band:g}"
    sentences = [
        f"Validation accuracy runs from {chosen.worst:.3f} ({lowest}) "
        f"to {chosen.accuracies[highest]:.3f} ({highest}), "
        f"a spread of {chosen.spread:.3f}: {'within' if selection.within_band else 'wider than'} {band}."
    ]
    kept = [name for name, epoch in chosen.epochs.items() if epoch == 0]
    if kept:
        sentences.append(f"{_listed(kept)} {'keeps' if len(kept) == 1 else 'keep'} the global model.")
    sentences += [
        f"Of {name}, epoch {proof.epoch} is not taken: {proof.reason}."
        for name, proof in selection.proofs.items()
        if not proof.holds
    ]
    if not selection.within_band and all(proof.holds for proof in selection.proofs.values()):
        allowed = "that harms no subgroup " if config.rule == "floor" else ""
        sentences.append(f"No choice of epochs {allowed}has a smaller spread.")
    if selection.band_alone is not None:
        sentences.append(_explain_floor(selection, selection.band_alone, band))
    return " ".join(sentences)


def _explain_floor(selection: Selection, alone: ChosenEpochs, band: str) -> str:
    falls = _listed(
        [
            f"{name} from {selection.global_accuracies[name]:.3f} to {alone.accuracies[name]:.3f}"
            for name in selection.floor_binding
        ]
    )
    met = alone.spread <= selection.config.band + 1 / _MAX_DENOMINATOR
    aim = f"Meeting {band}" if met else f"Coming closer to {band}, which no choice meets,"
    return (
        f"{aim} would have taken accuracy below the global model's: {falls}. "
        f"It would have given a spread of {alone.spread:.3f} with a lowest accuracy of {alone.worst:.3f}; "
        "the floor refused it."
    )


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def frontier(
    accuracies: Mapping[str, Mapping[int, float]], config: SelectionConfig | None = None
) -> tuple[ChosenEpochs, ...]:
    """The points at which the best reachable accuracy changes as the allowed spread grows.

    A choice holds from its own spread up to the next one's. Below the first spread nothing can be chosen;
    the last is every subgroup's best epoch, which no larger spread betters.

    Args:
        accuracies: per subgroup, the validation accuracy (probability) of every epoch that was kept;
            epoch 0 is the global model and must be there.
        config: whether a floor holds; the band plays no part. By default the default rule.

    Returns:
        From the smallest spread to the largest; the mean rises with it and the minimum never falls.
    """
    steps = _steps(accuracies, (config or SelectionConfig()).rule)
    return tuple(chosen_epochs(accuracies, epochs) for _, epochs in steps)


def without_floor(
    accuracies: Mapping[str, Mapping[int, float]], config: SelectionConfig
) -> tuple[ChosenEpochs, ...] | None:
    """The frontier without the floor; None where the floor refuses nothing."""
    unbounded = frontier(accuracies, config.model_copy(update={"rule": "paper"}))
    return None if unbounded == frontier(accuracies, config) else unbounded


def frontier_facts(
    accuracies: Mapping[str, Mapping[int, float]], config: SelectionConfig
) -> dict[str, list[dict[str, Any]] | None]:
    """The frontier for `summary.json`: of the rule in force, and of `rule: paper` where that differs."""
    beside = without_floor(accuracies, config)
    both = {"frontier": frontier(accuracies, config), "frontier_paper": beside}
    return {
        name: None
        if steps is None
        else [
            {"spread": step.spread, "worst": step.worst, "mean": step.mean, "epochs": step.epochs}
            for step in steps
        ]
        for name, steps in both.items()
    }
