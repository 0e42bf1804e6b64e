from dataclasses import replace

import numpy as np
import pytest
import torch

from registry.bundle.labels import Label
from training.data.dataset import SPLITS, Examples
from training.errors import DataError, MessageError
from training.messages import Broadcast, Update
from training.rounds.census import CENSUS, Census, count_pictures, take_census


def counted(dataset, client):
    """The same by a plain loop; -1 is the last place of both."""
    counts = np.zeros((4, 3, 3), dtype=int)
    for split, name in enumerate(SPLITS):
        examples = dataset.examples(client, name)
        for subgroup, label in zip(examples.subgroups, examples.labels, strict=True):
            counts[split, subgroup, label] += 1
    return counts


@pytest.fixture
def unlabelled(make_dataset):
    """North's first two training pictures have no label."""
    dataset = make_dataset()
    examples = dataset.examples("north", "train")
    labels = np.where(np.arange(len(examples)) < 2, -1, examples.labels)
    examples = Examples(examples.images, examples.rows, labels, examples.subgroups, examples.lesions)
    dataset.held["north", "train"] = examples
    return dataset


def test_pictures_are_counted_by_split_subgroup_and_class(unlabelled):
    for client in unlabelled.clients:
        np.testing.assert_array_equal(count_pictures(unlabelled, client), counted(unlabelled, client))


def test_the_census_that_clients_answer_is_the_census_of_the_data(unlabelled, make_client):
    updates = [
        take_census(Broadcast(name, CENSUS, 0, CENSUS), make_client(name, unlabelled))
        for name in unlabelled.clients
    ]
    asked = Census.from_updates(updates, unlabelled.subgroups, ["benign", "malignant"])
    known = Census.of_dataset(unlabelled)
    assert asked.table() == known.table()
    assert list(asked.counts) == ["north", "south", "west"]


def test_who_holds_labelled_pictures_of_what(unlabelled):
    census = Census.of_dataset(unlabelled)
    assert census.holders("train", ["light"]) == ("north", "west")
    assert census.holders("train", ["dark"]) == ("north", "south")
    assert census.holders("test", ["undeclared"]) == ("west",)
    assert census.holders("train", census.all_subgroups) == ("north", "south", "west")
    assert census.held("north", "train", ["light"]) == 11  # 13, of which two have no label
    assert census.held("north", "train", ["light", "dark"]) == 16


def test_what_was_not_counted_is_told_with_both_numbers(unlabelled):
    census = Census.of_dataset(unlabelled)
    held = {
        name: sum(census.held(client, "train", [name]) for client in ("north", "south", "west"))
        for name in census.all_subgroups
    }
    assert census.not_counted("train", held) == {}
    fewer = {**held, "dark": held["dark"] - 1}
    assert census.not_counted("train", fewer) == {"dark": {"counted": held["dark"] - 1, "held": held["dark"]}}
    del fewer["dark"]
    assert census.not_counted("train", fewer) == {"dark": {"counted": 0, "held": held["dark"]}}


def test_a_client_without_pictures_is_refused_by_name(make_dataset):
    held = {"north": {"light": (5, 1, 1, 1), "dark": (2, 1, 1, 1)}, "judge": {"dark": (0, 0, 0, 2)}}
    Census.of_dataset(make_dataset(held)).check()
    dataset = make_dataset({**held, "idle": {"dark": (0, 0, 0, 0)}, "empty": {"light": (0, 0, 0, 0)}})
    with pytest.raises(DataError, match="no pictures at idle, empty; give each client some"):
        Census.of_dataset(dataset).check()


@pytest.mark.parametrize(
    ("dark", "said"),
    [
        ({"north": {"light": (0, 1, 1, 1), "dark": (0, 1, 1, 1)}}, "no client has a training picture"),
        (
            {"north": {"light": (5, 1, 1, 1), "dark": (0, 4, 1, 1)}},
            "no labelled training pictures of subgroup dark; remove it from",
        ),
    ],
)
def test_nobody_to_train_on_is_refused_by_name(make_dataset, dark, said):
    with pytest.raises(DataError, match=said):
        Census.of_dataset(make_dataset(dark)).check()


def test_an_answer_that_counts_other_classes_is_refused():
    update = Update("north", CENSUS, 0, CENSUS, tensors={CENSUS: torch.zeros(4, 3, 5, dtype=torch.int64)})
    with pytest.raises(MessageError, match=r"north counts \(4, 3, 5\) .*; the job has \(4, 3, 3\)"):
        Census.from_updates([update], ["light", "dark"], ["benign", "malignant"])


def test_the_server_and_unseen_clients_judge_nothing_and_need_no_training_pictures(make_dataset):
    sizes = {
        "north": {"light": (5, 1, 1, 1), "dark": (2, 1, 1, 1)},
        "server": {"light": (0, 4, 0, 0)},
        "far": {"light": (0, 0, 0, 6)},
    }
    dataset = replace(make_dataset(sizes), unseen=("far",))
    census = Census.of_dataset(dataset)
    census.check()
    assert census.holders("validation", census.all_subgroups) == ("north", "server")
    assert census.hospitals("validation", census.all_subgroups) == ("north",)
    assert census.hospitals("test", census.all_subgroups) == ("north",)
    assert [row["label"] for row in census.table() if row["client"] == "far"] == ["benign", "malignant"]


def test_a_subgroup_may_be_nobodys_any_more_where_clients_were_dismissed(make_dataset):
    census = Census.of_dataset(make_dataset({"north": {"light": (5, 1, 1, 1)}}))
    census.check(whole=False)
    with pytest.raises(DataError, match="no labelled training pictures of subgroup dark"):
        census.check()


def test_the_classes_of_unseen_clients_are_benign_and_malignant_whatever_the_jobs_are(make_dataset):
    labels = tuple(Label(code=code, name=code) for code in ("A", "B", "C"))
    dataset = replace(make_dataset({"far": {"light": (0, 0, 0, 6)}}), labels=labels, unseen=("far",))
    told = {row["label"]: row["n"] for row in Census.of_dataset(dataset).table()}
    assert told == {"benign": 4, "malignant": 2}
