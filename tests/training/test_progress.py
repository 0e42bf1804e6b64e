import io

import pytest
from rich.console import Console

from training.progress import EVERY, Progress, Question, bytes_in_words, counting, in_words


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def shown():
    return io.StringIO()


@pytest.fixture
def progress(clock, shown):
    return Progress(Console(file=shown, width=40), clock)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 s"),
        (7.6, "8 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (90, "2 min"),
        (240, "4 min"),
        (3569, "59 min"),
        (3570, "1 h"),
        (7800, "2 h 10 min"),
        (90000, "25 h"),
    ],
)
def test_a_length_of_time_is_said_as_people_say_it(seconds, words):
    assert in_words(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (2_900_000, "2.9 MB"),
        (134_300_000, "134.3 MB"),
        (999_960_000, "1.0 GB"),
        (5e15, "5000.0 TB"),
    ],
)
def test_a_number_of_bytes_is_said_as_people_say_it(count, words):
    assert bytes_in_words(count) == words


def test_what_is_left_is_the_mean_of_the_rounds_done_times_the_rounds_left(progress, clock):
    progress.begin("0-federate", 10, 7)
    assert progress.now == "0-federate 8/10: 1 s so far"
    clock.passes(5)
    progress.advance(8, "loss 0.500")
    clock.passes(7)
    progress.advance(9, "loss 0.400")
    assert progress.now == "0-federate 10/10: 1 s so far; about 6 s left"


def test_a_question_says_how_much_of_it_is_done(clock):
    request = Question("training", 5, clock, lambda: 0.5)
    request.answered()
    clock.passes(30)
    assert request.text == "training, 1 of 5 clients done (30 %), 30 s so far"


def test_a_stage_is_announced(progress, shown):
    progress.stage("0-federate", 1, 4, ["federate", "10 rounds", "5 clients"])
    assert shown.getvalue() == "stage 1 of 4: federate, 10 rounds, 5 clients\n"


def test_while_a_question_lasts_a_line_now_and_then_says_how_far_it_is(progress, shown, clock):
    progress.begin("0-federate", 3)
    with progress.request("training", 4) as request:
        clock.passes(EVERY - 1)
        progress.look()
        assert shown.getvalue() == ""
        clock.passes(1)
        progress.look()
        progress.look()
        request.answered()
        clock.passes(EVERY)
        progress.look()
    assert shown.getvalue().splitlines() == [
        "0-federate 1/3: training, 0 of 4 clients done (0 %), 15 s so far",
        "0-federate 1/3: training, 1 of 4 clients done (25 %), 30 s so far",
    ]


def test_after_each_round_its_line_ends_with_what_is_left(progress, shown, clock):
    progress.stage("0-federate", 1, 2, ["federate"])
    progress.begin("0-federate", 3)
    clock.passes(4)
    progress.advance(1, "loss 0.500")
    clock.passes(EVERY)
    progress.look()
    clock.passes(5)
    progress.advance(2, "loss 0.400")
    clock.passes(7)
    progress.advance(3, "loss 0.300")
    progress.end()
    progress.stage("1-export", 2, 2, ["export"])
    assert shown.getvalue().splitlines()[1:] == [
        "0-federate 1/3 loss 0.500; about 8 s left of the stage",
        "0-federate 2/3: 15 s so far; about 8 s left of the stage",
        "0-federate 2/3 loss 0.400; about 12 s left of the stage",
        "0-federate 3/3 loss 0.300",
        "stage 2 of 2: export",
    ]


def test_slow_pieces_of_a_stage_without_rounds_are_spoken_of(progress, shown, clock):
    progress.stage("2-export", 3, 3, ["export"])
    progress.begin("2-export", 3, rounds=False)
    for name in progress.each(["global", "light", "dark"]):
        clock.passes(EVERY)
        if name == "dark":
            progress.look()
    progress.end()
    clock.passes(EVERY)
    progress.look()
    assert shown.getvalue().splitlines()[1:] == [
        "2-export: 2 of 3; about 15 s left",
        "2-export: 15 s so far",
    ]


def test_nothing_is_said_where_nothing_goes_on(progress, shown, clock):
    clock.passes(100)
    progress.look()
    assert shown.getvalue() == ""
    with progress.request("census", 2):
        clock.passes(EVERY)
        progress.look()
    assert shown.getvalue() == "census, 0 of 2 clients done (0 %), 15 s so far\n"


def test_on_a_terminal_it_is_in_place_and_the_last_round_stays(shown, clock):
    console = Console(file=shown, force_terminal=True, force_interactive=True, width=120)
    with Progress(console, clock) as progress:
        progress.stage("0-federate", 1, 2, ["federate"])
        progress.begin("0-federate", 2)
        clock.passes(4)
        progress.advance(1, "loss 0.500")
        progress._bars.refresh()
        assert "loss 0.500" in shown.getvalue()
        assert "1/2" in shown.getvalue()
        assert "0:00:04" in shown.getvalue()
        with progress.request("training", 3):
            progress.look()
            progress._bars.refresh()
        assert "training, 0 of 3 clients done" in shown.getvalue()
        assert "0-federate 1/2 loss" not in shown.getvalue()
        progress.advance(2, "loss 0.400")
        progress.end()
        assert "0-federate 2/2 loss 0.400\n" in shown.getvalue()


def test_within_with_somebody_looks_and_afterwards_nobody(progress, shown, clock, monkeypatch):
    monkeypatch.setattr("training.progress.LOOK", 0.001)
    with progress:
        thread = progress._thread
        assert thread.is_alive()
    assert not thread.is_alive()
    assert progress._thread is None


def test_counting_says_how_many_and_how_long(shown, clock):
    console = Console(file=shown, width=40)
    with counting("decoding pictures", 100, console, clock) as advance:
        clock.passes(10)
        advance(25)
        assert shown.getvalue() == ""
        clock.passes(5)
        advance.progress.look()
        advance(75)
    assert shown.getvalue() == "decoding pictures: 25 of 100; about 30 s left\n"
