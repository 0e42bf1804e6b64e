"""A hospital that is disabled while a run is under way: what its process says is heard no more."""

import json
from functools import partial

import pytest

from clients.federation.site_status import FILE, REASON, DisabledHospitals
from training.engines.flare.calls import ChannelError, GuardedChannel

OTHERS = ["north", "south", "west"]
ALL = ["north", "south", "east", "west"]


@pytest.fixture
def disable(tmp_path):
    """`disable(*names)`: these hospitals are disabled, in the file that FLARE keeps."""

    def write(*names):
        (tmp_path / FILE).write_text(json.dumps({"disabled_clients": names}))

    return write


@pytest.fixture
def guarded(tmp_path):
    """`guarded(net)`: its channels as the coordinator makes them; the hospitals' own ends, by name."""

    def guard(net):
        ends = dict(net.channels)
        refuse = DisabledHospitals(tmp_path).refuse
        net.channels = {name: GuardedChannel(end, partial(refuse, name)) for name, end in ends.items()}
        return ends

    return guard


def asks_fit(header, round_):
    read = json.loads(header)
    return (read["ask"], read["round"]) == ("fit", round_)


@pytest.mark.parametrize("guard", [True, False])
def test_an_answer_of_a_disabled_hospital_is_dropped_and_rounds_go_on(own_job, net, disable, guarded, guard):
    """Its process has the request of round 2 already. Without the guard it takes part to the end."""
    there = net(own_job(federate={"rounds": 3}, engine={"min_clients": 3}))
    ends = guarded(there) if guard else dict(there.channels)

    def after(header, answer):
        if asks_fit(header, 2):
            disable("east")
        return answer

    def before(header):
        if json.loads(header)["ask"] == "test":
            disable()

    ends["east"].after_ask = after
    ends["north"].before_ask = before
    there.run()
    lines = there.metrics()
    assert [line["answered"] for line in lines] == [ALL, *([OTHERS if guard else ALL] * 2)]
    assert (REASON in json.dumps(lines[1])) == (REASON in json.dumps(lines[2])) == guard


def test_a_run_that_needs_it_waits_and_is_the_same_once_it_is_enabled(
    own_job, net, here, disable, guarded, in_thread, wait_until
):
    job = own_job(federate={"rounds": 3})
    there = net(job)
    ends = guarded(there)
    done, ran = [], []

    def before(header):
        if asks_fit(header, 2) and not done:
            done.append(1)
            disable("east")

    ends["east"].before_ask = before
    thread = in_thread(lambda: ran.append(there.run()))
    wait_until(lambda: "waits for east" in there.progress.getvalue())
    assert REASON in there.coordinator.status.offline["east"]
    assert len(there.metrics()) == 1
    disable()
    thread.join(120)
    assert [line["answered"] for line in there.metrics()] == [ALL] * 3
    mine, undisturbed = (
        result.stages["0-federate"].outcome.models["global"] for result in (ran[0], here(job))
    )
    assert all((mine[name] == undisturbed[name]).all() for name in undisturbed)


CALLS = {
    "handshake": ("hello", 1.0),
    "register": (1.0,),
    "join": ("{}", 1.0),
    "ask": ("{}", b"", 1.0, lambda: None),
    "ping": (1.0,),
}


@pytest.mark.parametrize("method", CALLS)
def test_to_a_disabled_hospital_nothing_is_sent(disable, tmp_path, method):
    calls = []

    class End:
        def __getattr__(self, name):
            return lambda *arguments: calls.append(name)

    channel = GuardedChannel(End(), partial(DisabledHospitals(tmp_path).refuse, "east"))
    disable("north")
    getattr(channel, method)(*CALLS[method])
    assert calls == [method], "the control"
    disable("north", "east")
    with pytest.raises(ChannelError, match="operator has disabled it"):
        getattr(channel, method)(*CALLS[method])
    assert calls == [method]
