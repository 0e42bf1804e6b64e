"""An attack on many drawn hospitals, beside guessing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from personalization.calibration.conformal import count_distances
from registry.bundle.model import distance_bin
from registry.bundle.score_bins import Pick
from tests.attacks import old_way
from tests.attacks.fitting import fit
from tests.attacks.guessing import guesses
from tests.attacks.hospitals import (
    GROUP,
    MIN_COUNT,
    SEED,
    Hospital,
    Model,
    arrays_of,
    as_before,
    ask,
    draw,
    over_the_wire,
)
from tests.attacks.listing import points, read_distances, read_scores
from tests.attacks.records import Records, matched, recovered
from tests.attacks.sorted_scores import solve
from training.messages import Update

Arrays = Mapping[str, NDArray[np.int64]]
Tried = tuple[list[int], dict[str, list[int]]]
WAYS: Mapping[str, Callable[[Update], Update]] = {
    "in process": lambda update: update,
    "network": over_the_wire,
}
STAGES = (1.0, 1.3)  # temperatures at which a test split is asked: before calibration, and after it
MANY = (1.0, *np.exp(np.linspace(-0.4, 0.7, 15)).tolist())


def seeded(*hospitals: Hospital) -> NDArray[np.int64]:
    """The weights of pictures in the control, from the job's seed, `(replicates, pictures)`."""
    tables = [old_way.weights(SEED, each.name, GROUP, len(each.labels)) for each in hospitals]
    return np.concatenate(tables, axis=1)


def added(many: Iterable[Arrays]) -> Arrays:
    """The sum of several hospitals' arrays, which is all that masks let through."""
    return reduce(lambda first, second: {name: first[name] + second[name] for name in first}, many)


def attack(
    releases: Sequence[tuple[Arrays, float]], malignant: NDArray[np.bool_], rng: np.random.Generator
) -> Records:
    """The records that an attacker makes of several releases: arrays, and the temperature behind them."""
    if len(malignant) == 2:
        histograms = [(told["scores"][1], temperature) for told, temperature in releases]
        return solve(histograms, releases[0][0]["confusion"]).records
    return fit(releases[0][0], malignant, rng)


def try_now(
    draws: int,
    pictures: int,
    classes: int,
    way: str = "in process",
    *,
    together: int = 1,
    min_count: int = MIN_COUNT,
    temperatures: Sequence[float] = STAGES,
    roughly: bool = False,
) -> Tried:
    """Pictures that the attack on today's answers and each guess recover, in drawn hospitals.

    Args:
        draws: how often.
        pictures: of a hospital.
        classes: how many.
        way: of `WAYS`.
        together: of so many hospitals the attacker sees the sum alone.
        min_count: of the job.
        temperatures: at which the pictures are asked.
        roughly: see `recovered`.
    """
    rng = np.random.default_rng(classes)
    own = draw(rng, 5000, classes)
    attacked: list[int] = []
    guessed: dict[str, list[int]] = {}
    for _ in range(draws):
        some = [draw(rng, pictures, classes, f"hospital-{each}", twins=True) for each in range(together)]
        truth = Records.of(*some)
        releases = []
        for temperature in temperatures:
            model = Model(classes, np.eye(classes) / temperature)
            answers = (WAYS[way](ask(each, model, min_count=min_count)) for each in some)
            releases.append((added(map(arrays_of, answers)), temperature))
        attacked.append(recovered(attack(releases, some[0].malignant, rng), truth, roughly=roughly))
        published = added(arrays_of(ask(each)) for each in some)
        for name, guess in guesses(published, own, rng).items():
            guessed.setdefault(name, []).append(recovered(guess, truth, roughly=roughly))
    return attacked, guessed


def try_lists(
    draws: int, pictures: int, classes: int, min_count: int = MIN_COUNT
) -> tuple[list[int], list[int], dict[str, list[int]]]:
    """True classes and their probabilities that are read off histograms of the control and of clients."""
    rng = np.random.default_rng(8)
    own = draw(rng, 5000, classes)
    before: list[int] = []
    now: list[int] = []
    guessed: dict[str, list[int]] = {}
    for _ in range(draws):
        hospital = draw(rng, pictures, classes)
        named = partial(recovered, truth=Records.of(hospital), of_true_class=True)
        before.append(named(read_scores(points(as_before(hospital)))))
        now.append(named(read_scores(arrays_of(over_the_wire(ask(hospital, min_count=min_count))))))
        for name, guess in guesses(arrays_of(ask(hospital)), own, rng).items():
            guessed.setdefault(name, []).append(named(guess))
    return before, now, guessed


def try_distances(
    draws: int, pictures: int, smallest_cell: int, pick: Pick
) -> tuple[list[int], list[int], dict[str, list[int]]]:
    """Distances that are named to their bin of 1.2 % or its neighbour, without and with merging.

    They are guessed by quantiles of the attacker's own pictures.
    """
    rng = np.random.default_rng(3)
    quantiles = (np.arange(pictures) + 0.5) / pictures
    guess = distance_bin(np.quantile(np.exp(rng.normal(4, 0.5, 10_000)), quantiles))
    before: list[int] = []
    now: list[int] = []
    guessed: list[int] = []
    for _ in range(draws):
        distances = np.exp(rng.normal(4, 0.5, pictures))
        claims = [
            read_distances(count_distances(distances, smallest_cell=cell, pick=pick))
            for cell in (1, smallest_cell)
        ]
        for claimed, found in zip([*claims, guess], (before, now, guessed), strict=True):
            found.append(matched(np.abs(claimed[:, None] - distance_bin(distances)) <= 1))
    return before, now, {"own pictures": guessed}
