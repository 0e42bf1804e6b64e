"""What is checked of an update when it arrives."""

from dataclasses import replace

import pytest
import torch

from training.errors import MessageError
from training.messages.message import (
    Broadcast,
    all_finite,
    check_trained,
    check_update,
    reply,
)

ASKED = Broadcast("north", "0-federate", 3, "fit", "light")
SHAPES = {"weight": torch.Size([2, 3]), "bias": torch.Size([2])}
TENSORS = {"weight": torch.tensor([[1.0, -2, 3], [4, 5, -6]]), "bias": torch.zeros(2)}
ANSWER = reply(ASKED, tensors=TENSORS, num_examples={"light": 3}, losses={"light": 0.5}, scalars={"norm": 2})


def test_an_answer_to_the_question_passes():
    check_update(ANSWER, ASKED, SHAPES)
    check_update(ANSWER, ASKED)


@pytest.mark.parametrize(
    ("field", "value"),
    [("client", "south"), ("stage", "1-federate"), ("round", 2), ("ask", "collect"), ("track", "dark")],
)
def test_an_answer_to_another_question_is_refused(field, value):
    with pytest.raises(MessageError, match=f"north answered .*{value}.*; asked was .*0-federate"):
        check_update(replace(ANSWER, **{field: value}), ASKED, SHAPES)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("field", ["losses", "scalars"])
def test_a_number_that_is_not_finite_is_refused(field, value):
    with pytest.raises(MessageError, match=rf"north reports \{{'x': {value}\}}: not a finite number"):
        check_update(replace(ANSWER, **{field: {"x": value, "y": 1.0}}), ASKED, SHAPES)


def test_a_negative_number_of_pictures_is_refused():
    with pytest.raises(MessageError, match="north reports a negative number of pictures"):
        check_update(replace(ANSWER, num_examples={"light": 3, "dark": -1}), ASKED, SHAPES)


@pytest.mark.parametrize("held", [{}, {"light": 0}])
def test_an_update_that_was_trained_on_nothing_is_refused(held):
    check_trained(ANSWER)
    with pytest.raises(MessageError, match="north reports no pictures"):
        check_trained(replace(ANSWER, num_examples=held))


def test_missing_and_surplus_tensors_are_refused_by_name():
    renamed = {"weight": TENSORS["weight"], "beard": TENSORS["bias"]}
    with pytest.raises(MessageError, match=r"north sent other .*missing \['bias'\], unexpected \['beard'\]"):
        check_update(replace(ANSWER, tensors=renamed), ASKED, SHAPES)


def test_a_tensor_of_another_shape_is_refused_even_where_it_would_broadcast():
    with pytest.raises(MessageError, match=r"north sent bias as \(1,\); expected \(2,\)"):
        check_update(replace(ANSWER, tensors={**TENSORS, "bias": torch.zeros(1)}), ASKED, SHAPES)


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.complex64])
def test_a_tensor_that_cannot_be_averaged_is_refused(kind):
    with pytest.raises(MessageError, match=f"north sent bias as {kind}; expected a floating-point type"):
        check_update(replace(ANSWER, tensors={**TENSORS, "bias": torch.zeros(2, dtype=kind)}), ASKED, SHAPES)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_one_weight_that_is_not_finite_is_refused(value):
    weight = TENSORS["weight"].clone()
    weight[1, 2] = value
    with pytest.raises(MessageError, match="north sent weight with values that are not finite"):
        check_update(replace(ANSWER, tensors={**TENSORS, "weight": weight}), ASKED, SHAPES)


def test_a_variance_below_zero_is_refused_and_a_mean_is_not():
    given = {"norm.running_var": torch.tensor([0.5, 0.0]), "norm.running_mean": torch.tensor([-1.0, 1.0])}
    shapes = {name: tensor.shape for name, tensor in given.items()}
    check_update(replace(ANSWER, tensors=given), ASKED, shapes)
    below = {**given, "norm.running_var": torch.tensor([0.5, -0.25])}
    with pytest.raises(MessageError, match=r"north sent norm.running_var with a variance of -0\.25"):
        check_update(replace(ANSWER, tensors=below), ASKED, shapes)


def test_an_exchanges_tensors_pass_beside_the_weights_only_where_they_are_expected():
    answer = replace(ANSWER, tensors={**TENSORS, "exchange/bank": torch.ones(7)})
    check_update(answer, ASKED, SHAPES, "exchange/")
    with pytest.raises(MessageError, match=r"unexpected \['exchange/bank'\]"):
        check_update(answer, ASKED, SHAPES)
    answer = replace(ANSWER, tensors={**TENSORS, "exchange/bank": torch.tensor([torch.nan])})
    with pytest.raises(MessageError, match="exchange/bank with values that are not finite"):
        check_update(answer, ASKED, SHAPES, "exchange/")


def test_all_finite_sees_infinities_that_cancel_and_allows_sums_that_overflow():
    assert not all_finite(torch.tensor([float("inf"), -float("inf"), 1.0]))
    assert all_finite(torch.full((4,), 3e38))
    assert all_finite(torch.empty(0))
