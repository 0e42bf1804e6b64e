"""A classifier whose normalisation statistics stand still while it trains.

A batch normalisation in training mode normalises by the batch's mean and variance and moves its running
statistics towards them; in evaluation mode it normalises by its running statistics and leaves them alone,

    y = γ (x − μ_running) / sqrt(σ²_running + ε) + β,

so that a network of which only a part learns computes the same as before in all the rest. Layer and group
normalisation gather no statistics and are the same in both modes.
"""

from torch import nn

from training.models.classifier import Classifier


class FrozenBatchNormClassifier(Classifier):
    """The classifier's encoder, shared and not copied; its batch normalisations stay in evaluation mode."""

    def __init__(self, model: Classifier) -> None:
        super().__init__(model.encoder)
        self.mean, self.std = model.mean, model.std  # where the model is
        self._still = [
            layer for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._NormBase)
        ]

    def train(self, mode: bool = True) -> "FrozenBatchNormClassifier":
        """Training mode for everything but what gathers statistics."""
        super().train(mode)
        for layer in self._still:
            layer.eval()
        return self
