"""A hospital that is disabled while a run is under way: what its process says is heard no more."""

import json
from functools import partial
from types import SimpleNamespace

import pytest

from clients.federation.status import DISABLED, DISABLED_FILE, DisabledHospitals
from tests.training.engines.test_flare_supervision import OTHERS, asks
from training.engines import flare_calls
from training.engines.calls import Channel, ChannelError

ALL = ["north", "south", "east", "west"]


@pytest.fixture
def disable(tmp_path):
    """`disable(*names)`: these hospitals are disabled, in the file that FLARE keeps."""

    def write(*names):
        (tmp_path / DISABLED_FILE).write_text(json.dumps({"disabled_clients": names}))

    return write


class Guarded:
    """A hospital's end, as the coordinator reaches it: every call looks whether it is disabled."""

    def __init__(self, end, refuse):
        self.end, self.refuse = end, refuse

    def __getattr__(self, method):
        def call(*arguments):
            self.refuse()
            result = getattr(self.end, method)(*arguments)
            self.refuse()
            return result

        return call


@pytest.fixture
def guarded(tmp_path):
    """`guarded(net)`: its channels as the coordinator makes them; the hospitals' own ends, by name."""

    def guard(net):
        ends = dict(net.channels)
        refuse = DisabledHospitals(tmp_path).refuse
        net.channels = {name: Guarded(end, partial(refuse, name)) for name, end in ends.items()}
        return ends

    return guard


@pytest.mark.parametrize("guard", [True, False])
def test_an_answer_of_a_disabled_hospital_is_dropped_and_rounds_go_on(own_job, net, disable, guarded, guard):
    """Its process has the request of round 2 already. Without the guard it takes part to the end."""
    there = net(own_job(federate={"rounds": 3}, engine={"min_clients": 3}))
    ends = guarded(there) if guard else dict(there.channels)

    def after(header, answer):
        if asks(header, "fit", 2):
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
    assert (DISABLED in json.dumps(lines[1])) == (DISABLED in json.dumps(lines[2])) == guard


def test_a_run_that_needs_it_waits_and_is_the_same_once_it_is_enabled(
    own_job, net, here, disable, guarded, in_thread, wait_until
):
    job = own_job(federate={"rounds": 3})
    there = net(job)
    ends = guarded(there)
    done, ran = [], []

    def before(header):
        if asks(header, "fit", 2) and not done:
            done.append(1)
            disable("east")

    ends["east"].before_ask = before
    thread = in_thread(lambda: ran.append(there.run()))
    wait_until(lambda: "waits for east" in there.progress.getvalue())
    assert DISABLED in there.coordinator.status.offline["east"]
    assert len(there.metrics()) == 1
    disable()
    thread.join(120)
    assert [line["answered"] for line in there.metrics()] == [ALL] * 3
    mine, undisturbed = (
        result.stages["0-federate"].outcome.models["global"] for result in (ran[0], here(job))
    )
    assert all((mine[name] == undisturbed[name]).all() for name in undisturbed)


CALLS = {
    "handshake": (("hello", 1.0), "{}"),
    "register": ((1.0,), "{}"),
    "join": (("{}", 1.0), "{}"),
    "ask": (("{}", b"", 1.0, lambda: None), ["{}", b"", 0]),
    "ping": ((1.0,), '{"busy": false}'),
}


@pytest.mark.parametrize("disabled_at", ["before", "meanwhile"])
@pytest.mark.parametrize("method", CALLS)
def test_nothing_is_sent_to_a_disabled_hospital_nor_taken_from_it(
    disable, tmp_path, monkeypatch, method, disabled_at
):
    monkeypatch.setattr(flare_calls, "set_call_context", lambda context: None)
    calls, during = [], []
    arguments, answer = CALLS[method]

    class Proxy:
        name, backend = "east", SimpleNamespace()

        def __call__(self, timeout):
            return self

        def __getattr__(self, called):
            def result(**_):
                calls.append(called)
                disable(*during)
                return answer

            return result

    refuse = partial(DisabledHospitals(tmp_path).refuse, "east")
    call = flare_calls.FlareCall(Proxy(), None, flare_calls.CallLeftovers(), None, refuse)
    channel = Channel("east", call, tmp_path, 60, None)
    during.append("north")
    getattr(channel, method)(*arguments)
    assert len(calls) == 1, "the control"
    during.append("east")
    if disabled_at == "before":
        disable("east")
    with pytest.raises(ChannelError, match="operator has disabled it"):
        getattr(channel, method)(*arguments)
    assert len(calls) == (1 if disabled_at == "before" else 2)
