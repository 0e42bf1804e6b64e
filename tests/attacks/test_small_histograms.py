"""Small histograms: fine bins over ten pictures are the list of true classes and their scores.

So were those that clients and bundles of the control tell. The attacker reads each occupied bin as its
pictures; of merged bins, he spreads the scores of a run evenly.
"""

import numpy as np
import pytest

from registry.bundle.counts import Counts, ScoreHistograms
from registry.bundle.score_bins import highest, middle, smallest_cell
from tests.attacks.guessing import guesses, holds
from tests.attacks.hospitals import GROUP, MIN_COUNT, arrays_of, as_before, ask, draw, over_the_wire
from tests.attacks.listing import points, read_bundle, read_scores
from tests.attacks.records import Records, recovered
from tests.attacks.sorted_scores import solve
from tests.attacks.trials import try_distances, try_lists
from training.rounds.requests import unpack_blocks

TEN, DRAWS = 10, 40


@pytest.mark.parametrize("classes", [2, 11])
def test_ten_pictures_were_listed_and_are_not(classes):
    before, now, guessed = try_lists(DRAWS, TEN, classes)
    assert before == [TEN] * DRAWS
    assert not holds(before, guessed)
    assert holds(now, guessed)


def test_before_bundles_listed_ten_pictures():
    rng = np.random.default_rng(8)
    read = []
    for hospital in (draw(rng, TEN, 2) for _ in range(DRAWS)):
        reference = ScoreHistograms.from_counts(Counts(**points(as_before(hospital))))
        read.append(recovered(read_bundle(reference), Records.of(hospital)))
    assert np.mean(read) > TEN - 0.5


@pytest.mark.parametrize("roughly", [False, True])
def test_of_ten_pictures_of_two_classes_no_more_are_read_than_guessed(roughly):
    rng = np.random.default_rng(8)
    own = draw(rng, 5000, 2)
    attacks = {"list": [], "spread": [], "bundle": []}
    guessed = {}
    for _ in range(DRAWS):
        hospital = draw(rng, TEN, 2)
        update = over_the_wire(ask(hospital))
        arrays = arrays_of(update)
        claims = {
            "list": read_scores(arrays),
            "spread": solve([(arrays["scores"][1], 1.0)], arrays["confusion"]).records,
            "bundle": read_bundle(ScoreHistograms.from_counts(unpack_blocks(update)[GROUP].point)),
        }
        for name, claimed in claims.items():
            attacks[name].append(recovered(claimed, Records.of(hospital), roughly=roughly))
        for name, guess in guesses(arrays, own, rng).items():
            guessed.setdefault(name, []).append(recovered(guess, Records.of(hospital), roughly=roughly))
    for attacked in attacks.values():
        assert holds(attacked, guessed)


@pytest.mark.parametrize("pick", [highest, middle], ids=["calibration", "test"])
def test_ten_distances_were_listed_and_are_not(pick):
    before, now, guessed = try_distances(200, TEN, smallest_cell(MIN_COUNT), pick)
    assert np.mean(before) > TEN - 0.5
    assert holds(now, guessed)
