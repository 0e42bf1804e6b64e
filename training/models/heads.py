"""An encoder with the heads that one way of pre-training puts on it; the encoder is the classifier's own."""

from torch import nn

from training.models.classifier import Classifier


class Network(Classifier):
    """The classifier's encoder, shared and not copied, and `heads`.

    Its state is named as the classifier's, with `heads.` beside `encoder.`: what pre-training leaves is the
    same without them.
    """

    def __init__(self, model: Classifier, heads: nn.Module) -> None:
        super().__init__(model.encoder)
        self.heads = heads


def projection(features: int, hidden: int, out: int) -> nn.Sequential:
    """A two-layer perceptron `features → hidden → out`, as SimCLR and MoCo v2 put on their encoders."""
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, out))
