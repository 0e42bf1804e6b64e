"""A linear classifier of an encoder's features, by which the encoder is judged (Alain and Bengio 2017).

    p(x) = softmax(W z(x) + b),   z(x) = (f(x) − mean f(x)) / sqrt(var f(x) + ε)

for f(x) the features of a picture, normalised over their own width as layer normalisation does, without
learned scale or shift; W and b begin at zero. MAE (He et al. 2022) puts a batch normalisation without scale
and shift there. Its statistics are means over pictures, which would have to leave each hospital and be
averaged; those of a single picture's features need not. A case is the mean of its pictures' z: neither their
kinds nor the facts are looked at, which say nothing of the encoder.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from training.models.case_batch import CaseBatch, Inputs
from training.models.cases import zero_linear
from training.models.classifier import Classifier


class LinearProbe(Classifier):
    """A linear layer on normalised features; takes features `(batch, features)`, or cases of them.

    Args:
        model: the classifier whose encoder makes the features; nothing of it is in the probe.
    """

    def __init__(self, model: Classifier) -> None:
        nn.Module.__init__(self)
        self.head = zero_linear(model.num_features, model.num_classes)

    @property
    def num_classes(self) -> int:
        """The outputs of the layer."""
        return self.head.out_features

    @property
    def num_features(self) -> int:
        """The width of a picture's features."""
        return self.head.in_features

    @property
    def head_names(self) -> tuple[str, ...]:
        """All of it."""
        return tuple(self.state_dict())

    def embed(self, inputs: Inputs) -> Tensor:
        """The normalised features `(batch, features)`; of a case, their mean over its pictures."""
        return mean_over_pictures(inputs, lambda features: F.layer_norm(features, features.shape[-1:]))

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits `(batch, classes)` of normalised features."""
        logits: Tensor = self.head(embedding)
        return logits


def mean_over_pictures(inputs: Inputs, of_each: Callable[[Tensor], Tensor]) -> Tensor:
    """What `of_each` makes of features `(..., features)`, `(batch, features)`: of cases its mean.

    Args:
        inputs: features `(batch, features)`, or cases of them.
        of_each: applied to the features of each picture by themselves.
    """
    if not isinstance(inputs, CaseBatch):
        return of_each(inputs)
    present = inputs.present[..., None]
    return (of_each(inputs.images) * present).sum(dim=1) / present.sum(dim=1).clamp(min=1)
