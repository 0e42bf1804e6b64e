"""The bank of features against a deque."""

from collections import deque

import torch
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms.objectives.moco import FeatureQueue


@given(capacity=st.integers(1, 9), first=st.integers(0, 12), pushes=st.lists(st.integers(0, 12), max_size=5))
def test_first_in_is_first_out(capacity, first, pushes):
    rows = torch.arange(2.0 * (first + sum(pushes))).view(-1, 2)
    expected = deque(rows[:first].tolist(), maxlen=capacity)
    pictures = torch.arange(len(rows))
    bank = FeatureQueue(rows[:first], pictures[:first], capacity)
    at = first
    for count in pushes:
        bank.push(rows[at : at + count], pictures[at : at + count])
        expected.extend(rows[at : at + count].tolist())
        at += count
        assert bank.features.tolist() == list(expected)
        assert bank.features.shape[1] == 2
        assert rows[bank.pictures].tolist() == bank.features.tolist()
    assert rows.tolist() == torch.arange(2.0 * len(rows)).view(-1, 2).tolist()
