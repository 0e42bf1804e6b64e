"""Frozen encoders and cases over a network: the bytes of one machine, and features made at each hospital."""

import pytest
from safetensors.torch import save_file

from tests.training.engines.test_nvflare_same_weights import bytes_of
from training.jobs.job import Job
from training.models import build_model
from training.models.groups import float_state

HEAD = {"rounds": 2, "trains": {"name": "head", "views": 1}}
LAST = {"rounds": 2, "trains": {"name": "last", "blocks": 1}}
FITS = {
    "rounds": 2,
    "progressive_resizing": {"rounds": 1, "image_size": 8},
    "objective": {"name": "supervised", "batch_size": 6, "label_smoothing": 0.1, "mixup": 0.4},
}
CASES = {"unit": "lesion", "cases": {"slots": 2, "kinds": [], "facts": []}}


@pytest.fixture
def model(own_job, tmp_path):
    """A model whose encoder begins with weights from a file."""
    plain = own_job().model
    path = tmp_path / "encoder.safetensors"
    weights = float_state(build_model(plain, 5, seed=11))
    save_file({name.removeprefix("encoder."): tensor for name, tensor in weights.items()}, path)
    return {**plain.model_dump(), "weights": str(path)}


@pytest.fixture
def frozen_job(own_job, federate_block, model):
    """`frozen_job(federate, data, *closing)`: a job of the four hospitals with these stages."""

    def build(federate, data, *closing):
        stages = [federate_block(**federate), *closing]
        return Job.model_validate({**own_job(data=data).resolved(), "model": model, "stages": stages})

    return build


@pytest.mark.parametrize(
    ("federate", "data"),
    [(HEAD, {}), (LAST, {}), (HEAD, CASES), (FITS, CASES)],
    ids=["head", "last", "cases", "fits"],
)
def test_it_ends_with_the_bytes_of_one_machine(federate, data, frozen_job, net, here):
    job = frozen_job(federate, data)
    there = net(job)
    far, near = there.run(), here(job)
    assert bytes_of(far) == bytes_of(near)
    assert far.summary["test"] == near.summary["test"]
    assert len(there.metrics()) == 2


def test_a_model_of_cases_is_exported_and_calibrated_over_a_network(frozen_job, net, here):
    job = frozen_job({**HEAD, "rounds": 1}, CASES, {"stage": "export"}, {"stage": "calibrate"})
    far, near = net(job).run(), here(job)
    key = "2-calibrate"
    assert list(far.stages) == ["0-federate", "1-export", key]
    told = far.stages[key].outcome.facts
    assert told["patterns"].keys() == {"unknown"}
    assert told == near.stages[key].outcome.facts
    [bundle] = far.stages[key].outcome.bundles.values()
    assert bundle.manifest.schema_version == 3
    assert [one.pattern.name for one in bundle.manifest.patterns] in ([], ["unknown"])
