"""Whole runs in which some of the clients judge a round."""

import pytest
import torch
from pydantic import ValidationError

FEW = (4, 6, 0, 4)
SIZES = {
    f"h{number:02d}": {"light": FEW, **({"dark": FEW} if number in (0, 5, 11) else {})}
    for number in range(12)
}
QUICK = {"rounds": 3, "participation": 0.2, "keep": "best"}


@pytest.fixture(scope="module")
def data(make_dataset):
    return make_dataset(SIZES, size=8)


def small(make_job, **federate):
    return make_job(federate={**QUICK, **federate}, data={"image_size": 8})


def without_clock(lines):
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def test_jobs_of_before_keep_their_digest(make_job):
    assert small(make_job).digest == small(make_job, evaluation_participation=1.0).digest
    assert small(make_job).digest != small(make_job, evaluation_participation=0.3).digest


def test_a_cohort_judges_each_round_everybody_the_test_and_no_weight_changes(
    make_job, run_job, data, tmp_path
):
    whole = run_job(small(make_job, keep="last"), data, out=tmp_path / "whole")
    ran = run_job(small(make_job, keep="last", evaluation_participation=0.3), data, out=tmp_path / "sampled")
    for name, value in whole.weights().items():
        assert torch.equal(value, ran.weights()[name])
    for line, before in zip(ran.lines, whole.lines, strict=True):
        told = line["evaluation"]
        assert (len(told["asked"]), told["answered"], told["of"]) == (7, 7, 12)
        assert {"h00", "h05", "h11"} <= set(told["asked"])
        assert told["missed"] == []
        assert line["metrics"]["n"] == told["n"] == 3 * 12 + 4 * 6
        low, high = told["intervals"]["accuracy"]
        assert low < line["metrics"]["accuracy"] < high
        assert told["by_subgroup"]["dark"]["clients"] == 3
        assert line["by_subgroup"]["dark"] == before["by_subgroup"]["dark"]  # all that hold any were asked
        assert low <= before["metrics"]["accuracy"] <= high
        assert "evaluation" not in before
        assert line["bytes_down"] < before["bytes_down"]
    assert len({tuple(line["evaluation"]["asked"]) for line in ran.lines}) > 1
    assert ran.result.summary["test"]["n"] == whole.result.summary["test"]["n"] == 15 * 4


def test_a_run_that_is_killed_goes_on_as_if_it_had_not_been(make_job, run_job, run_killed, data):
    job = small(make_job, evaluation_participation=0.3)
    expected, found = run_job(job, data), run_killed(job, data)
    assert without_clock(found.lines) == without_clock(expected.lines)
    for name, value in expected.weights().items():
        assert torch.equal(value, found.weights()[name])


def test_under_masks_one_cohort_judges_the_whole_stage_and_intervals_are_the_widest(make_job, run_job, data):
    job = make_job(
        federate={**QUICK, "rounds": 2, "evaluation_participation": 0.5},
        data={"image_size": 8},
        privacy={"counts": {"masks": True}},
    )
    ran = run_job(job, data)
    first, second = (line["evaluation"] for line in ran.lines)
    assert first["asked"] == second["asked"]
    assert first["answered"] == len(first["asked"]) == 6
    assert first["clients"] is None
    assert first["intervals"]["auroc"] is None
    low, high = first["intervals"]["accuracy"]
    assert high - low > 0.3
    assert ran.result.summary["test"]["n"] == 15 * 4


def test_noise_on_counts_and_a_cohort_do_not_go_together(make_job):
    with pytest.raises(ValidationError, match="how unlike clients are cannot be told from the noise"):
        make_job(federate={"evaluation_participation": 0.5}, privacy={"counts": {"epsilon": 2.0}})
