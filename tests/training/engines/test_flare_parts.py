"""Acknowledged rounds and the liveness tracker, each on its own."""

from training.engines.calls import BEATS, SLOWEST, ChannelError, Heartbeat, LivenessTracker
from training.engines.flare import AcknowledgedRounds
from training.messages import Broadcast


def request(round_=1, ask="fit", client="north"):
    return Broadcast(client, "0-federate", round_, ask)


def test_acknowledged_rounds_know_the_last_training_that_arrived_and_steps_back(tmp_path):
    acknowledged = AcknowledgedRounds(tmp_path / "ledger.json")
    for round_ in (1, 2, 4):
        assert acknowledged.before(request(round_)) == {1: 0, 2: 1, 4: 2}[round_]
        acknowledged.add(request(round_))
    assert acknowledged.latest(request(4, "evaluate")) == 4
    assert acknowledged.latest(request(4, "evaluate", "south")) == 0
    acknowledged.save()
    back = AcknowledgedRounds(tmp_path / "ledger.json")
    # A checkpoint of round 2 leads back: round 3 is asked again, and 4 belongs to an abandoned course.
    assert back.before(request(3)) == 2
    assert back.latest(request(3, "evaluate")) == 2


class Channel:
    def __init__(self):
        self.reached = True

    def ping(self, seconds):
        if not self.reached:
            raise ChannelError("no route")
        return Heartbeat(busy=False)


def test_a_site_is_away_after_silence_and_back_at_the_first_heartbeat(wait_until):
    now, channel = [0.0], Channel()
    channel.reached = False
    liveness = LivenessTracker({"north": channel}, 0.05 * BEATS, clock=lambda: now[0])
    try:
        now[0] = 0.04 * BEATS
        liveness._not_heard_from("north", "no route")
        assert "north" not in liveness.offline
        now[0] = 1.0
        wait_until(lambda: "north" in liveness.offline)
        assert "no route" in liveness.offline["north"]
        channel.reached = True
        wait_until(lambda: "north" not in liveness.offline)
        liveness.exclude("north", "other data")
        liveness._heard_from("north", Heartbeat(busy=False))
        assert liveness.offline == {"north": "other data"}
    finally:
        liveness.close()


def test_a_message_is_lost_where_a_site_has_nothing_to_do_for_longer_than_its_way_takes():
    """silence + bytes / SLOWEST, and as much again each time it is asked anew."""
    now = [0.0]
    liveness = LivenessTracker({"north": Channel()}, 60, clock=lambda: now[0])
    liveness.close()  # it hears of the site what is said here, and nothing else

    def lost(at, request=0, again=0, **heartbeat):
        now[0] = at
        liveness._heard_from("north", Heartbeat(**heartbeat))
        return liveness.lost_in_transit("north", 100, request, again)

    assert not lost(159, busy=False)
    assert not lost(1000, busy=True), "it works for as long as it likes"
    assert not lost(1059, busy=False)
    assert lost(1061, busy=False)
    assert not lost(1062, busy=False, request=2 * SLOWEST)
    assert not lost(1062, busy=False, answer=2 * SLOWEST)
    assert lost(1065, busy=False, request=2 * SLOWEST, answer=2 * SLOWEST)
    assert not lost(1119, busy=False, again=1)
    assert lost(1121, busy=False, again=1)
    liveness.mark_offline("north", "no route")
    assert not liveness.lost_in_transit("north", 100, 0), "a site that is offline is asked when it is back"
    assert not liveness.lost_in_transit("west", 100, 0)
