"""An image classifier on a timm encoder, with normalisation inside, and the groups of its parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from registry.bundle.cases import EMPTY
from training.data.dataset import Examples
from training.errors import JobError
from training.models.encoder_files import IMAGENET, Normalisation, prepare_torchvision
from training.models.encoder_sources import Origin
from training.models.several_encoders import pooled_width

ENCODER_BATCH = 8  # pictures that an encoder sees at once: what it makes of more leaves a processor's caches
REGISTER = 16  # float32 numbers that the widest register of a processor holds


@dataclass(frozen=True)
class CaseBatch:
    """Cases; see `registry.bundle.cases` for the numbers.

    Attributes:
        images: pictures `(batch, slots, 3, height, width)` in [0, 1], or what a frozen encoder made of them,
            `(batch, slots, features)`; whatever is in an empty slot has no effect.
        kinds: `(batch, slots)` int64, -1 where a slot is empty.
        context: the facts `(batch, facts)`, NaN where one is not known.
    """

    images: Tensor
    kinds: Tensor
    context: Tensor

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def present(self) -> Tensor:
        """Which slots hold a picture, `(batch, slots)` bool."""
        return self.kinds != EMPTY


Inputs = Tensor | CaseBatch
"""What a classifier takes: pictures `(batch, 3, height, width)`, features `(batch, features)`, or cases."""


def as_inputs(examples: Examples, positions: NDArray[np.int64], device: torch.device) -> Inputs:
    """The examples at `positions` as a classifier takes them: pictures, or cases where they are cases."""
    if examples.cases is None:
        return to_model_input(examples.batch(positions), device)
    cases = examples.cases.where(positions)
    pictures = examples.images[np.maximum(cases.pictures, 0)]
    flat = to_model_input(pictures.reshape(-1, *pictures.shape[2:]), device)
    return CaseBatch(
        flat.view(*cases.pictures.shape, *flat.shape[1:]),
        torch.from_numpy(cases.kinds).to(device),
        torch.from_numpy(cases.context).to(device),
    )


def to_model_input(images: NDArray[Any], device: torch.device) -> Tensor:
    """uint8 `(batch, height, width, 3)` to float `(batch, 3, height, width)` in [0, 1], channels last.

    The bytes travel to the device before they become floats: a quarter of the traffic. Features
    `(batch, features)` become float32 and are else as they are.
    """
    on_device = torch.from_numpy(images).to(device)
    if images.dtype != np.uint8:
        return on_device.float()
    return on_device.permute(0, 3, 1, 2).float().div_(255)


IMAGENET_MEAN, IMAGENET_STD = IMAGENET.mean, IMAGENET.std
NORMALISATION, FLIPS = "normalisation", "flips"  # the attributes of an encoder


class Classifier(nn.Module):
    """A timm encoder and its linear head.

    Takes float pictures `(batch, 3, height, width)` in [0, 1], RGB, and normalises them as its encoder was
    trained with, so that the weights define the whole function. That is said on the encoder
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


class ThinningConv2d(nn.Conv2d):
    """A strided 1×1 convolution that leaves out the pixels it skips before it, which computes the same.

    The gradient of its weights, of fewer input channels than a register holds numbers, writes past its
    memory in oneDNN (3.12, channels last) otherwise: a crash, or other numbers without a word.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Outputs `(batch, out, rows, columns)` of inputs `(batch, in, height, width)`."""
        rows, columns = self.stride
        return functional.conv2d(input[..., ::rows, ::columns], self.weight, self.bias)


def with_safe_strides(encoder: Any) -> Any:
    """The same timm encoder, whose narrow strided 1×1 convolutions can be trained on any processor."""
    for layer in encoder.modules():
        alone = isinstance(layer, nn.Conv2d) and (layer.kernel_size, layer.padding) == ((1, 1), (0, 0))
        if alone and layer.groups == 1 and layer.in_channels < REGISTER and layer.stride != (1, 1):
            layer.__class__ = ThinningConv2d
    return encoder


def classifier_names(encoder: Any) -> list[str]:
    """State names of a timm encoder's linear classifier."""
    classifier = encoder.get_classifier()
    prefix = next(name for name, module in encoder.named_modules() if module is classifier)
    return [f"{prefix}.{name}" for name in classifier.state_dict()]


# nn.modules.batchnorm._NormBase is the base of every batch and instance normalisation.
NORMALISATIONS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
GROUPS = ("norm", "head", "class_token", "patch_projection", "decoder", "decoder_projection")
DECODER = ("heads.decoder.", "heads.decoder_projection.")


def group_names(model: Classifier, group: str) -> frozenset[str]:
    """The state names of one group.

    `norm`: weights, biases and statistics of every normalisation layer. `head`: the linear classifier.
    `class_token`: the class token of a ViT. `patch_projection`: its patch embedding. `decoder`: what a masked
    autoencoder puts on its encoder, with the linear layer between them. `decoder_projection`: that alone.

    Raises:
        JobError: when the group is unknown or the model has no such part.
    """
    if group == "norm":
        found = {
            f"{prefix}.{name}"
            for prefix, module in model.named_modules()
            if isinstance(module, NORMALISATIONS)
            for name in module.state_dict()
        }
    elif group == "head":
        found = set(model.head_names)
    elif group in ("class_token", "patch_projection"):
        stem = "cls_token" if group == "class_token" else "patch_embed"
        found = {name for name in model.state_dict() if stem in name.split(".")}
    elif group in ("decoder", "decoder_projection"):
        stems = ("heads.decoder_projection.",) if group == "decoder_projection" else DECODER
        found = {name for name in model.state_dict() if name.startswith(stems)}
    else:
        raise JobError(f"unknown group of parameters `{group}`; valid: {', '.join(GROUPS)}")
    if not found:
        raise JobError(f"the model has no `{group}` to keep apart; choose another group or another model")
    return frozenset(found)


def float_state(model: nn.Module) -> dict[str, Tensor]:
    """The floating-point tensors of a model's state by name: what can be averaged.

    Counters such as a batch norm's `num_batches_tracked` have no meaningful mean and stay at home.
    """
    return {name: value for name, value in model.state_dict().items() if value.is_floating_point()}


def encoder_layers(model: nn.Module) -> dict[str, int]:
    """The layer of each of the encoder's parameters, from 0 at the pictures up, by its name in `model`."""
    prepare_torchvision()
    from timm.models import group_parameters
    from timm.optim import auto_group_layers

    encoder: Any = model.get_submodule("encoder")
    if hasattr(encoder, "group_matcher"):
        layers = group_parameters(encoder, encoder.group_matcher(coarse=False), reverse=True)
    else:
        layers = auto_group_layers(encoder)
    return {f"encoder.{name}": layer for name, layer in layers.items()}


class FrozenBatchNormClassifier(Classifier):
    """A classifier whose normalisation statistics stand still while it trains.

    A batch normalisation in training mode normalises by the batch's mean and variance and moves its running
    statistics towards them; in evaluation mode it normalises by its running statistics and leaves them alone,

        y = γ (x − μ_running) / sqrt(σ²_running + ε) + β,

    so that a network of which only a part learns computes the same as before in all the rest. Layer and group
    normalisation gather no statistics and are the same in both modes.
    """

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
