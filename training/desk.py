"""The coordinator's desk: what an exchange has at hand there beside what it remembers."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import torch
from torch import Tensor

from training.engines.base import Engine
from training.evaluation import EvaluateQuestion, unpack_blocks
from training.messages import GLOBAL, Broadcast, Failure, Tensors, check_update
from training.models import Classifier
from training.models.groups import float_state

JUDGE = "judge"  # the question to the server of how good an upload is


@dataclass(frozen=True)
class Desk:
    """What is at hand.

    Attributes:
        put, get: keep what a client uploaded in a round, and give it back; see `training.shelf`.
        appraise: the accuracy of travelling weights on the coordinator's own validation pictures; None where
            their answers cannot be counted.
        answers: what a model with these travelling weights says to so many made-up pictures, the same for
            all: probabilities `(pictures, classes)`.
    """

    put: Callable[[str, int, Tensors, int | None], None]
    get: Callable[[str, int], Tensors]
    appraise: Callable[[Tensors], float | None]
    answers: Callable[[Tensors, int], Tensor]


def not_at_hand(*_: object) -> NoReturn:
    """For plans whose exchange needs no desk."""
    raise AssertionError("these rounds were planned without a desk")


EMPTY_DESK = Desk(not_at_hand, not_at_hand, not_at_hand, not_at_hand)


class Examiner:
    """Asks a model about pictures of noise, which all examinees share.

    Args:
        model: of the job; what does not travel of it stays as it is there.
        image_size: pixels, both sides.
        seed: from which the pictures are drawn.
    """

    def __init__(self, model: Classifier, image_size: int, seed: int) -> None:
        self._source = model
        self._size = image_size
        self._seed = seed

    @cached_property
    def _model(self) -> Classifier:
        return deepcopy(self._source).eval()

    def answers(self, weights: Tensors, pictures: int) -> Tensor:
        """Probabilities `(pictures, classes)`, float64."""
        random = torch.Generator().manual_seed(self._seed)
        noise = torch.rand(pictures, 3, self._size, self._size, generator=random)
        state = float_state(self._model)
        with torch.no_grad():
            for name, tensor in weights.items():
                state[name].copy_(tensor)
            return torch.softmax(self._model(noise).double(), dim=1)


def appraise(
    engine: Engine, server: str, stage: str, subgroups: tuple[str, ...], weights: Tensors
) -> float | None:
    """The accuracy of a model on the validation pictures of the client `server`, which the coordinator owns.

    None where the model's answers cannot be counted, as those of weights that overflow.
    """
    question = EvaluateQuestion(split="validation", subgroups=subgroups).model_dump()
    broadcast = Broadcast(server, stage, 0, JUDGE, GLOBAL, weights, question)
    (answer,) = engine.run_round([broadcast])
    if isinstance(answer, Failure):
        return None
    check_update(answer, broadcast)
    blocks = unpack_blocks(answer)
    seen = sum(int(block.point.n) for block in blocks.values())
    if not seen:
        return None
    right = sum(int(block.point.confusion.trace()) for block in blocks.values())
    return right / seen
