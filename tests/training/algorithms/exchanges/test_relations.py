"""Shared relations: which matrices are in the mean that goes out, and which answers are refused."""

import numpy as np
import pytest
import torch

from tests.closeness import assert_close_in_norm
from training.algorithms.exchanges.base import EMPTY_CONTEXT
from training.algorithms.exchanges.relations import SharedRelations
from training.errors import MessageError
from training.messages import Update


def matrix(seed, classes=3):
    rows = np.random.default_rng(seed).random((classes, classes)) + 0.01
    return torch.from_numpy(rows / rows.sum(axis=1, keepdims=True)).float()


def answer(client, round_, relations=None, **others):
    tensors = others if relations is None else {**others, "relations": relations}
    named = {f"exchange/{name}": tensor for name, tensor in tensors.items()}
    return Update(client, "1-federate", round_, "fit", tensors={"encoder.weight": torch.ones(2), **named})


def after(*answers, memory=None):
    """The server's memory after these answers came in."""
    for update in answers:
        memory = SharedRelations().collect(update, memory or {}, EMPTY_CONTEXT)
    return memory


def sent(memory, client="north", round_=9):
    return SharedRelations().outgoing(client, round_, memory, np.random.default_rng(0), EMPTY_CONTEXT)


def test_the_mean_of_two_by_hand_with_a_uniform_row_that_counts():
    north = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [1 / 3, 1 / 3, 1 / 3]])
    south = torch.tensor([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    parcel = sent(after(answer("north", 2, north), answer("west", 2), answer("south", 2, south)), round_=3)
    expected = [[0.7, 0.25, 0.05], [0.1, 0.8, 0.1], [1 / 6, 1 / 6, 2 / 3]]
    assert set(parcel.tensors) == {"relations"}
    assert parcel.tensors["relations"].dtype == torch.float32
    assert_close_in_norm(parcel.tensors["relations"], expected, 1e-6)
    assert parcel.note == {"clients": 2, "round": 2}


def test_the_last_matrix_is_reported_at_the_end():
    assert SharedRelations().facts({}) == {}
    facts = SharedRelations().facts(after(answer("north", 1, torch.eye(2)), answer("south", 1, torch.eye(2))))
    assert facts == {"relations": {"clients": 2, "matrix": [[1.0, 0.0], [0.0, 1.0]]}}
    thirds = torch.tensor([[1 / 3, 2 / 3], [0.0, 1.0]])
    told = SharedRelations().facts(after(answer("north", 1, thirds)))["relations"]["matrix"]
    assert told == [[0.333333, 0.666667], [0.0, 1.0]]


def test_a_client_without_labels_may_answer_without_a_matrix_and_rounding_is_no_reason_to_refuse():
    SharedRelations().check(answer("north", 1), {})
    SharedRelations().check(answer("north", 1, matrix(1) * 1.0005), after(answer("south", 1, matrix(2))))


@pytest.mark.parametrize(
    ("relations", "others", "said"),
    [
        (matrix(1), {"counts": torch.ones(3)}, r"north sent \['counts', 'relations'\] to the exchange"),
        (
            None,
            {"counts": torch.ones(3)},
            r"north sent \['counts'\] .* expected `relations` alone, or nothing",
        ),
        (matrix(1).double(), {}, r"as torch.float64 \(3, 3\); expected float32 \(classes, classes\)"),
        (matrix(1)[:2], {}, r"north sent relations as torch.float32 \(2, 3\)"),
        (matrix(1)[0], {}, r"north sent relations as torch.float32 \(3,\)"),
        (torch.empty(0, 0), {}, r"north sent relations as torch.float32 \(0, 0\)"),
        (matrix(1, classes=4), {}, "north sent relations of 4 classes; those before were of 3"),
        (matrix(1) * 2, {}, "north sent 3 rows of relations that are no probabilities.* and sum 2;"),
        (torch.eye(3) * torch.nan, {}, "north sent 3 rows of relations that are no probabilities"),
        (
            torch.tensor([[1.0, 0, 0], [1.5, -0.5, 0], [0, 0, 1]]),
            {},
            "north sent 1 rows of relations that are no probabilities, the first with least value -0.5",
        ),
    ],
)
def test_what_is_no_matrix_of_relations_is_refused(relations, others, said):
    with pytest.raises(MessageError, match=said):
        SharedRelations().check(answer("north", 2, relations, **others), after(answer("south", 1, matrix(2))))
