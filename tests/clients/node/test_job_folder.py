"""A job of another version: a node says what of it it does not know, and nothing of its machine."""

import base64
import json

import pytest

from clients.federation.job_folder import pack, unpack
from clients.node.hospital import open_gateway
from tests.clients.node.talk import handshake
from training.engines.calls import SiteRefusedError, raise_refusal
from training.errors import JobError, public_message


def packed(content):
    return base64.b64encode(json.dumps(content).encode()).decode()


@pytest.fixture
def newer(small_job):
    """The job as a version to come might send it."""
    content = small_job.resolved()
    content["engine"]["network"]["patience"] = 3
    content["stages"][0]["sync"] = {"name": "except", "groups": ["norm"], "also": "x"}
    return content


def test_a_job_that_is_known_is_the_same(small_job):
    assert unpack(pack(small_job)) == small_job


def test_a_hospital_names_the_places_that_it_does_not_know(newer, kit, small_job):
    gateway = open_gateway(kit, packed(newer), "skin-1")
    told = handshake(gateway, small_job)
    with pytest.raises(SiteRefusedError, match="does not understand the job; install the version") as caught:
        raise_refusal(told)
    assert "engine.network" in f"{caught.value}"
    assert "patience" in f"{caught.value}"
    assert str(kit.path) not in told
    assert "/" not in told


def test_much_that_is_not_known_is_counted_and_leaves_as_it_is(small_job):
    content = small_job.resolved()
    content["engine"] |= {"workers": 0, "threads_per_client": 0, "min_clients": 0, "precision": "x"}
    with pytest.raises(JobError, match="and 1 more") as caught:
        unpack(packed(content))
    assert public_message(caught.value) == f"{caught.value}"
