"""Fewer bits a value: exact where it must be, as near as stated elsewhere, right in the mean where drawn."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from training.errors import MessageError
from training.privacy.compression.quantization import compressible, decode, encode, stochastic

VALUES = arrays(np.float32, (2, 3), elements=st.floats(-1e6, 1e6, width=32))


def test_by_hand():
    packed = encode("t", torch.tensor([[-2.0, 1.0], [0.5, 0.0]]), "8-bit")
    assert packed["wire/8-bit/t"].dtype == torch.int8
    # 127 v / 2: −127, 63.5 (to even: 64), 31.75, 0.
    assert packed["wire/8-bit/t"].tolist() == [[-127, 64], [32, 0]]
    assert packed["wire/scale/t"].item() == 2
    assert decode(packed)["t"].tolist() == [[-2.0, pytest.approx(128 / 127)], [pytest.approx(64 / 127), 0.0]]


TINY = torch.finfo(torch.float32).tiny


@given(VALUES)
def test_rounding_to_the_nearest_is_off_by_half_a_step(values):
    original = torch.from_numpy(values)
    scale = float(original.abs().max())
    for form, step in (("8-bit", 1 / 127), ("half", 2.0**-10)):
        found = decode(encode("t", original, form))["t"]
        assert found.dtype == torch.float32
        # A scale that is no normal number any more has fewer digits: such values may vanish.
        assert float((found - original).abs().max()) <= scale * step / 2 * 1.0001 + TINY


@given(VALUES)
def test_stochastic_rounding_is_off_by_less_than_a_step_and_repeatable(values):
    original = torch.from_numpy(values)
    drawn = [
        decode(encode("t", original, "8-bit", stochastic(torch.Generator().manual_seed(3))))["t"]
        for _ in range(2)
    ]
    assert torch.equal(*drawn)
    assert float((drawn[0] - original).abs().max()) <= float(original.abs().max()) / 127 * 1.0001 + TINY


def test_stochastic_rounding_is_right_in_the_mean():
    values = torch.tensor([1.0, 0.3, -0.123, 0.0039])
    random, draws = torch.Generator().manual_seed(0), 4000
    rounding = stochastic(random)
    total = sum(decode(encode("t", values, "8-bit", rounding))["t"].double() for _ in range(draws))
    # A step of 1/127, drawn 4000 times: six standard errors.
    np.testing.assert_allclose(total / draws, values, atol=6 * 0.5 / 127 / np.sqrt(draws))


def test_small_values_keep_their_digits_in_half_precision():
    tiny = torch.tensor([3e-9, -1e-9])  # float16 alone knows nothing below 6e-8
    np.testing.assert_allclose(decode(encode("t", tiny, "half"))["t"], tiny, rtol=1e-3)


def test_what_is_small_or_whole_stays_as_it_is():
    assert compressible(torch.zeros(10), 10)
    assert not compressible(torch.zeros(9), 10)
    assert not compressible(torch.zeros(0), 0)
    assert not compressible(torch.zeros(100, dtype=torch.int64), 10)


@pytest.mark.parametrize("scale", [None, torch.tensor(-1.0), torch.tensor(float("nan")), torch.ones(2)])
def test_a_form_without_its_scale_is_refused(scale):
    packed = encode("t", torch.ones(3), "8-bit")
    del packed["wire/scale/t"]
    if scale is not None:
        packed["wire/scale/t"] = scale
    with pytest.raises(MessageError, match="without its scale"):
        decode(packed)
