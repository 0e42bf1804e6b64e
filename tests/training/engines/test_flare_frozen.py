"""Frozen encoders and cases over a network: the bytes of one machine, and features made at each hospital."""

import pytest

from tests.training.engines.test_flare_same_weights import bytes_of
from training.jobs.disclosure_report import MASKED, disclosures, over_network
from training.jobs.job import Job
from training.privacy.secagg.messages import EARLIER, KEYS, LAYOUT, REQUESTS

HEAD = {"rounds": 2, "trainable": {"name": "head", "views": 1}}
LORA = {"rounds": 2, "trainable": {"name": "lora", "rank": 2}}
LAST = {"rounds": 2, "trainable": {"name": "last_blocks", "blocks": 1}}
FITS = {
    "rounds": 2,
    "progressive_resizing": {"rounds": 1, "image_size": 8},
    "objective": {"name": "supervised", "batch_size": 6, "label_smoothing": 0.1, "mixup": 0.4},
}
PRETRAIN = {
    "stage": "pretrain",
    "rounds": 1,
    "objective": {"name": "simclr", "batch_size": 8},
    "aggregator": {"name": "fedavg"},
}
CASES = {"unit": "lesion", "cases": {"slots": 2, "kinds": [], "facts": []}}


@pytest.fixture
def model(own_job, encoder_file):
    """A model whose encoder begins with weights from a file."""
    return {**own_job().model.model_dump(), "weights": encoder_file}


@pytest.fixture
def frozen_job(own_job, federate_block, model):
    """`frozen_job(federate, data, *closing)`: a job of the four hospitals with these stages."""

    def build(federate, data, *closing):
        stages = [federate_block(**federate), *closing]
        return Job.model_validate({**own_job(data=data).resolved(), "model": model, "stages": stages})

    return build


@pytest.fixture
def probe_job(own_job, model):
    """`probe_job(data, *before)`: a job of the four hospitals that probes the encoder, after these stages."""

    def build(data, *before):
        stages = [*before, {"stage": "probe", "rounds": 2, "neighbours": 5}]
        return Job.model_validate({**own_job(data=data).resolved(), "model": model, "stages": stages})

    return build


@pytest.mark.parametrize(
    ("federate", "data"),
    [
        pytest.param(HEAD, {}, id="head"),
        pytest.param(LAST, {}, id="last", marks=pytest.mark.long),
        pytest.param(LORA, {}, id="lora", marks=pytest.mark.long),
        pytest.param(HEAD, CASES, id="cases", marks=pytest.mark.long),
        pytest.param(LORA, CASES, id="lora of cases"),
        pytest.param(FITS, CASES, id="fits"),
    ],
)
def test_it_ends_with_the_bytes_of_one_machine(federate, data, frozen_job, net, here):
    job = frozen_job(federate, data)
    there = net(job)
    far, near = there.run(), here(job)
    assert bytes_of(far) == bytes_of(near)
    assert far.summary["test"] == near.summary["test"]
    assert len(there.metrics()) == 2


@pytest.mark.parametrize(
    ("data", "before"), [({}, (PRETRAIN,)), (CASES, ())], ids=["after pre-training", "cases"]
)
def test_a_probe_finds_over_a_network_what_it_finds_on_one_machine(data, before, probe_job, net, here):
    job = probe_job(data, *before)
    far, near = net(over_network(job)).run(), here(job)
    assert bytes_of(far) == bytes_of(near)
    key = f"{len(before)}-probe"
    for name in ("linear", "neighbours"):
        assert far.stages[key].outcome.facts[name] == near.stages[key].outcome.facts[name]
        assert far.stages[key].outcome.facts[name]["n"] > 0
    assert "by_client" not in far.stages[key].outcome.facts, "counts of four hospitals travel under masks"


def test_what_a_probe_has_hospitals_send_is_in_the_table(probe_job, net, heard):
    job = over_network(probe_job({}))
    there = net(job)
    answers, sent = heard(there), {}
    there.run()
    for header, tensors in answers:
        sent.setdefault(header.ask, []).append(set(tensors))
    table = {row.topic: row for row in disclosures(job, ("north", "south", "east", "west"))}
    assert table.keys() == {
        "introduction", "census", "canary", "weights", "scalars", "counts", "neighbours"
    }  # fmt: skip
    assert sent.keys() - set(REQUESTS) == {"census", "canary", "embed", "fit", "test", "neighbours"}
    assert sent["embed"] == [set()] * 4
    assert all(tensors == {"head.weight", "head.bias"} for tensors in sent["fit"])
    assert table["weights"].coordinator == "its model, after every round"
    for ask, topic in (("test", "counts"), ("neighbours", "neighbours")):
        assert table[topic].coordinator == MASKED
        assert all({KEYS, LAYOUT} <= tensors <= {KEYS, LAYOUT, EARLIER} for tensors in sent[ask])


@pytest.mark.long
@pytest.mark.parametrize("masks", [False, True], ids=["in the clear", "under masks"])
def test_folds_over_a_network_are_those_of_one_machine(own_job, model, net, here, masks):
    stages = [
        {"stage": "federate", "fit": "converged", "trainable": {"name": "head"}},
        {"stage": "personalize", "strategy": {"name": "none"}},
        {"stage": "export"},
        {"stage": "calibrate"},
    ]
    split = {"train": 0.7, "validation": 0, "calibration": 0, "test": 0.3}
    plain = own_job().resolved()
    plain["data"] |= {"crossfit": 2, "split": split}
    privacy = {"min_count": 1, "counts": {"masks": masks}}
    job = Job.model_validate({**plain, "model": model, "privacy": privacy, "stages": stages})
    far, near = net(job).run(), here(job)
    one, other = (ran.stages["0-federate"].outcome.folds["global"] for ran in (far, near))
    assert len(one) == 2
    for mine, its in zip(one, other, strict=True):
        assert all((mine[name] == its[name]).all() for name in mine)
    told = far.stages["3-calibrate"].outcome.facts
    assert told == near.stages["3-calibrate"].outcome.facts
    assert told["models"]["global"]["temperature"]["n"] > 20
