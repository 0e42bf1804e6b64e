"""A log at the coordinator and its copy: the same whatever happens to either in between."""

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clients.federation.status import MetricsFollower, log_delta

LINES = st.lists(st.sampled_from(["a", "bb", "ü" * 3, "c" * 9]), max_size=5)
ROUND = {"stage": "0-federate", "round": 1, "seconds": 2.5}


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LINES, min_size=1, max_size=4))
def test_the_copy_is_the_log_as_far_as_its_lines_are_whole(tmp_path, courses):
    log, copy = tmp_path / "log", tmp_path / "out" / "copy"
    follower = MetricsFollower(copy)
    for lines in courses:
        whole = "".join(f"{line}\n" for line in lines)
        log.write_text(whole + "half a li")
        follower.take(json.loads(json.dumps(log_delta(log, follower.known()))))
        assert (copy.read_text() if copy.exists() else "") == whole
        assert log_delta(log, follower.known()) == {}


def test_what_is_there_already_does_not_travel_again(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\n")
    follower = MetricsFollower(tmp_path / "copy")
    follower.take(log_delta(log, follower.known()))
    log.write_text("one\ntwo\n")
    assert log_delta(log, follower.known()) == {"metrics_from": 4, "metrics": "two\n"}
    assert log_delta(tmp_path / "none", None) == {}


def test_the_last_lines_are_read_again_when_more_come(tmp_path):
    log = tmp_path / "log"
    follower = MetricsFollower(tmp_path / "copy")
    assert follower.last(2) == []
    for rounds, expected in ((1, [1]), (3, [2, 3])):
        log.write_text("".join(json.dumps({**ROUND, "round": number + 1}) + "\n" for number in range(rounds)))
        follower.take(log_delta(log, follower.known()))
        assert [line["round"] for line in follower.last(2)] == expected
    log.write_text("damaged\n")
    follower.take(log_delta(log, follower.known()))
    assert follower.last(2) == []


@pytest.mark.parametrize(
    "line",
    [
        "damaged",
        "[" * 100_000,
        "5",
        "null",
        '["stage", "round", "seconds"]',
        "{}",
        *(json.dumps({name: value for name, value in ROUND.items() if name != left}) for left in ROUND),
        *(json.dumps({**ROUND, "stage": stage}) for stage in (0, None, ["0-federate"])),
        *(json.dumps({**ROUND, "round": number}) for number in (0, -1, 1.0, "1", None, True)),
        *(json.dumps({**ROUND, "seconds": seconds}) for seconds in (-0.5, "a", None, True, [1.0])),
        *(json.dumps({**ROUND, "seconds": seconds}) for seconds in (math.inf, math.nan, 1e300, 10**400)),
    ],
)
def test_a_line_that_tells_no_round_is_not_shown_and_those_beside_it_are(tmp_path, line):
    follower = MetricsFollower(tmp_path / "copy")
    whole, quick = json.dumps(ROUND), {**ROUND, "seconds": 0}
    content = f"{whole}\n{line}\n{json.dumps(quick)}\n"
    follower.take({"metrics_from": 0, "metrics": content})
    assert follower.last(3) == [ROUND, quick]
    assert follower.known()["size"] == len(content), "the copy has all of it"
