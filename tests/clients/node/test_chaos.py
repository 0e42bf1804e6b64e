"""A run survives what networks and people do: the short form of `benchmarks/chaos.py`."""

import pytest

from benchmarks.loopback.federated import SERVER


@pytest.fixture(scope="module")
def net(federated):
    return federated({"north": 26, "south": 29})


def test_cut_killed_and_restarted_it_ends_with_the_same_bytes(net, own_job, wait_until, ended, same_as_here):
    """One hospital is cut off; then the coordinator and the other hospital lose their power."""
    job = own_job(net, rounds=16, network={"silence": 20})
    net.send(job, net.folder / "there")
    wait_until(lambda: net.journal("tiny"), "the first round")
    net.cables["south"].cut()
    for name in (SERVER, "north"):
        net.kill(name)
    done = len(net.journal("tiny"))
    assert done < 16, "nothing was under way any more"
    for name in (SERVER, "north"):
        net.start(name)
    wait_until(lambda: net.cables["south"].refused, "south to look for the coordinator")
    net.cables["south"].mend()
    ended(net)
    assert any("the coordinator lost the job" in line for _, line in net.said)
    lines = net.journal("tiny")
    assert [line["round"] for line in lines] == [*range(1, 17)]
    assert all(line["answered"] == line["asked"] == ["north", "south"] for line in lines)
    same_as_here(net, job)
    # What FLARE kept of the jobs is gone, and their logs are not.
    assert list((net.kits / SERVER / "private" / "jobs").iterdir()) == []
    assert list((net.results("tiny") / "logs").iterdir()) != []
