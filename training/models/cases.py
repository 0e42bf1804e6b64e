"""A classifier of cases: one encoder for all pictures, their fusion with facts, and a linear head."""

from typing import Any

import torch
from torch import Tensor, nn

from registry.bundle.cases import UNSAID, CaseInput
from training.models.case_batch import CaseBatch, Inputs
from training.models.classifier import Classifier
from training.models.fusion import Fusion, FusionConfig


class CaseClassifier(Classifier):
    """An encoder, the fusion of what it makes of a case's pictures with facts, and a linear head.

    Takes a `CaseBatch`. Pictures by themselves `(batch, 3, height, width)` are cases of one picture of
    unknown kind without facts.

    Args:
        encoder: a timm model without a classifier, or `Encoders`.
        case: what a case has.
        config: how it is fused.
        num_classes: outputs of the head.
    """

    def __init__(self, encoder: Any, case: CaseInput, config: FusionConfig, num_classes: int) -> None:
        super().__init__(encoder)
        self.case = case
        standardised = getattr(encoder, "standardised", False)
        self.fusion = Fusion(self.num_features, case, config, normalises=not standardised)
        self.head = zero_linear(self.fusion.width, num_classes)

    @property
    def num_classes(self) -> int:
        """The outputs of the head."""
        return self.head.out_features

    @property
    def head_names(self) -> tuple[str, ...]:
        """The state names of everything behind the encoder."""
        return tuple(name for name in self.state_dict() if name.startswith(("fusion.", "head.")))

    def as_cases(self, inputs: Inputs) -> CaseBatch:
        """Pictures, or their features, as cases of one picture of unknown kind without facts."""
        if isinstance(inputs, CaseBatch):
            return inputs
        nothing = torch.full((len(inputs), len(self.case.facts)), torch.nan, device=inputs.device)
        kinds = torch.full((len(inputs), 1), UNSAID, device=inputs.device)
        return CaseBatch(inputs[:, None], kinds, nothing)

    def embed(self, inputs: Inputs) -> Tensor:
        """The embedding `(batch, width)` before the linear head; in training, of a part of each case."""
        cases = self.as_cases(inputs)
        if self.training:
            cases = self.fusion.drop(cases)
        return self.fuse(self.features_of(cases), cases)

    def features_of(self, cases: CaseBatch) -> Tensor:
        """The features of every picture `(batch, slots, features)`; zeros in empty slots."""
        if cases.images.ndim == 3:
            return cases.images * cases.present[..., None]
        present = cases.present
        found = self.features(cases.images[present])
        features = found.new_zeros(*present.shape, found.shape[1])
        features[present] = found
        return features

    def fuse(self, features: Tensor, cases: CaseBatch) -> Tensor:
        """The embedding of cases `(batch, width)`, from their pictures' features."""
        fused: Tensor = self.fusion(features, cases.kinds, cases.context)
        return fused

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits `(batch, classes)` of an embedding."""
        logits: Tensor = self.head(embedding)
        return logits


def zero_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer that begins at zero: every class is as likely at first, whatever is shown."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
