"""Every family of algorithms over real processes: the bytes that one machine ends with."""

import json

import pytest

from tests.clients.node.federated import HOSPITALS, MASKS, data_of, running, weights
from tests.clients.node.test_over_flare_private import assert_near
from tests.families import FAMILIES

pytestmark = pytest.mark.long
# The others' exchanges need tensors of single clients, and are refused beside masks.
MASKED = {"fedavg": "0-federate", "group-dro": "0-federate", "fedmae": "0-pretrain"}


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    with running(tmp_path_factory.mktemp("federated")) as made:
        yield made


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_ends_with_the_bytes_of_one_machine(net, tiny, family):
    job = job_of(tiny, family)
    ended, _ = net.there(job)
    assert ended.returncode == 0, ended.stderr
    found = weights(here(net, job))
    assert found
    assert weights(net.results(family)) == found


@pytest.mark.parametrize("family", MASKED)
def test_a_round_under_masks_is_as_near_to_one_machine_as_is_promised(net, tiny, family):
    """Of one round: later ones train on what was rounded."""
    job = job_of(tiny, family)
    job |= {"name": f"{family}-masked", "stages": [{**job["stages"][0], "rounds": 1}]}
    ended, _ = net.there({**job, "privacy": MASKS})
    assert ended.returncode == 0, ended.stderr
    assert_near(net.results(job["name"]), here(net, job), len(HOSPITALS), stage=MASKED[family])


def job_of(tiny, family):
    """A family's job of all hospitals' pictures."""
    changes = FAMILIES[family]
    return {**tiny, **changes, "name": family, "data": {**data_of(), **changes.get("data", {})}}


def here(net, job):
    """The same on one machine; gives its folder."""
    path, near = net.folder / f"{job['name']}-here.json", net.folder / "here" / job["name"]
    path.write_text(json.dumps(job))
    ended = net.run(path, near)
    assert ended.returncode == 0, ended.stderr
    return near
