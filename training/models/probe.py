"""Heads on the features of a frozen encoder: what is behind it, and the linear probe that judges it."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from training.errors import JobError
from training.models.cases import CaseClassifier, zero_linear
from training.models.classifier import CaseBatch, Classifier, Inputs


def behind_encoder(model: Classifier) -> Classifier:
    """A copy of everything behind the encoder; takes features in place of pictures.

    Raises:
        JobError: when the encoder's last layer is no linear one.
    """
    if isinstance(model, CaseClassifier):
        return BehindCases(model)
    last = model.encoder.get_classifier()
    if not isinstance(last, nn.Linear):
        raise JobError(
            f"the last layer of this {type(model.encoder).__name__} is a {type(last).__name__}, and what "
            "trains on a frozen encoder is a linear one; choose another model.name"
        )
    return BehindPictures(model)


class BehindPictures(Classifier):
    """The linear head of a classifier of pictures; takes features `(batch, features)`."""

    def __init__(self, model: Classifier) -> None:
        super().__init__(Behind(model.encoder))

    def embed(self, inputs: Inputs) -> Tensor:
        """The features themselves."""
        assert not isinstance(inputs, CaseBatch), "this head takes features of single pictures"
        return inputs


class Behind(nn.Module):
    """A timm model of which nothing is left but its classifier, under its own name."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        classifier = encoder.get_classifier()
        self._path = next(name for name, module in encoder.named_modules() if module is classifier)
        *outer, last = self._path.split(".")
        place: nn.Module = self
        for name in outer:
            place.add_module(name, nn.Module())
            place = place.get_submodule(name)
        place.add_module(last, deepcopy(classifier))
        self.num_classes = encoder.num_classes
        self.num_features = classifier.in_features

    def get_classifier(self) -> nn.Module:
        """The linear classifier."""
        return self.get_submodule(self._path)


class BehindCases(CaseClassifier):
    """Fusion and head of a classifier of cases; takes cases of features `(batch, slots, features)`."""

    def __init__(self, model: CaseClassifier) -> None:
        nn.Module.__init__(self)
        self.case = model.case
        self.fusion = deepcopy(model.fusion)
        self.head = deepcopy(model.head)


class LinearProbe(Classifier):
    """A linear classifier of an encoder's features, by which the encoder is judged (Alain and Bengio 2017).

        p(x) = softmax(W z(x) + b),   z(x) = (f(x) − mean f(x)) / sqrt(var f(x) + ε)

    for f(x) the features of a picture, normalised over their own width as layer normalisation does, without
    learned scale or shift; W and b begin at zero. MAE (He et al. 2022) puts a batch normalisation without
    scale and shift there. Its statistics are means over pictures, which would have to leave each hospital and
    be averaged; those of a single picture's features need not. A case is the mean of its pictures' z: neither
    their kinds nor the facts are looked at, which say nothing of the encoder.

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
