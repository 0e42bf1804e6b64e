from dataclasses import replace

import numpy as np
import pytest

from registry.bundle.labels import Label
from training.data.dataset import SPLITS
from training.federation.census import Census
from training.jobs.pipeline import gaps

LABELS = (
    Label(code="benign", name="Benign", malignancy="benign"),
    Label(code="malignant", name="Malignant", malignancy="malignant"),
)
TEST, TRAIN = SPLITS.index("test"), SPLITS.index("train")


@pytest.fixture
def census():
    """Two hospitals with 40 pictures of each kind of each subgroup in each split, and none undeclared."""
    held = np.full((4, 3, 3), 40)
    held[:, 2], held[:, :, 2] = 0, 0
    return Census(("light", "dark"), ("benign", "malignant"), {"north": held, "south": held.copy()})


def changed(census, client, place, value):
    counts = {name: held.copy() for name, held in census.counts.items()}
    counts[client][place] = value
    return replace(census, counts=counts)


def test_a_subgroup_without_test_pictures_is_named(census):
    for client in census.counts:
        census = changed(census, client, (TEST, 1), 0)
    (said,) = gaps(census, LABELS)
    assert said.startswith("dark: no labelled test pictures")
    assert "data.split.test" in said


@pytest.mark.parametrize(
    ("north", "south", "words"),
    [
        (0, 0, "no malignant test pictures"),
        (1, 0, "1 malignant test picture: were every one found, a sensitivity of 0.03"),
        (2, 1, "3 malignant test pictures: were every one found, a sensitivity of 0.29"),
        (8, 8, "16 malignant test pictures: were every one found, a sensitivity of 0.79"),
    ],
)
def test_few_malignant_test_pictures_of_all_hospitals_are_told_with_what_they_can_show(
    census, north, south, words
):
    census = changed(changed(census, "north", (TEST, 1, 1), north), "south", (TEST, 1, 1), south)
    (said,) = gaps(census, LABELS)
    assert said.startswith(f"dark: {words}")


def test_seventeen_are_enough_to_exclude_what_is_asked_for(census):
    census = changed(changed(census, "north", (TEST, 1, 1), 9), "south", (TEST, 1, 1), 8)
    assert gaps(census, LABELS) == []


def test_a_hospital_that_no_subgroup_knows_is_named(census):
    held = census.counts["south"].copy()
    held[:, 2] = held[:, :2].sum(axis=1)
    held[:, :2] = 0
    census = replace(census, counts={**census.counts, "south": held})
    (said,) = gaps(census, LABELS)
    assert said.startswith("south: none of its 160 training pictures is of a declared subgroup")


def test_a_job_that_judges_nobody_is_told_so_once(census):
    counts = {name: held.copy() for name, held in census.counts.items()}
    for held in counts.values():
        held[TEST] = 0
    (said,) = gaps(replace(census, counts=counts), LABELS)
    assert said.startswith("no hospital has a labelled test picture")


def test_pictures_of_the_server_and_of_unseen_clients_judge_no_subgroup(census):
    census = replace(
        census, counts={**census.counts, "server": census.counts["north"] * 0}, unseen=("south",)
    )
    census = changed(census, "north", (TEST, 0, 1), 3)
    assert [line[:7] for line in gaps(census, LABELS)] == ["light: "]
