"""The same job on one machine and over a network ends with the same bytes, family by family."""

import pytest
import torch

from tests.families import FAMILIES
from tests.thorough import mostly_long


def bytes_of(result):
    return {
        (key, model, name): tensor.numpy().tobytes()
        for key, done in result.stages.items()
        for model, weights in done.outcome.models.items()
        for name, tensor in weights.items()
    }


@pytest.mark.parametrize("family", mostly_long(FAMILIES, "fedauto", "fedperl"))
def test_every_family_ends_with_the_bytes_of_one_machine(family, own_job, net, here):
    job = own_job(engine={"update_limit": None}, **FAMILIES[family])  # so small a model may go far
    there = net(job)
    far, near = there.run(), here(job)
    assert bytes_of(far) == bytes_of(near)
    assert far.summary["test"] == near.summary["test"]
    assert [line["asked"] for line in there.metrics()]
    assert any(
        torch.count_nonzero(t)
        for t in far.stages["0-" + job.stages[0].stage].outcome.models["global"].values()
    )


def test_where_clients_run_is_no_part_of_a_jobs_identity(own_job):
    job = own_job()
    moved = job.model_copy(update={"engine": job.engine.model_copy(update={"name": "nvflare"})})
    assert moved.digest == job.digest
