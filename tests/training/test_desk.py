"""The coordinator's desk: judging an upload. Its examiner is tested with the choice that asks it."""

import numpy as np
import pytest
import torch

from registry.bundle.counts import count
from training.desk import EMPTY_DESK, appraise
from training.errors import JobError, MessageError
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


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (
            lambda b: Failure("server", "global", "disk full"),
            JobError,
            "server could not judge an upload: disk full",
        ),
        (
            lambda b: reply(b),
            JobError,
            r"fewer validation pictures than privacy.min_count.*raise data.server.share",
        ),
        (lambda b: reply(b, scalars={"x": float("nan")}), MessageError, "not a finite number"),
    ],
)
def test_a_server_that_does_not_judge_stops_the_run(answer, kind, reason):
    with pytest.raises(kind, match=reason):
        appraise(Answers(answer), "server", "0-federate", ("light",), WEIGHTS)


def test_rounds_without_an_exchange_have_nothing_at_hand():
    with pytest.raises(AssertionError, match="planned without a desk"):
        EMPTY_DESK.get("a", 1)
