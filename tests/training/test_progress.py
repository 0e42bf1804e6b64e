import io

import pytest
from rich.console import Console

from training.progress import EVERY, Count, Progress, Question, bytes_in_words, counting, in_words, left_text


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


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "about 4 min left"),
        ({"stages_follow": 2}, "about 4 min left of the stage, at least 4 min of the run"),
        ({"surely_more": True, "stages_follow": 2}, "at least 4 min left"),
    ],
)
def test_later_stages_make_it_at_least(settings, text):
    assert left_text(240, **settings) == text


def test_what_is_left_is_the_mean_of_the_last_five_rounds_times_the_rounds_left(clock):
    count = Count(10, 0, clock)
    assert count.left is None
    for done, seconds in enumerate([100, 4, 6, 4, 6, 5], start=1):
        clock.passes(seconds)
        count.advance(done)
    assert count.left == pytest.approx(5 * 4)  # without the first, which was the slowest
    clock.passes(3)
    assert count.left == pytest.approx(5 * 4 - 3)
    clock.passes(100)
    assert count.left == 0


def test_of_many_alike_it_is_the_mean_of_all(clock):
    count = Count(10, 0, clock, rounds=False)
    for done, seconds in enumerate([100, 4, 6, 4, 6, 5], start=1):
        clock.passes(seconds)
        count.advance(done)
    assert count.left == pytest.approx(125 / 6 * 4)


def test_rounds_of_before_a_resume_are_done_and_tell_no_seconds(clock):
    count = Count(10, 7, clock)
    assert count.left is None
    clock.passes(5)
    count.advance(8)
    assert count.left == pytest.approx(10)


def test_a_question_is_as_long_as_its_share_tells(clock):
    shares = [0.5, 0.0]
    question = Question("training", 5, clock, lambda: sum(shares))
    question.answered()
    clock.passes(30)
    assert question.seconds == pytest.approx(100)
    assert question.text == "training, 1 of 5 clients done (30 %), 30 s so far"
    shares[0] = 0.0
    question.done = 0
    assert question.seconds is None


def test_a_stage_is_announced(progress, shown):
    progress.stage("0-federate", 1, 4, ["federate", "10 rounds", "5 clients"])
    assert shown.getvalue() == "stage 1 of 4: federate, 10 rounds, 5 clients\n"


def test_before_round_1_has_ended_a_line_now_and_then_says_how_long_it_takes_at_least(progress, shown, clock):
    progress.stage("0-federate", 1, 2, ["federate"])
    progress.begin("0-federate", 3)
    share = 0.0
    with progress.question("training", 4, lambda: share) as question:
        clock.passes(EVERY - 1)
        progress.look()
        assert shown.getvalue().count("\n") == 1
        clock.passes(1)
        progress.look()
        progress.look()
        question.answered()
        share = 1.0
        clock.passes(EVERY)
        progress.look()
    assert shown.getvalue().splitlines()[1:] == [
        "0-federate 1/3: training, 0 of 4 clients done (0 %), 15 s so far",
        # half of it took 30 s: 30 s more, and 60 s for each of two more rounds
        "0-federate 1/3: training, 1 of 4 clients done (50 %), 30 s so far; at least 2 min left",
    ]


def test_what_was_done_of_the_first_round_before_a_question_is_of_every_round_too(progress, shown, clock):
    progress.stage("0-federate", 1, 2, ["federate"])
    progress.begin("0-federate", 3)
    with progress.question("training", 4):
        clock.passes(40)
    with progress.question("evaluating", 2) as question:
        question.answered()
        clock.passes(4)
        progress.look()
        clock.passes(EVERY)
        question.answered()
        progress.look()
    assert shown.getvalue().splitlines()[1:] == [
        "0-federate 1/3: evaluating, 1 of 2 clients done (50 %), 4 s so far",  # too early to tell
        "0-federate 1/3: evaluating, 2 of 2 clients done (100 %), 19 s so far; at least 2 min left",
    ]


def test_pieces_of_another_stage_are_not_as_long_as_a_question(progress, shown, clock):
    progress.stage("3-calibrate", 1, 1, ["calibrate"])
    progress.begin("3-calibrate", 12, rounds=False)
    with progress.question("making features", 2, lambda: 1.0):
        clock.passes(EVERY)
        progress.look()
    assert shown.getvalue().splitlines()[1:] == [
        "3-calibrate 1/12: making features, 0 of 2 clients done (50 %), 15 s so far"
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
        "0-federate 1/3 loss 0.500; about 8 s left of the stage, at least 8 s of the run",
        "0-federate 2/3: 15 s so far; about 1 s left of the stage, at least 1 s of the run",
        "0-federate 2/3 loss 0.400; about 12 s left of the stage, at least 12 s of the run",
        "0-federate 3/3 loss 0.300",
        "stage 2 of 2: export",
    ]


def test_in_the_last_stage_nothing_is_at_least(progress, shown, clock):
    progress.stage("1-personalize", 2, 2, ["personalize"])
    progress.begin("1-personalize", 2)
    clock.passes(4)
    progress.advance(1, "loss 0.500")
    assert shown.getvalue().splitlines()[-1] == "1-personalize 1/2 loss 0.500; about 4 s left"


def test_slow_pieces_of_a_stage_without_rounds_are_spoken_of(progress, shown, clock):
    progress.stage("2-export", 3, 3, ["export"])
    progress.begin("2-export", 3, rounds=False)
    for name in progress.each(["global", "light", "dark"]):
        clock.passes(EVERY)
        if name != "dark":
            continue
        with progress.question("parity", 2):
            progress.look()
    progress.end()
    clock.passes(EVERY)
    progress.look()
    assert shown.getvalue().splitlines()[1:] == [
        "2-export 3/3: parity, 0 of 2 clients done (0 %), 1 s so far; about 1 s left",
        "2-export: 1 min so far",
    ]


def test_nothing_is_said_where_nothing_goes_on(progress, shown, clock):
    clock.passes(100)
    progress.look()
    assert shown.getvalue() == ""
    with progress.question("census", 2):
        clock.passes(EVERY)
        progress.look()
    assert shown.getvalue() == "census, 0 of 2 clients done (0 %), 15 s so far\n"


def test_on_a_terminal_it_is_in_place_and_the_last_round_stays(shown, clock):
    progress = Progress(Console(file=shown, force_terminal=True, width=120), clock)
    with progress:
        progress.stage("0-federate", 1, 2, ["federate"])
        progress.begin("0-federate", 2)
        clock.passes(4)
        progress.advance(1, "loss 0.500")
        with progress.question("training", 3):
            progress._live.refresh()
        assert "loss 0.500" in shown.getvalue()
        assert "1/2" in shown.getvalue()
        assert "training, 0 of 3 clients done" in shown.getvalue()
        assert "about 4 s left of the stage" in shown.getvalue()
        assert "0-federate 1/2 loss" not in shown.getvalue()
        progress.advance(2, "loss 0.400")
        progress.end()
        assert "0-federate 2/2 loss 0.400\n" in shown.getvalue()
        clock.passes(100)
        before = shown.getvalue().count("so far")
        progress.look()
        assert shown.getvalue().count("so far") == before
    assert progress._live is None


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
    assert shown.getvalue() == "decoding pictures: 25 of 100; about 25 s left\n"
