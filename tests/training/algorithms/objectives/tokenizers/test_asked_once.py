"""Of a part of the pictures a client answers one question in a run, however often it is asked or restarts."""

from dataclasses import replace

import pytest
import torch

from clients.store import ClientStore
from training.algorithms.objectives.tokenizers.asked_once import answer_once
from training.errors import MessageError
from training.messages.message import Broadcast


@pytest.fixture
def restarted(make_client, tmp_path):
    """`restarted()`: the client in a new process, with the store that the one before left."""
    client = make_client("north")
    return lambda: replace(client, store=ClientStore(tmp_path / "store"))


def question(value, step=1):
    return Broadcast(
        "north",
        "0-pretrain",
        0,
        "codebook cells",
        "global",
        {"centroids": torch.full((2,), value)},
        {"step": step},
    )


def test_the_same_question_is_answered_again(restarted):
    for _ in range(3):
        answer_once(question(1.0), restarted(), "1")


@pytest.mark.parametrize("other", [question(1.001), question(1.0, step=2)], ids=["centroids", "options"])
def test_another_question_of_the_same_pictures_is_refused_after_a_restart_too(restarted, other):
    client = restarted()
    answer_once(question(1.0), client, "1")
    for asked in (client, restarted()):
        with pytest.raises(
            MessageError, match=r"north was asked `codebook cells` of pictures of which it has"
        ):
            answer_once(other, asked, "1")
    answer_once(question(1.0), restarted(), "1")


def test_of_another_part_another_question_is_answered_and_both_are_remembered(restarted):
    answer_once(question(1.0), restarted(), "1")
    answer_once(question(2.0), restarted(), "2")
    for part, asked_before in (("1", 2.0), ("2", 1.0)):
        with pytest.raises(MessageError, match="could tell single patches"):
            answer_once(question(asked_before), restarted(), part)


def test_a_client_that_remembers_nothing_would_answer(restarted, tmp_path):
    """What the store prevents: with it gone, the difference of two answers is there to be taken."""
    answer_once(question(1.0), restarted(), "1")
    for file in (tmp_path / "store").rglob("*.safetensors"):
        file.unlink()
    answer_once(question(1.001), restarted(), "1")
