"""Sums modulo 2^32 and 2^64 are those of the numbers: whole ones exactly, others within what is stated."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from training.errors import DataError
from training.privacy.secagg.arithmetic import Entry, FixedPointVector, decode, encode, power_of_two

WEIGHTS = st.lists(st.floats(0.0078125, 1, width=32), min_size=1, max_size=6)


def summed(values, weights, total_weight):
    layout = [Entry.of("v", values[0], bound=64.0)]
    total = FixedPointVector.zeros(layout)
    for value, weight in zip(values, weights, strict=True):
        total.add(encode({"v": value}, layout, weight, total_weight))
    return decode(total, layout, total_weight)["v"], layout[0]


@given(WEIGHTS, st.sampled_from(["float32", "float64"]), st.data())
def test_a_weighted_sum_is_within_the_stated_tolerance(weights, dtype, data):
    numbers = arrays(dtype, (2, 3), elements=st.floats(-64, 64, width=32))
    values = [torch.from_numpy(data.draw(numbers)) for _ in weights]
    total_weight = power_of_two(sum(weights))
    found, entry = summed(values, weights, total_weight)
    exact = sum(w * v.double().numpy() for w, v in zip(weights, values, strict=True))
    np.testing.assert_allclose(
        found.numpy(), exact, rtol=1e-12, atol=entry.tolerance(len(weights), total_weight)
    )
    if dtype == "float32":
        # The bound of the module's docstring: n B W 2^-31.
        assert entry.tolerance(len(weights), total_weight) == len(weights) * 64 * total_weight * 2.0**-31


@given(
    st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=8),
    st.sampled_from([torch.int32, torch.int64]),
)
def test_whole_numbers_add_up_exactly(numbers, dtype):
    values = [torch.tensor([[number]], dtype=dtype) for number in numbers]
    found, _ = summed(values, [1.0] * len(values), power_of_two(len(values)))
    assert found.dtype == dtype
    assert found.item() == sum(numbers)


@pytest.mark.parametrize("bad", [64.1, -1e9, float("inf"), float("nan")])
def test_what_could_overflow_is_refused(bad):
    with pytest.raises(DataError, match=r"summed under masks up to 64.*bound"):
        summed([torch.tensor([0.0, bad])], [1.0], 1.0)


def test_counts_that_could_overflow_are_refused():
    summed([torch.tensor([2**28], dtype=torch.int32)] * 4, [1.0] * 4, 4.0)
    with pytest.raises(DataError, match="most that can be summed"):
        summed([torch.tensor([2**28 + 1], dtype=torch.int32)] * 4, [1.0] * 4, 4.0)


def test_a_client_without_a_tensor_adds_nothing():
    layout = [Entry.of("a", torch.zeros(2), 64.0), Entry.of("b", torch.zeros(3), 64.0)]
    vector = encode({"b": torch.tensor([1.0, 2.0, 3.0])}, layout, 1.0, 1.0)
    found = decode(vector, layout, 1.0)
    assert found["a"].tolist() == [0, 0]
    assert found["b"].tolist() == [1, 2, 3]


def test_masks_cancel_modulo_the_ring():
    layout = [Entry.of("a", torch.zeros(50), 64.0), Entry.of("b", torch.zeros(7, dtype=torch.int64))]
    own = encode({"a": torch.randn(50), "b": torch.arange(7)}, layout, 1.0, 1.0)
    hidden = FixedPointVector(own.narrow.copy(), own.wide.copy())
    hidden.add(own.mask(bytes(32)))
    assert (hidden.narrow != own.narrow).mean() > 0.9
    assert (hidden.wide != own.wide).all()
    hidden.subtract(own.mask(bytes(32)))
    np.testing.assert_array_equal(hidden.narrow, own.narrow)
    np.testing.assert_array_equal(hidden.wide, own.wide)
