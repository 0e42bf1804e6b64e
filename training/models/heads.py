"""A classifier's network with modules that one way of training puts on it; what it shares is not copied."""

from torch import nn

from training.models.cases import CaseClassifier
from training.models.classifier import Classifier


class Network(Classifier):
    """The classifier's encoder, shared and not copied, and `heads`.

    Its state is named as the classifier's, with `heads.` beside `encoder.`: what pre-training leaves is the
    same without them.
    """

    def __init__(self, model: Classifier, heads: nn.Module) -> None:
        super().__init__(model.encoder)
        self.heads = heads


class CaseNetwork(CaseClassifier):
    """A classifier of cases and `heads`; encoder, fusion and head are the classifier's own."""

    def __init__(self, model: CaseClassifier, heads: nn.Module) -> None:
        super(CaseClassifier, self).__init__(model.encoder)
        self.case, self.fusion, self.head = model.case, model.fusion, model.head
        self.heads = heads


def carrying(model: Classifier, heads: nn.Module) -> Network | CaseNetwork:
    """All of a model, shared, and `heads` beside it."""
    return CaseNetwork(model, heads) if isinstance(model, CaseClassifier) else Network(model, heads)


def projection(features: int, hidden: int, out: int) -> nn.Sequential:
    """A two-layer perceptron `features → hidden → out`, as SimCLR and MoCo v2 put on their encoders."""
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, out))
