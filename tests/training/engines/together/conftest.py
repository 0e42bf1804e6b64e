"""Processes that train together, which are ended with the test that started them."""

from multiprocessing import active_children

import pytest

from clients.store import ClientStore
from tests.training.engines.together.asked import job_of
from training.engines.in_process import ClientAppParts
from training.engines.together.trainers import TrainingProcesses


@pytest.fixture
def trainers(make_job, federate_block, dataset, tmp_path):
    """`trainers(silence=600, again=0)`: two processes, started; they are ended in the end."""
    made = []

    def start(around=lambda parts: parts, **settings):
        job = job_of(make_job, federate_block, 2)
        parts = around(ClientAppParts(job, dataset, ClientStore(tmp_path / "clients")))
        made.append(TrainingProcesses(parts, 2, tmp_path / "together", **{"again": 0, **settings}))
        return job, made[-1]

    yield start
    for each in made:
        each.close()
    assert not [child for child in active_children() if child.name.startswith("train-")]
