"""The weights that small jobs of every family end with, by the command and from the folder of its run."""

from functools import cache

import pytest
import torch
import yaml

from tests.thorough import mostly_long

from . import weights as contract

STORED = yaml.safe_load(contract.STORED.read_text())
THE_SAME_PROCESSOR = contract.probe() == STORED["probe"]


@pytest.fixture(scope="session")
def train(command, tmp_path_factory):
    """`train(name)` gives the weights that a job ended with; it is trained once."""
    folder = tmp_path_factory.mktemp("weights")
    drawn = command("data", "synth", *contract.DRAWN_PICTURES, folder=folder)
    assert drawn.code == 0, drawn.err
    contract.write_cases(folder / "drawn")

    @cache
    def final_weights(name):
        (folder / "job.yaml").write_text(yaml.safe_dump(contract.job(name), sort_keys=False))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("training.wiring.render_report", lambda data: "")  # takes longer than the run
            ended = command("train", "job.yaml", "--out", name, folder=folder)
        assert ended.code == 0, ended.err
        return contract.final_weights(folder / name)

    return final_weights


def test_the_list_is_of_these_jobs():
    assert list(STORED["jobs"]) == list(contract.JOBS)
    assert {name for name, stored in STORED["jobs"].items() if "digest" not in stored} == contract.NOISY


@pytest.mark.parametrize(
    "name", mostly_long(contract.JOBS, "fedauto", "fedperl", "fedclf", "masked", "personalized", "cases")
)
def test_a_job_ends_with_the_stored_weights(train, name):
    found, stored = train(name), STORED["jobs"][name]
    assert contract.summary(found)["numbers"] == stored["numbers"]
    assert contract.distance(found, stored) <= contract.TOLERANCE
    if THE_SAME_PROCESSOR and "digest" in stored:
        assert contract.digest(found) == stored["digest"]


def test_a_change_of_one_bit_is_another_digest():
    tensors = {"a": torch.zeros(3), "b": torch.ones(2)}
    changed = {**tensors, "b": torch.tensor([1.0, 1.0 + 2**-23])}
    assert (
        len({contract.digest(tensors), contract.digest(changed), contract.digest({"a": torch.zeros(3)})}) == 3
    )


def test_a_change_of_a_thousandth_is_beyond_the_tolerance():
    tensors = {"a": torch.linspace(-1, 1, 100).reshape(10, 10)}
    stored = contract.summary(tensors)
    assert contract.distance(tensors, stored) == 0
    assert contract.distance({"a": tensors["a"] * 1.001}, stored) > contract.TOLERANCE
    assert contract.distance({"a": tensors["a"] + 1e-3}, stored) > contract.TOLERANCE
