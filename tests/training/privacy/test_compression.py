"""Compression: what comes back of a tensor, what error feedback keeps, and rounds with it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from training.errors import MessageError
from training.messages import Update, tensor_bytes
from training.privacy.compression import Compressor, compressible, decode, encode, packed
from training.privacy.settings import CompressionConfig

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
    drawn = [decode(encode("t", original, "8-bit", torch.Generator().manual_seed(3)))["t"] for _ in range(2)]
    assert torch.equal(*drawn)
    assert float((drawn[0] - original).abs().max()) <= float(original.abs().max()) / 127 * 1.0001 + TINY


def test_stochastic_rounding_is_right_in_the_mean():
    values = torch.tensor([1.0, 0.3, -0.123, 0.0039])
    random, draws = torch.Generator().manual_seed(0), 4000
    total = sum(decode(encode("t", values, "8-bit", random))["t"].double() for _ in range(draws))
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


ONE_ROUND = {"rounds": 1}
ALL = {"exact_below": 0}


def trained(tensors, round_=1):
    return Update("north", "0-federate", round_, "fit", tensors=tensors)


@pytest.fixture
def received():
    random = torch.Generator().manual_seed(0)
    return {
        "encoder.w": torch.randn(50, 40, generator=random),
        "encoder.bias": torch.randn(40, generator=random),
    }


@pytest.fixture
def moved(received):
    random = torch.Generator().manual_seed(1)
    return {
        name: value + 0.01 * torch.randn(value.shape, generator=random) for name, value in received.items()
    }


@pytest.mark.parametrize("up", ["half", "8-bit"])
def test_an_update_is_the_difference_to_what_was_sent(make_client, received, moved, up):
    config = CompressionConfig(up=up, exact_below=100)
    sent = packed(trained(moved), received, make_client(), config)
    assert set(sent.tensors) == {f"wire/{up}/encoder.w", "wire/scale/encoder.w", "encoder.bias"}
    assert tensor_bytes(sent.tensors) == 2000 * (2 if up == "half" else 1) + 4 + 4 * 40
    arrived = Compressor(config).up(sent, received)
    step = float((moved["encoder.w"] - received["encoder.w"]).abs().max()) / (127 if up == "8-bit" else 1024)
    assert float((arrived.tensors["encoder.w"] - moved["encoder.w"]).abs().max()) <= step + 1e-7
    assert torch.equal(arrived.tensors["encoder.bias"], moved["encoder.bias"])
    assert arrived.tensors["encoder.w"].dtype == torch.float32
    assert set(arrived.tensors) == set(moved) == set(dict(arrived.tensors.items()))
    # It waits in the form in which it came.
    assert tensor_bytes(arrived.tensors._travelled) == tensor_bytes(sent.tensors)


def test_what_rounding_lost_comes_with_the_next_update(make_client):
    """The same small step every round, next to one large value."""
    step, client = torch.tensor([1.0, 0.001, -0.0015]), make_client()
    config, told = CompressionConfig(up="8-bit", **ALL), torch.zeros(3)
    for round_ in range(1, 21):
        sent = packed(trained({"encoder.w": step}, round_), {"encoder.w": torch.zeros(3)}, client, config)
        told += decode(sent.tensors)["encoder.w"]
    assert float((told - 20 * step).abs().max()) <= 1.01 / 127, "at most what one rounding loses is missing"
    assert decode(encode("t", step, "8-bit"))["t"].tolist()[1:] == [0, 0], (
        "the control: one alone tells nothing"
    )


def test_other_forms_and_shapes_are_refused(make_client, received, moved):
    half = CompressionConfig(up="half", **ALL)
    sent = packed(trained(moved), received, make_client(), half)
    with pytest.raises(MessageError, match="in another form than 8-bit"):
        Compressor(CompressionConfig(up="8-bit", **ALL)).up(sent, received)
    with pytest.raises(MessageError, match=r"north sent encoder.w as \(50, 40\); expected \(2, 40\)"):
        Compressor(half).up(sent, {**received, "encoder.w": received["encoder.w"][:2]})
    with pytest.raises(MessageError, match="in another form"):
        Compressor(half).up(sent, {"encoder.w": received["encoder.w"]})


def test_weights_are_packed_once_for_all_clients(received):
    compressor = Compressor(CompressionConfig(down="half", **ALL))
    assert compressor.down(received) is compressor.down(received)
    arrived = compressor.arrived(received)
    torch.testing.assert_close(arrived["encoder.w"], received["encoder.w"], rtol=0, atol=4 * 2.0**-11)
    assert compressor.down(dict(received)) is not compressor.down(received)


@pytest.mark.parametrize("up", ["half", "8-bit"])
def test_a_round_is_near_the_exact_one_and_takes_fewer_bytes(run_job, make_job, tmp_path, up):
    plain = run_job(make_job(federate=ONE_ROUND), out=tmp_path / "plain")
    job = make_job(federate=ONE_ROUND, compression={"up": up, "down": "half", "exact_below": 100})
    compressed = run_job(job, out=tmp_path / "compressed")
    for name, weights in plain.weights().items():
        moved = compressed.weights()[name] - weights
        assert float(moved.abs().max()) <= 0.02 * max(1.0, float(weights.abs().max()))
    small, large = compressed.lines[0], plain.lines[0]
    for client in ("north", "south", "west"):
        share = small["bytes_by_client"][client]["up"] / large["bytes_by_client"][client]["up"]
        assert share == pytest.approx(1 / 4 if up == "8-bit" else 1 / 2, abs=0.04)
        down = small["bytes_by_client"][client]["down"] / large["bytes_by_client"][client]["down"]
        assert down == pytest.approx(1 / 2, abs=0.04)
