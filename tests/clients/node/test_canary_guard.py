"""Canaries that end the process: told the second time, and forgotten then."""

import pytest

from clients.node.guards import CanaryGuard
from training.messages import Broadcast, Failure, reply

QUESTION = Broadcast("north", "0-federate", 1, "canary")


def killed(request):
    raise KeyboardInterrupt


def test_a_process_that_it_ends_twice_is_told_of_and_forgotten(tmp_path):
    path = tmp_path / "canary"
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            CanaryGuard(path).answer(QUESTION, killed)
    told = CanaryGuard(path).answer(QUESTION, killed)
    assert isinstance(told, Failure)
    assert "north cannot train: its process was ended 2 times while it trained 2 batches" in told.reason
    assert CanaryGuard(path).answer(QUESTION, reply) == reply(QUESTION)
    assert not list(tmp_path.iterdir())


def test_one_that_is_ended_once_and_every_other_question_are_answered(tmp_path):
    path = tmp_path / "canary"
    with pytest.raises(KeyboardInterrupt):
        CanaryGuard(path).answer(QUESTION, killed)
    fit = Broadcast("north", "0-federate", 1, "fit")
    assert CanaryGuard(path).answer(fit, reply) == reply(fit)
    assert path.exists()
    assert CanaryGuard(path).answer(QUESTION, reply) == reply(QUESTION)
    assert not path.exists()
