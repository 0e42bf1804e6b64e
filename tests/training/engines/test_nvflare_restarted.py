"""A hospital's process is killed and another takes its place, in one session: the weights are the same."""

import json
import threading

import pytest

from benchmarks.loopback.permissive import permissive
from clients.node.rejoin import Rejoin
from clients.node.request_handler import RequestHandler
from training.engines.nvflare.channel import ChannelError

KEPT = {
    "rounds": 2,
    "sync": {"name": "except", "groups": ["norm"]},
    "objective": {"optimizer": {"name": "adam", "lr": 0.01, "state": "keep"}},
}


def handler(net, name, rejoin):
    return RequestHandler(
        name,
        net.job,
        net.manifests[name],
        cache=net.cache,
        states=net.folder / name / "clients",
        say=net.said.append,
        rejoin=rejoin,
        guard=permissive(net.folder / name),
    )


def weights(result):
    models = result.stages["0-federate"].outcome.models["global"]
    return {name: tensor.numpy().tobytes() for name, tensor in models.items()}


@pytest.mark.parametrize(
    ("ask", "when"), [("fit", "answered"), pytest.param("evaluate", "asked", marks=pytest.mark.long)]
)
def test_it_is_asked_anew_and_nothing_is_trained_twice(own_job, net, here, ask, when):
    """Killed when it has trained and its answer is on the way, or while it works: nothing comes of it."""
    job = own_job(federate=KEPT, engine={"network": {"silence": 1.5, "deadline": 60}})
    there = net(job)
    file = there.folder / "east" / "session.json"
    channel, killed, over = there.channels["east"], [], threading.Event()
    dying = threading.Lock()
    channel.reception, ask_it = handler(there, "east", Rejoin(file, "session 1")), channel.ask

    def until_killed(header, body, seconds, alive):
        read = json.loads(header)
        with dying:  # where the machine is slow it is asked anew meanwhile
            lives = killed or (read["ask"], read["round"]) != (ask, 2)
            if not lives:
                if when == "answered":
                    ask_it(header, body, seconds, alive)
                again = Rejoin(file, "session 1")
                another = handler(there, "east", again)
                again.replay(another)
                channel.reception = another  # a process is heard of when it is back in the session
                killed.append(again.before)
        if lives:
            return ask_it(header, body, seconds, alive)
        over.wait(120)
        raise ChannelError("a process that is gone answers nothing")

    channel.ask = until_killed
    mine = weights(there.run())
    over.set()
    assert killed == [True]
    assert "east: its process was ended and started again" in there.progress.getvalue()
    assert all(line["answered"] == line["asked"] for line in there.metrics())
    assert mine == weights(here(job))
