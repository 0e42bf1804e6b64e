"""What `--check` prints of a run's length and bytes: in the words in which the run itself speaks of them."""

from io import StringIO

from rich.console import Console

from training.federation.server.ask import traffic_text
from training.jobs.preflight.estimate import StageEstimate
from training.preflight_tables import estimate_table

ESTIMATES = [
    StageEstimate("0-federate", 10, 9000.0, 2_900_000, 250_000, 134_300_000, 1.25e9),
    StageEstimate("1-personalize", 2, None, 812, 812, 3248),
    StageEstimate("2-export"),
]


def test_times_and_bytes_are_said_as_people_say_them_in_80_columns():
    shown = StringIO()
    Console(file=shown, width=80).print(estimate_table(ESTIMATES, 180.0))
    lines = [" ".join(line.split()) for line in shown.getvalue().splitlines()]
    assert "0-federate 10 2 h 30 min 2.9 MB 250.0 kB 134.3 MB 1.2 GB" in lines
    assert "1-personalize 2 not timed 812 B 812 B 3.2 kB" in lines
    assert "2-export not timed" in lines
    assert "if it is idle: 3 min of training and answers" in " ".join(lines)


def test_what_a_round_moved_is_said_alike():
    assert traffic_text(134_300_000, 812) == "134.3 MB up, 812 B down"
