"""Deadlines, the ledger and attendance, each on its own."""

from hypothesis import given
from hypothesis import strategies as st

from training.engines.nvflare.attendance import BEATS, Attendance
from training.engines.nvflare.ledger import Ledger
from training.engines.nvflare.lines import LineError
from training.engines.nvflare.pace import REMEMBERED, Pace
from training.engines.nvflare.pulse import SLOWEST, Pulse
from training.job import NetworkConfig
from training.messages import Broadcast

CONFIG = NetworkConfig(first_deadline=100, slack=3, shortest_deadline=10)


def question(round_=1, ask="fit", client="north"):
    return Broadcast(client, "0-federate", round_, ask)


@given(st.lists(st.floats(0.01, 1000), max_size=2 * REMEMBERED))
def test_a_deadline_follows_the_slowest_of_the_last_answers(taken):
    pace = Pace(CONFIG)
    for seconds in taken:
        pace.took(question(), seconds)
    expected = max(10, 3 * max(taken[-REMEMBERED:])) if taken else 100
    assert pace.deadline(question()) == expected
    assert pace.deadline(question(ask="evaluate")) == 100
    assert pace.deadline(question(client="south")) == 100
    again = Pace(CONFIG, pace.to_json())
    assert abs(again.deadline(question()) - expected) <= 0.01


def test_a_ledger_knows_the_last_training_that_arrived_and_steps_back(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json")
    for round_ in (1, 2, 4):
        assert ledger.before(question(round_)) == {1: 0, 2: 1, 4: 2}[round_]
        ledger.enter(question(round_))
    assert ledger.latest(question(4, "evaluate")) == 4
    assert ledger.latest(question(4, "evaluate", "south")) == 0
    ledger.save({"kind": [1.0]})
    back = Ledger(tmp_path / "ledger.json")
    assert back.pace == {"kind": [1.0]}
    # A checkpoint of round 2 leads back: round 3 is asked again, and 4 belongs to an abandoned course.
    assert back.before(question(3)) == 2
    assert back.latest(question(3, "evaluate")) == 2


class Line:
    def __init__(self):
        self.reached = True

    def ping(self, seconds):
        if not self.reached:
            raise LineError("no route")
        return Pulse(busy=False)


def test_a_site_is_away_after_silence_and_back_at_the_first_sign_of_life(wait_until):
    now, line = [0.0], Line()
    line.reached = False
    attendance = Attendance({"north": line}, 0.05 * BEATS, clock=lambda: now[0])
    try:
        now[0] = 0.04 * BEATS
        attendance._unheard("north", "no route")
        assert "north" not in attendance.away
        now[0] = 1.0
        wait_until(lambda: "north" in attendance.away)
        assert "no route" in attendance.away["north"]
        line.reached = True
        wait_until(lambda: "north" not in attendance.away)
        attendance.never("north", "other data")
        attendance._heard_of("north", Pulse(busy=False))
        assert attendance.away == {"north": "other data"}
    finally:
        attendance.close()


def test_a_message_is_lost_where_a_site_has_nothing_to_do_for_longer_than_its_way_takes():
    """silence + bytes / SLOWEST, and as much again each time it is asked anew."""
    now = [0.0]
    attendance = Attendance({"north": Line()}, 60, clock=lambda: now[0])
    attendance.close()  # it hears of the site what is said here, and nothing else

    def lost(at, question=0, again=0, **pulse):
        now[0] = at
        attendance._heard_of("north", Pulse(**pulse))
        return attendance.lost_on_the_way("north", 100, question, again)

    assert not lost(159, busy=False)
    assert not lost(1000, busy=True), "it works for as long as it likes"
    assert not lost(1059, busy=False)
    assert lost(1061, busy=False)
    assert not lost(1062, busy=False, question=2 * SLOWEST)
    assert not lost(1062, busy=False, answer=2 * SLOWEST)
    assert lost(1065, busy=False, question=2 * SLOWEST, answer=2 * SLOWEST)
    assert not lost(1119, busy=False, again=1)
    assert lost(1121, busy=False, again=1)
    attendance.lost("north", "no route")
    assert not attendance.lost_on_the_way("north", 100, 0), "a site that is away is asked when it is back"
    assert not attendance.lost_on_the_way("west", 100, 0)
