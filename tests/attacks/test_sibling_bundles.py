"""Bundles of one job, which travel further than what a coordinator sees: margins minus cells.

A hospital has two test pictures of dark skin, and another has two of no declared tone. The attacker has every
bundle of the job. He subtracts the counts of subgroups from those of all pictures, and counts of one bundle
from those of another, and looks for a difference of fewer pictures than the least number of patients.
"""

import json
from itertools import combinations

import pytest

from tests.training.conftest import FEDERATE

LEAST, FEW = 5, 2
SIZES = {
    "north": {"light": (12, 8, 30, 20), "dark": (8, 6, 12, FEW)},
    "south": {"light": (8, 6, 12, 9), "dark": (12, 8, 30, 16), "undeclared": (6, 6, 6, FEW)},
}
STAGES = [
    {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "selection": {"proof": None}},
    {"stage": "export"},
    {"stage": "calibrate"},
]


@pytest.fixture
def bundles(make_job, make_dataset, run_job):
    """`bundles(min_count)`: what each bundle of a job says of its test."""

    def made(min_count):
        job = make_job(stages=[{**FEDERATE, "rounds": 1}, *STAGES], privacy={"min_count": min_count})
        folders = (run_job(job, make_dataset(SIZES)).out / "bundles").iterdir()
        return {one.name: json.loads((one / "bundle.json").read_text())["evaluation"] for one in folders}

    return made


def sizes_of(bundles):
    """How many pictures each test of each bundle has, by the bundle and the subgroup, `all` for all of it."""
    found = {}
    for name, evaluation in bundles.items():
        found[name, "all"] = evaluation["all"]["n"]
        found |= {(name, group): counts["n"] for group, counts in evaluation["by_subgroup"].items()}
    return found


def differences(bundles):
    """Every difference between two sums of tests, of up to three subgroups each."""
    tests = sizes_of(bundles)
    sums = {cells: sum(tests[cell] for cell in cells) for k in (1, 2, 3) for cells in combinations(tests, k)}
    nested = {
        (whole, parts)
        for whole in sums
        for parts in sums
        if len(whole) == 1
        and whole[0][1] == "all"
        and not {"all"} & {group for _, group in parts}
        and len({group for _, group in parts}) == len(parts)
    }
    same = {((one,), (other,)) for one, other in combinations(tests, 2) if one[1] == other[1] != "all"}
    return {(one, other): sums[one] - sums[other] for one, other in nested | same}


def test_no_difference_between_bundles_is_of_few_patients(bundles):
    made = bundles(LEAST)
    assert {"global", "light", "dark"} <= made.keys()
    found = differences(made)
    whole = ("global", "all")
    assert found[(whole,), (("global", "dark"), ("global", "light"))] == 0
    assert {cells: n for cells, n in found.items() if 0 < abs(n) < LEAST} == {}
    assert sizes_of(made)["global", "dark"] == 16  # those of north are in no count


def test_without_a_least_number_few_are_found(bundles):
    """The control: the two of no declared tone are what is left of all."""
    found = differences(bundles(1))
    assert FEW in {abs(n) for n in found.values()}
