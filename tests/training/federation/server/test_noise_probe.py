"""The accuracy of an upload. The noise probe is tested with the similarity that uses it."""

import numpy as np
import pytest
import torch

from registry.bundle.counts.counting import count
from training.algorithms.exchanges.base import EMPTY_CONTEXT
from training.errors import MessageError
from training.federation.blocks import pack_blocks
from training.federation.server.noise_probe import validation_accuracy
from training.messages.message import Failure, reply

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
    assert validation_accuracy(engine, "server", "0-federate", ("light", "dark"), WEIGHTS) == 3 / 5
    assert engine.asked.client == "server"
    assert engine.asked.ask == "judge"
    assert engine.asked.tensors is WEIGHTS
    assert engine.asked.options["split"] == "validation"


@pytest.mark.parametrize("answer", [lambda b: Failure("server", "global", "no probabilities"), reply])
def test_a_model_that_cannot_be_counted_has_no_accuracy(answer):
    assert validation_accuracy(Answers(answer), "server", "0-federate", ("light",), WEIGHTS) is None


def test_an_answer_that_is_none_is_refused():
    with pytest.raises(MessageError, match="not a finite number"):
        validation_accuracy(
            Answers(lambda b: reply(b, scalars={"x": float("nan")})), "server", "0-federate", ("a",), WEIGHTS
        )


def test_rounds_without_an_exchange_have_no_server_context():
    with pytest.raises(AssertionError, match="planned without a server context"):
        EMPTY_CONTEXT.get("a", 1)
