"""A classifier whose normalisation statistics stand still while it trains.

A batch normalisation in training mode normalises by the batch's mean and variance and moves its running
statistics towards them; in evaluation mode it normalises by its running statistics and leaves them alone,

    y = γ (x − μ_running) / sqrt(σ²_running + ε) + β,

so that a network of which only a part learns computes the same as before in all the rest. Layer and group
normalisation gather no statistics and are the same in both modes.
"""

from torch import Tensor, nn

from training.models.case_batch import Inputs
from training.models.classifier import Classifier


class FrozenBatchNormClassifier(Classifier):
    """Another classifier, shared and not copied; its batch normalisations stay in evaluation mode."""

    def __init__(self, model: Classifier) -> None:
        super().__init__(model.encoder)
        self._shown = (model,)  # in a tuple, for a module would become a part of this one
        self.mean, self.std = model.mean, model.std  # where the model is
        self._still = [
            layer for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._NormBase)
        ]

    @property
    def num_classes(self) -> int:
        """Those of the other one."""
        return self._shown[0].num_classes

    @property
    def head_names(self) -> tuple[str, ...]:
        """Those of the other one."""
        return self._shown[0].head_names

    def embed(self, inputs: Inputs) -> Tensor:
        """The other one's embedding."""
        return self._shown[0].embed(inputs)

    def classify(self, embedding: Tensor) -> Tensor:
        """The other one's logits."""
        return self._shown[0].classify(embedding)

    def train(self, mode: bool = True) -> "FrozenBatchNormClassifier":
        """Training mode for everything but what gathers statistics."""
        super().train(mode)
        self._shown[0].train(mode)
        for layer in self._still:
            layer.eval()
        return self
