"""Paired counts of two models' answers, against counting one picture after another."""

import numpy as np
import pytest

from registry.bundle.counts.lesions import PairedCounts
from registry.bundle.errors import CountsError

MALIGNANT = np.array([True, False, True])


def drawn(n, seed):
    """Labels, two models' answers and lesions of n pictures."""
    random = np.random.default_rng(seed)
    labels, before, after = random.integers(0, 3, (3, n))
    return labels, before, after, random.integers(0, n // 2, n)


def one_by_one(labels, before, after, lesions):
    """The same counts, by loops."""
    rows = np.zeros((5, 4), dtype=int)
    of_lesion = {}
    for label, first, second, lesion in zip(labels, before, after, lesions, strict=True):
        malignant = MALIGNANT[label]
        right = {label: (first == label, second == label)}
        right[3 if malignant else 4] = (MALIGNANT[first] == malignant, MALIGNANT[second] == malignant)
        for row, (was, is_) in right.items():
            rows[row] += (1, is_ and not was, was and not is_, 0)
            of_lesion[row, lesion] = of_lesion.get((row, lesion), 0) + 1
    for (row, _), n in of_lesion.items():
        rows[row, 3] += n**2
    return rows


def test_each_row_counts_what_changes():
    parts = [drawn(60, seed) for seed in (0, 1)]
    counted = [PairedCounts.count(*part, MALIGNANT) for part in parts]
    for part, found in zip(parts, counted, strict=True):
        assert (found.to_array() == one_by_one(*part)).all()
    together = counted[0] + counted[1]
    assert (together.to_array() == sum(one_by_one(*part) for part in parts)).all()
    assert (PairedCounts.zeros(3) + counted[0]).to_array().tolist() == counted[0].to_array().tolist()
    assert together.malignant == 3
    assert together.n[together.classes].sum() == 120


def test_what_was_sent_is_read_again_and_what_nobody_counts_is_refused():
    array = PairedCounts.count(*drawn(40, 2), MALIGNANT).to_array().astype(np.int32)
    assert (PairedCounts.from_array(array, 3).to_array() == array).all()
    for change, match in (
        ((0, 1, 10_000), "more changes than pictures"),
        ((0, 1, -1), "fewer than none"),
        ((0, 3, 0), "more changes than pictures"),
        ((3, 0, array[3, 0] + 1), "pictures by class and"),
    ):
        row, column, value = change
        broken = array.copy()
        broken[row, column] = value
        if column == 0:
            broken[row, 3] += 10
        with pytest.raises(CountsError, match=match):
            PairedCounts.from_array(broken, 3)
    with pytest.raises(CountsError, match="whole numbers of shape"):
        PairedCounts.from_array(array.astype(np.float32), 3)
    with pytest.raises(CountsError, match="whole numbers of shape"):
        PairedCounts.from_array(array, 4)
