"""Judges uploads for an exchange: predictions on noise, and accuracy on pictures of the coordinator."""

from copy import deepcopy
from functools import cached_property

import torch
from torch import Tensor

from training.federation.blocks import EvaluateQuestion, unpack_blocks
from training.federation.questions import JUDGE
from training.messages.engine import Engine
from training.messages.message import GLOBAL, Broadcast, Failure, Tensors, check_update
from training.models import Classifier
from training.models.classifier import float_state


class NoiseProbe:
    """Predicts pictures of noise, the same for all models, so that models can be compared by function.

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

    def predict(self, weights: Tensors, pictures: int) -> Tensor:
        """Probabilities `(pictures, classes)`, float64."""
        random = torch.Generator().manual_seed(self._seed)
        noise = torch.rand(pictures, 3, self._size, self._size, generator=random)
        state = float_state(self._model)
        with torch.no_grad():
            for name, tensor in weights.items():
                state[name].copy_(tensor)
            return torch.softmax(self._model(noise).double(), dim=1)


def validation_accuracy(
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
    pictures = sum(int(block.point.n) for block in blocks.values())
    if not pictures:
        return None
    right = sum(int(block.point.confusion.trace()) for block in blocks.values())
    return right / pictures
