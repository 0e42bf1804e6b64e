"""A run that is killed when its second round is saved ends with the bytes of one that was not."""

import pytest
import torch

from tests.thorough import mostly_long
from tests.training.conftest import withheld
from tests.training.jobs.stages.test_federate_cases import CASES, FITS, OfCases

DRO = {"name": "group-dro", "step_size": 0.7, "adjustment": 0.3}
FEDIRM = {"name": "fedirm", "batch_size": 6, "ramp": 2, "max_entropy": 1.0}
CASE_BLOCKS = {
    "data": {"unit": "lesion", "cases": CASES},
    "model": {"options": {"channels": [4, 4, 8, 8]}, "flips": True},
}


def without_labels(data):
    """The data whose southern and western training pictures have no label."""
    return withheld(data, {"south": 0, "west": 0})


# What each changes of three rounds of FedAvg, what of the job, and what of the data.
KINDS = {
    "full size since round 2": ({"progressive_resizing": {"rounds": 1, "image_size": 8}}, {}, None),
    "full size since round 3": ({"progressive_resizing": {"rounds": 2, "image_size": 8}}, {}, None),
    "cases, mixed": (FITS, CASE_BLOCKS, OfCases),
    "adapters": ({"trainable": {"name": "lora", "rank": 2}}, {"weights": True}, None),
    "mixture of cells": ({"aggregator": DRO}, {}, None),
    "relations": ({"objective": FEDIRM, "exchange": {"name": "relations"}}, {}, without_labels),
    "8 bits": ({}, {"compression": {"up": "8-bit", "down": "half", "exact_below": 100}}, None),
    "masks": ({}, {"privacy": {"secure_aggregation": {"fewest": 2, "survivors": 0.5}}}, None),
}


@pytest.mark.parametrize("kind", mostly_long(KINDS, "cases, mixed", "relations", "8 bits"))
def test_the_same_bytes_and_the_same_log(kind, make_job, run_job, run_killed, dataset, encoder_file):
    federate, blocks, change = KINDS[kind]
    if blocks.get("weights"):
        blocks = {"model": {"weights": encoder_file}}
    job = make_job(federate={"rounds": 3, **federate}, **blocks)
    data = dataset if change is None else change(dataset)
    whole, resumed = run_job(job, data), run_killed(job, data)
    assert all(torch.equal(resumed.weights()[name], tensor) for name, tensor in whole.weights().items())
    assert [{**line, "seconds": 0} for line in resumed.lines] == [
        {**line, "seconds": 0} for line in whole.lines
    ]
    assert len({line["loss"] for line in whole.lines}) == 3, "each round is another"
