"""What is behind a classifier's encoder, as a classifier of the features that the encoder makes.

With a frozen encoder this is all that learns and all that travels. Its tensors are named as in the whole
classifier.
"""

from copy import deepcopy
from typing import Any

from torch import Tensor, nn

from training.errors import JobError
from training.models.case_batch import CaseBatch, Inputs
from training.models.cases import CaseClassifier
from training.models.classifier import Classifier


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
