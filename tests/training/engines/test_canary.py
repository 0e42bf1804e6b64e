"""The canary: it finds what would cost a night, and leaves no trace in weights, stores, ledgers or logs."""

import json

import pytest
import torch

from tests.thorough import mostly_long
from tests.training.engines.test_flare_same_weights import bytes_of
from training.algorithms.objectives.dp_sgd import DPSGDTask
from training.algorithms.objectives.supervised import SupervisedTask
from training.errors import QuorumError
from training.jobs.job import Job
from training.rounds.requests import CANARY, STEPS

GROUPNORM = {"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"}}
MOCO = {
    "name": "moco",
    "queue": 16,
    "batch_size": 8,
    "optimizer": {"name": "sgd", "lr": 0.03, "momentum": 0.9, "state": "keep"},
}
DP = {"name": "dp-sgd", "batch_size": 8, "noise_multiplier": 1.0, "optimizer": {"name": "sgd", "lr": 0.1}}
EVERYTHING_KEPT = {
    "rounds": 2,
    "sync": {"name": "except", "groups": ["norm"], "average_at_end": False},
    "objective": {"optimizer": {"name": "adam", "lr": 0.01, "state": "keep"}},
    "aggregator": {"name": "q-ffl"},
}
STATEFUL = {
    "kept and compressed": {"federate": EVERYTHING_KEPT, "compression": {"up": "8-bit", "exact_below": 8}},
    "features": {
        "stages": [
            {
                "stage": "pretrain",
                "rounds": 2,
                "objective": MOCO,
                "exchange": {"name": "features"},
                "aggregator": {"name": "fedavg"},
            }
        ]
    },
    "masks": {"privacy": {"secure_aggregation": {"fewest": 3}}},
}


def far(job, canary=True):
    """The job as it runs over a network."""
    network = job.engine.network.model_copy(update={"canary": canary})
    engine = job.engine.model_copy(update={"name": "nvflare", "network": network})
    return job.model_copy(update={"engine": engine})


def kept(folder):
    """What the hospitals' stores hold."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "server" not in path.relative_to(folder).parts
    }


def asked_of(line):
    """Lists what a site is asked."""
    heard = []
    line.before_ask = lambda header: heard.append(json.loads(header)["ask"])
    return heard


def out_of_memory(name):
    """A `batches` that fails at one hospital."""
    plain = SupervisedTask.batches

    def batches(self, epoch):
        if self._work.client == name and self._work.steps:
            raise torch.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 2.00 GiB.\nsecret: /data/a.png"
            )
        yield from plain(self, epoch)

    return batches


@pytest.mark.parametrize("kind", mostly_long(STATEFUL, "kept and compressed"))
def test_nothing_of_it_is_left(kind, own_job, net):
    job = own_job(engine={"update_limit": None}, **STATEFUL[kind])  # so small a model may go far
    with_, without = net(far(job), "with"), net(far(job, canary=False), "without")
    heard = [asked_of(line) for line in with_.channels.values()]
    not_heard = [asked_of(line) for line in without.channels.values()]
    first, second = with_.run(), without.run()
    assert [asks.count(CANARY) for asks in heard] == [1, 1, 1, 1]
    assert all(asks.index(CANARY) < asks.index("fit") for asks in heard)
    assert not any(CANARY in asks for asks in not_heard)
    assert bytes_of(first) == bytes_of(second)
    left, otherwise = kept(with_.folder), kept(without.folder)
    assert left.keys() == otherwise.keys()
    assert kind == "masks" or left == otherwise  # keys are drawn anew in every run
    assert [{**line, "seconds": 0} for line in with_.metrics()] == [
        {**line, "seconds": 0} for line in without.metrics()
    ]


@pytest.mark.long
def test_it_gives_nothing_away_that_an_account_would_have_to_count(own_job, net, monkeypatch):
    """Private steps that nobody sees are not counted; those of the rounds are."""
    steps = []
    plain = DPSGDTask.loss

    def loss(self, batch):
        steps.append(self._work.client)
        return plain(self, batch)

    monkeypatch.setattr(DPSGDTask, "loss", loss)
    changes = {
        "stages": [{"stage": "federate", "rounds": 1, "objective": DP, "aggregator": {"name": "fedavg"}}]
    }
    there = net(far(own_job(model=GROUPNORM, **changes)))
    there.run()
    [line] = there.metrics()
    told = line["models"]["global"]["scalars"]
    for name in there.channels:
        assert steps.count(name) == told[name]["private_steps"] + STEPS


def test_two_batches_of_each_hospital_are_tried(own_job, net, monkeypatch):
    seen = []
    plain = SupervisedTask.loss

    def loss(self, batch):
        seen.append((self._work.client, self._work.steps))
        return plain(self, batch)

    monkeypatch.setattr(SupervisedTask, "loss", loss)
    federate = {"objective": {"epochs": 3, "batch_size": 4}, "participation": 0.5}
    there = net(far(own_job(federate=federate)))
    there.run()
    assert [seen.count((name, STEPS)) for name in there.channels] == [2, 2, 2, 2]
    assert "0-federate canary: 2 batches at 4 of 4" in there.progress.getvalue()


def test_a_hospital_that_cannot_train_is_named_before_anything_is_trained(own_job, net, monkeypatch):
    monkeypatch.setattr(SupervisedTask, "batches", out_of_memory("east"))
    there = net(far(own_job()))
    heard = {name: asked_of(line) for name, line in there.channels.items()}
    with pytest.raises(QuorumError) as refused:
        there.run()
    assert "east: east cannot train: memory: its memory is too small for this" in str(refused.value)
    assert "3 of 4 can, 4 are needed" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert not any("fit" in asks for asks in heard.values())
    monkeypatch.undo()
    assert there.run().summary["test"]


def test_with_a_minimum_the_others_begin_without_it(own_job, net, monkeypatch):
    monkeypatch.setattr(SupervisedTask, "batches", out_of_memory("east"))
    there = net(far(own_job(engine={"min_clients": 3})))
    there.run()
    assert "2 batches at 3 of 4; cannot train: east: east cannot train" in there.progress.getvalue()


def test_it_is_no_part_of_a_jobs_identity(own_job):
    job = own_job()
    assert far(job).digest == far(job, canary=False).digest == job.digest
    slow = Job.model_validate({**job.resolved(), "engine": {"network": {"heartbeat_timeout": 5}}})
    assert slow.digest != job.digest
    assert far(slow).digest == far(slow, canary=False).digest == slow.digest
