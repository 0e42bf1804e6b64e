"""Answers that arrive at once: read one after another, and kept on disk where there is no room in memory."""

import threading
from contextlib import suppress

import pytest

from tests.training.engines.test_flare_same_weights import bytes_of
from training.engines import network_round as module
from training.tensor_file import Spool

ALONE = 0.2  # seconds in which a second answer would have come to be read, too


@pytest.fixture
def crowded(monkeypatch):
    """Answers to a training wait for each other; tells how many were ever read at the same time."""
    together = []
    read, meeting = module.read_response, threading.Barrier(2)

    def watched(header, body, stamp):
        if stamp.ask == "fit":
            with suppress(threading.BrokenBarrierError):
                meeting.wait(ALONE)
                together.append(stamp.client)
            meeting.reset()
        return read(header, body, stamp)

    monkeypatch.setattr(module, "read_response", watched)
    return together


@pytest.fixture
def spooled(monkeypatch):
    """The names of the threads that put an answer on disk."""
    names, write = [], Spool.write

    def watched(self, tensors):
        names.append(threading.current_thread().name)
        return write(self, tensors)

    monkeypatch.setattr(Spool, "write", watched)
    return names


def test_answers_that_come_at_once_are_read_one_after_another_and_wait_on_disk(
    own_job, net, here, monkeypatch, crowded, spooled
):
    # A site that waits here for the others has nothing to do; it must not be asked again for that.
    job = own_job(federate={"rounds": 1}, engine={"network": {"heartbeat_timeout": 60}})
    there = net(job)
    all_trained = threading.Barrier(len(there.channels))

    def hold(header, answer):
        if '"ask": "fit"' in header:
            all_trained.wait(120)
        return answer

    for channel in there.channels.values():
        channel.after_ask = hold
    monkeypatch.setattr(Spool.__init__, "__defaults__", (1,))
    far = there.run()
    assert crowded == []
    assert sum(name.startswith("ask-") for name in spooled) >= len(there.channels)
    assert "MainThread" not in spooled
    assert bytes_of(far) == bytes_of(here(job))
