"""How many threads a lone picture gets, by a clock that pretends."""

import random

import pytest

from serving.inference.device.threads import LOSSES, WINS, candidates, clearly_faster, fewest_threads


class Clock:
    """A clock that only work moves."""

    def __init__(self):
        self.now = 0.0
        self.rounds = 0

    def __call__(self):
        return self.now

    def work(self, seconds):
        """Work that takes so long, or what a function says each time."""

        def run():
            self.rounds += 1
            self.now += seconds() if callable(seconds) else seconds

        return run


@pytest.mark.parametrize(
    ("most", "tried"), [(1, []), (2, [2]), (3, [2, 3]), (4, [2, 4]), (6, [2, 4, 6]), (16, [2, 4, 8, 16])]
)
def test_powers_of_two_and_the_most_are_tried(most, tried):
    assert list(candidates(most)) == tried


@pytest.mark.parametrize(
    ("most", "seconds", "chosen"),
    [
        (8, {1: 1.0, 2: 0.6, 4: 0.4, 8: 0.38}, 4),  # eight are within the margin of four
        (8, {1: 1.0, 2: 0.95, 4: 0.93, 8: 0.92}, 1),
        (8, {1: 1.0, 2: 1.3, 4: 2.0, 8: 4.0}, 1),
        (8, {1: 1.0, 2: 1.1, 4: 0.5, 8: 0.5}, 4),
        (2, {1: 1.0, 2: 0.75}, 2),
        (1, {1: 1.0}, 1),
    ],
)
def test_the_fewest_that_are_not_clearly_beaten(most, seconds, chosen):
    clock = Clock()
    number, runner = fewest_threads(
        most, 1, lambda threads: threads, lambda one: clock.work(seconds[one])(), clock
    )
    assert (number, runner) == (chosen, chosen)


def test_it_ends_as_soon_as_it_is_decided():
    clock = Clock()
    assert clearly_faster(clock.work(0.5), clock.work(1.0), clock)
    assert clock.rounds == 2 * WINS
    clock.rounds = 0
    assert not clearly_faster(clock.work(1.0), clock.work(1.0), clock)
    assert clock.rounds == 2 * LOSSES


def test_noise_seldom_makes_more_threads_of_equal_ones_and_keeps_a_real_gain():
    draw = random.Random(0)

    def won(share):
        clock = Clock()
        more = clock.work(lambda: share * draw.lognormvariate(0, 0.2))
        fewer = clock.work(lambda: draw.lognormvariate(0, 0.2))
        return clearly_faster(more, fewer, clock)

    assert sum(won(1.0) for _ in range(2000)) / 2000 < 0.02
    assert sum(won(0.5) for _ in range(2000)) / 2000 > 0.9
