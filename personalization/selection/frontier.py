"""The fairness-accuracy frontier: the best accuracy per allowed spread (extends Xu et al. 2023, Table V).

The user chooses the band of `selection`, one number. The frontier shows what each choice costs: for every
spread s, the highest minimum and the highest mean of validation accuracy that any choice of one epoch per
subgroup reaches with max − min ≤ s.

Why one choice per spread maximises both: let m(s) be the highest minimum. The choice that `selection` makes
takes each subgroup's best accuracy up to m(s) + s. Any other choice within s has a minimum m' ≤ m(s), so none
of its accuracies lies above m' + s ≤ m(s) + s, and none is higher than the one taken: the minimum and the
mean are highest together, with no trade-off between them.

Why the computation is exact and short: that choice is determined by its highest accuracy t alone, since each
subgroup takes its best accuracy up to t. So every choice on the frontier has one of the accuracies that occur
as its t. As t falls, neither minimum nor mean rises: a choice is on the frontier where no choice with a
higher t has a spread as small.

Departures: the paper has no frontier.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from personalization.selection.select import (
    ChosenEpochs,
    RankedEpochs,
    SelectionConfig,
    chosen_epochs,
    exact_accuracies,
    floors_of,
)


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

    Raises:
        DataError: there is no subgroup, a subgroup lacks epoch 0, or an accuracy is outside [0, 1].
    """
    exact = exact_accuracies(accuracies)
    floors = floors_of(exact, config or SelectionConfig())
    ranked = {name: RankedEpochs.of(by_epoch, floors[name]) for name, by_epoch in exact.items()}
    highest = {accuracy for kept in ranked.values() for accuracy in kept.accuracies}
    reached = max(kept.accuracies[0] for kept in ranked.values())  # below it, a subgroup has nothing to take

    found: list[ChosenEpochs] = []
    smallest: Fraction | None = None
    for top in sorted((accuracy for accuracy in highest if accuracy >= reached), reverse=True):
        epochs = {name: kept.best_up_to(top) for name, kept in ranked.items()}
        chosen = [exact[name][epoch] for name, epoch in epochs.items()]
        spread = max(chosen) - min(chosen)
        if smallest is None or spread < smallest:
            found.append(chosen_epochs(accuracies, epochs))
            smallest = spread
    return tuple(reversed(found))


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
    return {
        "frontier": _as_facts(frontier(accuracies, config)),
        "frontier_paper": None if beside is None else _as_facts(beside),
    }


def _as_facts(steps: tuple[ChosenEpochs, ...]) -> list[dict[str, Any]]:
    return [
        {"spread": step.spread, "worst": step.worst, "mean": step.mean, "epochs": step.epochs}
        for step in steps
    ]
