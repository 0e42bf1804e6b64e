from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from clients.data.errors import SplitError
from clients.data.manifest import Row, components, linkage_keys
from clients.data.partition_rules import assign_splits
from training.data.dataset import SPLITS
from training.data.settings import SplitConfig

CONFIG = SplitConfig()


def split(rows: list[Row], seed: int = 0, clients: list[str] | None = None) -> NDArray[np.int64]:
    declared_holders = clients or [""] * len(rows)
    strata = [(home, row.skin_tone, row.label) for home, row in zip(declared_holders, rows, strict=True)]
    return assign_splits(CONFIG, rows, components([linkage_keys(row) for row in rows]), strata, seed=seed)


def many(count: int, seed: int = 0, prefix: str = "") -> list[Row]:
    """Patients with one to three lesions of one to three pictures, unevenly labelled and toned."""
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    while len(rows) < count:
        patient, tone = f"{prefix}p{len(rows)}", str(random.choice(["1", "2", "3"], p=[0.7, 0.25, 0.05]))
        for lesion in range(random.integers(1, 4)):
            label = str(random.choice(["NV", "MEL", "DF"], p=[0.8, 0.15, 0.05]))
            for view in range(random.integers(1, 4)):
                name = f"{patient}-{lesion}-{view}.jpg"
                rows.append(
                    Row(name, label, tone, "monk", lesion_id=f"{patient}-{lesion}", patient_id=patient)
                )
    return rows


def test_no_lesion_or_patient_is_in_two_splits_and_shares_are_met():
    rows = many(3000)
    splits = split(rows)
    of_patient: dict[str, set[int]] = {}
    for row, number in zip(rows, splits.tolist(), strict=True):
        of_patient.setdefault(row.patient_id, set()).add(number)
    assert all(len(found) == 1 for found in of_patient.values())
    proportions = np.bincount(splits, minlength=4) / len(rows)
    assert np.abs(proportions - [0.6, 0.1, 0.1, 0.2]).max() < 0.01


def test_each_subgroup_gets_its_shares_even_when_it_is_small():
    rows = many(3000)
    splits = split(rows)
    for tone in ("1", "2", "3"):
        mine = splits[[row.skin_tone == tone for row in rows]]
        proportions = np.bincount(mine, minlength=4) / len(mine)
        assert np.abs(proportions - [0.6, 0.1, 0.1, 0.2]).max() < 12 / len(mine)


def test_single_lesions_of_one_label_and_subgroup_are_shared_to_the_picture():
    rows = [Row(f"{number}.jpg", "MEL") for number in range(50)]
    assert np.bincount(split(rows)).tolist() == [30, 5, 5, 10]


def test_five_lesions_of_five_labels_do_not_all_go_to_training():
    rows = [Row(f"{number}.jpg", f"label {number}") for number in range(5)]
    assert len(set(split(rows).tolist())) >= 3


@pytest.mark.parametrize("known", [{"lesion_id": "l{}"}, {"patient_id": "p{}"}], ids=["lesion", "patient"])
def test_other_names_of_files_change_no_split_where_something_else_is_known(known):
    def splits(name):
        ids = [{column: form.format(n) for column, form in known.items()} for n in range(60)]
        return split([Row(name.format(n), "NV", **of) for n, of in enumerate(ids)]).tolist()

    assert splits("{}.jpg") == splits("IMG_{}.jpg")


def test_given_splits_are_kept_and_carry_their_kin_along():
    rows = [
        Row("a.jpg", lesion_id="1", split="test"),
        Row("b.jpg", lesion_id="1"),
        Row("c.jpg", split="calibration"),
    ]
    assert [SPLITS[number] for number in split(rows)] == ["test", "test", "calibration"]


def test_given_splits_count_towards_the_shares():
    given_rows = [Row(f"{number}.jpg", "NV", split="test") for number in range(20)]
    rows = given_rows + [Row(f"{number}.jpg", "NV") for number in range(20, 100)]
    counts = Counter(split(rows)[20:].tolist())
    assert sum(counts.values()) == 80
    assert abs(counts[0] - 60) + abs(counts[1] - 10) + abs(counts[2] - 10) + counts[3] <= 12


def test_given_splits_that_part_a_lesion_are_refused_by_name():
    rows = [
        Row("a.jpg", lesion_id="IL_1", patient_id="p", split="train"),
        Row("b.jpg", lesion_id="IL_2", patient_id="p", split="test"),
        Row("c.jpg", lesion_id="IL_3", split="test"),
    ]
    match = r"(?s)1 groups.*lesion IL_1 \(a.jpg\) is in train, lesion IL_2 \(b.jpg\) is in test"
    with pytest.raises(SplitError, match=match):
        split(rows)


def moved_without(rows: list[Row], drawn: dict[str, int]) -> list[int]:
    """How many pictures of others change their split when a patient is withdrawn, for every 40th patient."""
    found = []
    for patient in sorted({row.patient_id for row in rows})[::40]:
        left = [row for row in rows if row.patient_id != patient]
        found.append(
            sum(drawn[row.image] != number for row, number in zip(left, split(left).tolist(), strict=True))
        )
    return found


def test_who_is_withdrawn_moves_nobody_where_splits_are_given_and_many_where_they_are_drawn():
    """Splits are dealt along a line, and one fewer shifts all that come after: the learned is tested on."""
    rows = many(900)
    drawn = {row.image: number for row, number in zip(rows, split(rows).tolist(), strict=True)}
    given_splits = [replace(row, split=SPLITS[drawn[row.image]]) for row in rows]
    assert set(moved_without(given_splits, drawn)) == {0}
    assert np.mean(moved_without(rows, drawn)) > 0.05 * len(rows), "the control"
