"""A log at the coordinator and its copy: the same whatever happens to either in between."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clients.federation.metrics_follower import MetricsFollower, log_delta

LINES = st.lists(st.sampled_from(["a", "bb", "ü" * 3, "c" * 9]), max_size=5)


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
        log.write_text("".join(json.dumps({"round": number + 1}) + "\n" for number in range(rounds)))
        follower.take(log_delta(log, follower.known()))
        assert [line["round"] for line in follower.last(2)] == expected
    log.write_text("damaged\n")
    follower.take(log_delta(log, follower.known()))
    assert follower.last(2) == []
