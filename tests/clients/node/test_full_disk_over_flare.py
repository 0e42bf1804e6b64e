"""A coordinator whose disk is full when a round is done: the run waits for room and ends as it would have."""

import os

import pytest

from benchmarks.loopback.federated import ROOT
from tests.clients.node.federated import DEEDS

pytestmark = pytest.mark.long
PICTURES = {"north": 26, "south": 29}
TIMES = 2


def test_the_run_waits_and_ends_with_the_same_bytes(federated, own_job, ended, same_as_here, tmp_path):
    net = federated(
        PICTURES, PYTHONPATH=os.pathsep.join(map(str, (DEEDS, ROOT))), DERMFED_TEST_DEEDS=str(tmp_path)
    )
    for number in range(TIMES):
        (tmp_path / f"full {number}").touch()
    job = own_job(net, rounds=3)
    net.send(job, net.folder / "there")
    ended(net)
    assert not list(tmp_path.glob("full*"))
    said = [text for _, text in net.said]
    assert sum("the coordinator's disk is full; the run waits" in text for text in said) == TIMES
    assert sum("No space left on device" in text for text in said) >= TIMES
    same_as_here(net, job)
