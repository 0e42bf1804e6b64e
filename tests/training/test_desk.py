"""The coordinator's desk: judging an upload. Its examiner is tested with the choice that asks it."""

import numpy as np
import pytest
import torch

from registry.bundle.counts import count
from training.desk import EMPTY_DESK, appraise
from training.errors import MessageError
from training.evaluation import pack_blocks
from training.messages import Failure, reply

WEIGHTS = {"weight": torch.tensor([1.0])}


class Answers:
    """An engine that gives one answer and remembers the question."""

    def __init__(self, answer):
        self._answer = answer

    def run_round(self, broadcasts):
        (self.asked,) = broadcasts
        return [self._answer(self.asked)]

    def close(self):
        pass


def counted(broadcast):
    malignant = np.array([False, True])
    light = count(np.eye(2)[[0, 1, 0]], np.array([0, 1, 1]), malignant=malignant)
    dark = count(np.eye(2)[[1, 1]], np.array([0, 1]), malignant=malignant)
    return reply(broadcast, tensors=pack_blocks({"light": light, "dark": dark}))


def test_an_upload_is_as_good_as_its_accuracy_on_the_servers_validation_pictures():
    engine = Answers(counted)
    assert appraise(engine, "server", "0-federate", ("light", "dark"), WEIGHTS) == 3 / 5
    assert engine.asked.client == "server"
    assert engine.asked.ask == "judge"
    assert engine.asked.tensors is WEIGHTS
    assert engine.asked.options["split"] == "validation"


@pytest.mark.parametrize("answer", [lambda b: Failure("server", "global", "no probabilities"), reply])
def test_a_model_that_cannot_be_counted_has_no_accuracy(answer):
    assert appraise(Answers(answer), "server", "0-federate", ("light",), WEIGHTS) is None


def test_an_answer_that_is_none_is_refused():
    with pytest.raises(MessageError, match="not a finite number"):
        appraise(
            Answers(lambda b: reply(b, scalars={"x": float("nan")})), "server", "0-federate", ("a",), WEIGHTS
        )


def test_rounds_without_an_exchange_have_nothing_at_hand():
    with pytest.raises(AssertionError, match="planned without a desk"):
        EMPTY_DESK.get("a", 1)
