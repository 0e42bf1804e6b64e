"""An image classifier on a timm encoder, with normalisation inside."""

from typing import Any

import torch
from torch import Tensor, nn

from training.errors import JobError
from training.models.case_batch import CaseBatch, Inputs
from training.models.encoders.preprocessing import IMAGENET, Normalisation
from training.models.encoders.several import pooled_width
from training.models.encoders.source import Origin

IMAGENET_MEAN, IMAGENET_STD = IMAGENET.mean, IMAGENET.std
NORMALISATION, FLIPS = "normalisation", "flips"  # the attributes of an encoder


class Classifier(nn.Module):
    """A timm encoder and its linear head.

    Takes float pictures `(batch, 3, height, width)` in [0, 1], RGB, and normalises them as its encoder was
    trained with, so that whoever holds the weights holds the whole function. That is said on the encoder
    itself (`normalised`), which every network that is built around it shares; ImageNet's mean and standard
    deviation where nothing is said. Other classifiers take cases, or what the encoder has made of pictures.

    With test-time flips (`with_flips`, said likewise) what is made of a picture x is, but in training,

        f(x) = (e(x) + e(mirror(x))) / 2

    for e the encoder and mirror left-right: evaluation, cached features and the exported graph all see that
    model. Of a linear head on f the logits are the mean of those of both.
    """

    mean: Tensor
    std: Tensor
    origins: tuple[Origin, ...] = ()

    def __init__(self, encoder: Any) -> None:  # a timm model; timm has no types
        super().__init__()
        self.encoder = encoder
        normalisation = self.normalisation
        self.register_buffer("mean", torch.tensor(normalisation.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(normalisation.std).view(1, 3, 1, 1), persistent=False)

    @property
    def normalisation(self) -> Normalisation:
        """What pictures are normalised with."""
        return getattr(self.encoder, NORMALISATION, IMAGENET)

    @property
    def flips(self) -> bool:
        """Whether pictures are looked at from both sides, but in training."""
        return getattr(self.encoder, FLIPS, False)

    @property
    def num_classes(self) -> int:
        """The outputs of the linear head."""
        return int(self.encoder.num_classes)

    @property
    def num_features(self) -> int:
        """The width of what the encoder makes of a picture."""
        return pooled_width(self.encoder)

    @property
    def head_names(self) -> tuple[str, ...]:
        """The state names of the linear head: all that is behind the encoder."""
        return tuple(f"encoder.{name}" for name in classifier_names(self.encoder))

    def embed(self, inputs: Inputs) -> Tensor:
        """Pooled features `(batch, features)` before the linear head.

        Raises:
            JobError: for cases, which this classifier cannot take.
        """
        if isinstance(inputs, CaseBatch):
            raise JobError("this model takes single pictures; a model of cases needs data.unit: lesion")
        return self.features(inputs)

    def features(self, images: Tensor) -> Tensor:
        """What the encoder makes of pictures `(batch, 3, height, width)`: `(batch, features)`, pooled."""
        if not self.flips or self.training:
            return self.features_of_one_side(images)
        both = self.features_of_one_side(torch.cat([images, images.flip(-1)]))
        return both.view(2, -1, *both.shape[1:]).mean(dim=0)

    def features_of_one_side(self, images: Tensor) -> Tensor:
        """As `features`, of the pictures as they lie.

        Of none there are none: a process has no picture of a short batch that several divide. Many encoders
        cannot tell the heads of their attention apart then, so they are shown a black one, which is left out
        of what they answer. Not where statistics of the batch are gathered, which it would move.
        """
        if self.training and not len(images) and not gathers_statistics(self):
            return self.features_of_one_side(images.new_zeros(1, *images.shape[1:]))[:0]
        maps = self.encoder.forward_features((images - self.mean) / self.std)
        pooled: Tensor = self.encoder.forward_head(maps, pre_logits=True)
        return pooled

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits `(batch, classes)` of an embedding."""
        logits: Tensor = self.encoder.get_classifier()(embedding)
        return logits

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits `(batch, classes)`."""
        return self.classify(self.embed(inputs))


def gathers_statistics(model: nn.Module) -> bool:
    """Whether a batch normalisation is in training mode."""
    return any(
        isinstance(each, nn.modules.batchnorm._BatchNorm) and each.training for each in model.modules()
    )


def normalised(encoder: Any, normalisation: Normalisation) -> Any:
    """The same timm encoder, for pictures that are normalised so."""
    setattr(encoder, NORMALISATION, normalisation)
    return encoder


def with_flips(encoder: Any, flips: bool) -> Any:
    """The same timm encoder, which looks at pictures from both sides or not."""
    setattr(encoder, FLIPS, flips)
    return encoder


def classifier_names(encoder: Any) -> list[str]:
    """State names of a timm encoder's linear classifier."""
    classifier = encoder.get_classifier()
    prefix = next(name for name, module in encoder.named_modules() if module is classifier)
    return [f"{prefix}.{name}" for name in classifier.state_dict()]
