"""Pictures out of counts: what an attacker makes of evaluation and calibration, before and now.

The attacks of `tests/attacks/` on drawn hospitals: on what version 0.1.0 sent, and on what a client answers
today, with a smallest cell of 5 patients (`min_count: 10`) and of 3. Beside them is the best guess: from what
is published, the confusion matrix and the histograms with cells of 5, or from pictures of the attacker's own.
A picture counts where its true class, its answer and all of its probabilities are named to 1/500, or what a
row says in brackets. Means over hospitals.

    python benchmarks/attacks.py
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests.attacks

from quick import print_conditions, print_table, start

from registry.bundle.score_bins import highest, smallest_cell
from tests.attacks.chosen_models import sweep
from tests.attacks.guessing import guesses
from tests.attacks.hospitals import MIN_COUNT, arrays_of, as_before, ask, draw
from tests.attacks.margins import try_sums
from tests.attacks.records import Records, recovered
from tests.attacks.replicates import read_records, single_weights
from tests.attacks.trials import MANY, STAGES, added, seeded, try_distances, try_lists, try_now

LESS = 6  # a min_count of which the smallest cell is 3
HEADER = ("attack", "classes", "pictures", "version 0.1.0", "now", "cells of 3", "totals", "own pictures")
Guessed = Mapping[str, Sequence[int]]
Row = tuple[str, ...]


def row(
    attack: str, classes: int, pictures: str, before: str, now: Sequence[int], less: str, guessed: Guessed
) -> Row:
    guesses = (mean(guessed[name]) if name in guessed else "–" for name in ("totals", "own pictures"))
    return attack, str(classes), pictures, before, mean(now), less, *guesses


def mean(counts: Sequence[int]) -> str:
    return f"{fmean(counts):.1f}"


def linked_before(pictures: int, classes: int, together: int) -> str:
    """Pictures that replicates of version 0.1.0 gave away, with the job's seed and without."""
    rng = np.random.default_rng(pictures)
    some = [draw(rng, pictures, classes, f"hospital-{each}") for each in range(together)]
    told = added(as_before(each) for each in some)
    seen, blind = (
        recovered(read_records(told, weights), Records.of(*some))
        for weights in (seeded(*some), single_weights(told))
    )
    return f"{seen}, blindly {blind}"


def linking(draws: int, pictures: int, classes: int, together: int = 1) -> Iterator[Row]:
    """Replicates; and of what leaves now, the histograms of two releases and of many."""
    before = linked_before(pictures, classes, together)
    of = f"{together} x {pictures}" if together > 1 else str(pictures)
    for temperatures in (STAGES, MANY) if classes == 2 else (STAGES,):
        (now, guessed), (less, _) = (
            try_now(draws, pictures, classes, together=together, min_count=least, temperatures=temperatures)
            for least in (MIN_COUNT, LESS)
        )
        yield row(f"linking {len(temperatures)} releases", classes, of, before, now, mean(less), guessed)


def listing(draws: int, pictures: int, classes: int) -> Row:
    before, now, guessed = try_lists(draws, pictures, classes)
    _, less, _ = try_lists(draws, pictures, classes, LESS)
    name = "histograms as lists (true class and its probability)"
    return row(name, classes, str(pictures), mean(before), now, mean(less), guessed)


def sums(draws: int, pictures: int) -> Row:
    before, now, guessed = try_sums(draws, pictures)
    of_sums = {"totals": guessed["published"]}
    return row(
        "log-likelihoods (true class's probability)", 2, str(pictures), mean(before), now, "–", of_sums
    )


def distances(draws: int, pictures: int) -> Row:
    before, now, guessed = try_distances(draws, pictures, smallest_cell(MIN_COUNT), highest)
    _, less, _ = try_distances(draws, pictures, smallest_cell(LESS), highest)
    return row("distances (to 1.2 %)", 2, str(pictures), mean(before), now, mean(less), guessed)


def chosen(draws: int, pictures: int, requests: int) -> Row:
    rng = np.random.default_rng(9)
    own = draw(rng, 5000, 2)
    read: list[int] = []
    guessed: dict[str, list[int]] = {}
    for _ in range(draws):
        hospital = draw(rng, pictures, 2)
        truth = Records.of(hospital)
        read.append(recovered(sweep(hospital, requests), truth))
        for name, guess in guesses(arrays_of(ask(hospital)), own, rng).items():
            guessed.setdefault(name, []).append(recovered(guess, truth))
    return row(f"{requests} models made to ask", 2, str(pictures), "the same", read, "–", guessed)


def main(
    draws: Annotated[int, typer.Option(help="Hospitals of a row; a fifth where they take long.", min=1)] = 20,
    largest: Annotated[int, typer.Option(help="Pictures of the largest hospital.", min=60)] = 500,
) -> None:
    """Attack each kind of hospital in each way, and print what was recovered."""
    few = -(-draws // 5)
    print_conditions(
        "Pictures out of counts",
        {"hospitals of a row": f"{draws}; {few} of 500 pictures, for links of 11 classes"},
    )
    sizes = [pictures for pictures in (10, 60, 99, 500) if pictures <= largest]
    rows: list[Row] = []
    for classes in (2, 11):
        for pictures in sizes[1:]:
            rows += linking(few if pictures == 500 or classes == 11 else draws, pictures, classes)
        rows += linking(few if classes == 11 else draws, 60, classes, together=3)
    rows += [
        listing(few if pictures == 500 else draws, pictures, classes)
        for classes in (2, 11)
        for pictures in sizes
    ]
    rows += [sums(few if pictures > 10 else draws, pictures) for pictures in sizes]
    rows += [distances(few if pictures == 500 else draws, pictures) for pictures in sizes]
    rows += [chosen(few, pictures, requests) for pictures in sizes[1:] for requests in (30, 300)]
    print_table(HEADER, rows)


if __name__ == "__main__":
    start(main, "--draws 1 --largest 60")
