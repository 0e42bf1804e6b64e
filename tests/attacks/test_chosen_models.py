"""A limit that is known: exact confusion matrices at many borders are a list of scores.

Merging histograms does nothing about it; `privacy.counts.epsilon` does (`test_noisy_counts.py`).
"""

import numpy as np

from tests.attacks.chosen_models import sweep
from tests.attacks.guessing import guesses, holds
from tests.attacks.hospitals import arrays_of, ask, draw
from tests.attacks.records import Records, recovered


def test_a_coordinator_that_sends_models_of_its_own_making_reads_more_than_guessing():
    rng = np.random.default_rng(9)
    own = draw(rng, 5000, 2)
    read, guessed = [], {}
    for _ in range(2):
        hospital = draw(rng, 60, 2)
        read.append(recovered(sweep(hospital, 120), Records.of(hospital)))
        for name, guess in guesses(arrays_of(ask(hospital)), own, rng).items():
            guessed.setdefault(name, []).append(recovered(guess, Records.of(hospital)))
    assert not holds(read, guessed)
