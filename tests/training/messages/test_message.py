"""What is checked of an update when it arrives."""

from dataclasses import replace

import pytest
import torch

from training.errors import MessageError
from training.messages import Broadcast, all_finite, check_trained, check_update, reply

ASKED = Broadcast("north", "0-federate", 3, "fit", "light")
SHAPES = {"weight": torch.Size([2, 3]), "bias": torch.Size([2])}
TENSORS = {"weight": torch.tensor([[1.0, -2, 3], [4, 5, -6]]), "bias": torch.zeros(2)}
ANSWER = reply(ASKED, tensors=TENSORS, num_examples={"light": 3}, losses={"light": 0.5}, scalars={"norm": 2})


def test_an_answer_to_the_question_passes():
    check_update(ANSWER, ASKED, SHAPES)
    check_update(ANSWER, ASKED)


NOT_FINITE = [float("nan"), float("inf"), -float("inf")]
ODD = torch.tensor([[1.0, -2, 3], [4, 5, torch.nan]])
OTHERS = {"client": "south", "stage": "1-federate", "round": 2, "ask": "collect", "track": "dark"}
REFUSED = [
    *(
        ({name: value}, f"north answered .*{value}.*; asked was .*0-federate")
        for name, value in OTHERS.items()
    ),
    *(
        ({field: {"x": value, "y": 1.0}}, rf"north reports \{{'x': {value}\}}: not a finite number")
        for field in ("losses", "scalars")
        for value in NOT_FINITE
    ),
    ({"num_examples": {"light": 3, "dark": -1}}, "north reports a negative number of pictures"),
    (
        {"tensors": {"weight": TENSORS["weight"], "beard": TENSORS["bias"]}},
        r"north sent other .*missing \['bias'\], unexpected \['beard'\]",
    ),
    # Also where it would broadcast.
    ({"tensors": {**TENSORS, "bias": torch.zeros(1)}}, r"north sent bias as \(1,\); expected \(2,\)"),
    *(
        (
            {"tensors": {**TENSORS, "bias": torch.zeros(2, dtype=kind)}},
            f"north sent bias as {kind}; expected a floating-point type",
        )
        for kind in (torch.int64, torch.bool, torch.complex64)
    ),
    *(
        (
            {"tensors": {**TENSORS, "weight": torch.where(ODD.isnan(), value, ODD)}},
            "north sent weight with values that are not finite",
        )
        for value in NOT_FINITE
    ),
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_another_answer_is_refused_with_what_is_wrong_of_it(change, said):
    with pytest.raises(MessageError, match=said):
        check_update(replace(ANSWER, **change), ASKED, SHAPES)


@pytest.mark.parametrize("held", [{}, {"light": 0}])
def test_an_update_that_was_trained_on_nothing_is_refused(held):
    check_trained(ANSWER)
    with pytest.raises(MessageError, match="north reports no pictures"):
        check_trained(replace(ANSWER, num_examples=held))


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
