"""The same question has one answer, others are paid for, and what would be too much is refused."""

from dataclasses import replace

import pytest
import torch

from tests.training.privacy.conftest import MemoryStore, bare_client
from training.errors import MessageError
from training.messages.message import Broadcast
from training.messages.question_digest import question_digest
from training.privacy.dp.counts_account import (
    ANSWER,
    spend,
    spent_on,
    told_before,
)

QUESTION = Broadcast(
    "north", "0-federate", 2, "evaluate", "global", {"w": torch.ones(3)}, {"split": "validation"}
)
TOLD = {"confusion/light": torch.tensor([[3, -1], [0, 5]])}


@pytest.fixture
def client():
    return bare_client("north", MemoryStore())


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, round=3),
        replace(QUESTION, track="light"),
        replace(QUESTION, options={"split": "test"}),
        replace(QUESTION, tensors={"w": torch.tensor([1.0, 1.0, 1.0000001])}),
        replace(QUESTION, tensors={"w": torch.ones(3, 1)}),
    ],
)
def test_a_question_is_every_byte_of_it(other):
    for_south = replace(QUESTION, client="south", tensors={"w": torch.ones(3)})
    assert question_digest(for_south) == question_digest(QUESTION)
    assert question_digest(other) != question_digest(QUESTION)


def test_an_answer_is_kept_and_paid_for_once(client):
    asked = question_digest(QUESTION)
    assert told_before(client, asked) is None
    spend(client, asked, "validation", ["light", "dark"], 2, 5, TOLD)
    assert torch.equal(told_before(client, asked)["confusion/light"], TOLD["confusion/light"])
    assert sum(spent_on(client, "validation", "dark").values()) == 2
    assert not spent_on(client, "test", "dark")


def test_more_than_planned_is_refused(client):
    spend(client, "a", "test", ["light"], 2, 3, TOLD)
    spend(client, "b", "test", ["dark"], 2, 3, TOLD)  # others' patients
    with pytest.raises(MessageError, match="cost 3 units of noise, 2 are spent and this would cost 2"):
        spend(client, "c", "test", ["dark", "light"], 2, 3, TOLD)
    assert told_before(client, "c") is None
    assert sum(spent_on(client, "test", "dark").values()) == 2  # nothing is charged for what is refused
    spend(client, "d", "test", ["light"], 1, 3, TOLD)


def test_an_account_without_its_answer_is_paid_for_once(client):
    """As a power cut leaves it: what was not told yet may be told."""
    spend(client, "a", "test", ["light"], 2, 2, TOLD)
    del client.store.kept["north", f"{ANSWER}/a"]
    assert told_before(client, "a") is None
    spend(client, "a", "test", ["light"], 2, 2, TOLD)
