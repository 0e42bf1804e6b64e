"""What can be said of single pictures by guessing: the measure of every attack.

An attack succeeds where it names more pictures than the best of these guesses, by more than one picture on
the average over hospitals. That was written down before any attack on today's answers was tried.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.attacks.hospitals import Hospital
from tests.attacks.old_way import bins_of_either
from tests.attacks.records import Records
from tests.attacks.sorted_scores import solve

Arrays = Mapping[str, NDArray[np.int64]]
MARGIN = 1.0  # picture


def holds(attacked: Sequence[int], guessed: Mapping[str, Sequence[int]]) -> bool:
    """Whether an attack names no more pictures than guessing does, on the average over hospitals."""
    return float(np.mean(attacked)) <= max(float(np.mean(each)) for each in guessed.values()) + MARGIN


def guesses(arrays: Arrays, others: Hospital, rng: np.random.Generator) -> dict[str, Records]:
    """Every guess."""
    return {"totals": from_totals(arrays, rng), "own pictures": from_own_pictures(arrays, others, rng)}


def listed(histogram: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bin of each picture of a histogram `(bins,)`, from the lowest up."""
    return np.repeat(np.arange(len(histogram)), histogram)


def from_totals(arrays: Arrays, rng: np.random.Generator) -> Records:
    """Records drawn from the published totals: the confusion matrix and the histograms.

    Classes and answers are those of the confusion matrix; each class's probability is one of its histogram,
    drawn without regard to the others. Two classes have one histogram between them, which is a list of true
    classes and scores; the scores of a run are spread evenly.
    """
    scores, confusion = arrays["scores"], arrays["confusion"]
    if len(confusion) == 2:
        return solve([(scores[1], 1.0)], confusion).records
    middles = bins_of_either(scores.shape[-1]).middles
    labels, answers = (np.repeat(place, confusion[confusion > 0]) for place in np.nonzero(confusion))
    probabilities = np.empty((len(labels), len(confusion)))
    for k in range(len(confusion)):
        for side in (0, 1):
            probabilities[(labels == k) == side, k] = middles[rng.permutation(listed(scores[k, side]))]
    return Records(labels, answers, probabilities)


def from_own_pictures(arrays: Arrays, own: Hospital, rng: np.random.Generator) -> Records:
    """Records of pictures that the attacker has, of the classes and answers in the confusion matrix.

    Of two classes they are evenly spaced in their order, of more they are drawn.
    """
    held = Records.of(own)
    chosen = []
    for (label, answer), times in np.ndenumerate(arrays["confusion"]):
        alike = np.flatnonzero((held.labels == label) & (held.answers == answer))
        if not times or not len(alike):
            continue
        if held.probabilities.shape[1] == 2:
            ordered = alike[np.argsort(held.probabilities[alike, 1])]
            chosen.append(ordered[((np.arange(times) + 0.5) / times * len(ordered)).astype(int)])
        else:
            chosen.append(rng.choice(alike, size=int(times)))
    rows = np.concatenate(chosen)
    return Records(held.labels[rows], held.answers[rows], held.probabilities[rows])
