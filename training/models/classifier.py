"""An image classifier on a timm encoder, with normalisation inside."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from registry.bundle.nearest import nearest
from training.config import FrozenConfig
from training.errors import JobError
from training.messages.message import named
from training.models.torchvision_ops import prepare_torchvision
from training.seeds import derive_seed

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
GLOBAL_IN_OUTCOME = "model-0/"  # before the names of the global model's weights in what a stage leaves


class ModelConfig(FrozenConfig):
    """The `model` block of a job.

    Attributes:
        name: a timm model, e.g. `resnet18`, `vgg11`, `vit_tiny_patch16_224`.
        weights: `none` for random initial weights (drawn from the job's seed), or a safetensors file: of a
            timm model, or what a stage of another run left (`checkpoints/0-pretrain/outcome.safetensors`).
        options: passed to the timm model, e.g. `{channels: [32, 64, 128, 256]}` for a narrow ResNet. A model
            of one picture size, as most ViTs, takes that of the job unless `img_size` says otherwise.
    """

    name: str
    weights: str = "none"
    options: Mapping[str, Any] = {}


class Classifier(nn.Module):
    """A timm encoder and its linear head.

    Takes float pictures `(batch, 3, height, width)` in [0, 1], RGB, and normalises them with ImageNet's
    mean and standard deviation, so that whoever holds the weights holds the whole function.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, encoder: Any) -> None:  # a timm model; timm has no types
        super().__init__()
        self.encoder = encoder
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(1, 3, 1, 1), persistent=False)

    def embed(self, images: Tensor) -> Tensor:
        """Pooled features `(batch, features)` before the linear head."""
        features = self.encoder.forward_features((images - self.mean) / self.std)
        embedding: Tensor = self.encoder.forward_head(features, pre_logits=True)
        return embedding

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits `(batch, classes)` of an embedding."""
        logits: Tensor = self.encoder.get_classifier()(embedding)
        return logits

    def forward(self, images: Tensor) -> Tensor:
        """Logits `(batch, classes)`."""
        return self.classify(self.embed(images))


def build_model(
    config: ModelConfig, num_classes: int, seed: int, image_size: int | None = None
) -> Classifier:
    """The model of a job, with initial weights that follow from `seed` alone.

    Args:
        config: which.
        num_classes: outputs of the linear head.
        seed: from which the initial weights are drawn.
        image_size: pixels on both sides, for a model that is made for one size; None for the model's own.

    Raises:
        JobError: for an unknown timm model, options that it does not take, or weights that do not fit.
    """
    prepare_torchvision()
    import timm

    if config.name not in timm.list_models():
        raise JobError(f"model.name: unknown timm model `{config.name}`; {nearest_model(config.name)}")
    options = dict(config.options)
    known = timm.get_pretrained_cfg(config.name)
    if image_size is not None and known is not None and known.fixed_input_size:
        options.setdefault("img_size", image_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            encoder = timm.create_model(config.name, pretrained=False, num_classes=num_classes, **options)
        except TypeError as error:
            raise JobError(f"model.options: {config.name} does not take {options}: {error}") from error
    model = Classifier(encoder)
    if config.weights != "none":
        load_weights(model, Path(config.weights))
    return model


def initial_model(config: ModelConfig, seed: int, image_size: int, num_classes: int) -> Classifier:
    """The model that a job begins with, the same at the coordinator and at every client.

    Args:
        config: the `model` block of the job.
        seed: the job's seed.
        image_size: pixels on both sides.
        num_classes: outputs of the linear head.
    """
    return build_model(config, num_classes, derive_seed(seed, "initial weights"), image_size)


def nearest_model(name: str) -> str:
    """A hint for a misspelt model name."""
    import timm

    known = timm.list_models()
    return (
        nearest(name, get_close_matches(name, known, n=8) or ["resnet18", "vgg11", "vit_tiny_patch16_224"])
        + f", ... ({len(known)} in all)"
    )


def load_weights(model: Classifier, path: Path) -> None:
    """Copy a safetensors file into the model; the classifier's head may differ and is then left as it is.

    Raises:
        JobError: when the file is missing or its tensors do not fit the model.
    """
    if not path.is_file():
        raise JobError(f"model.weights: {path} does not exist; give a safetensors file or `none`")
    try:
        stored = load_file(path)
    except (OSError, SafetensorError) as error:
        raise JobError(f"model.weights: {path} is no safetensors file: {error}") from error
    own = model.state_dict()
    stored = named(stored, GLOBAL_IN_OUTCOME) or stored
    given = {
        name if name.startswith("encoder.") else f"encoder.{name}": value for name, value in stored.items()
    }
    head = {f"encoder.{name}" for name in head_names(model.encoder)}
    unfit = [
        name
        for name, value in own.items()
        if name not in head
        and value.is_floating_point()  # counters of batches are not kept by a stage, and change nothing
        and (name not in given or given[name].shape != value.shape)
    ]
    if unfit:
        raise JobError(
            f"model.weights: {path} does not fit the model: {len(unfit)} tensors missing or of another "
            f"shape, first {unfit[0]}; was it saved from another architecture?"
        )
    fitting = {name: value for name, value in given.items() if name in own and own[name].shape == value.shape}
    model.load_state_dict({**own, **fitting})


def num_classes(model: Classifier) -> int:
    """The outputs of a model's linear head."""
    return int(model.encoder.num_classes)


def head_names(encoder: Any) -> list[str]:
    """State names of a timm encoder's linear classifier."""
    classifier = encoder.get_classifier()
    prefix = next(name for name, module in encoder.named_modules() if module is classifier)
    return [f"{prefix}.{name}" for name in classifier.state_dict()]


def to_model_input(images: NDArray[np.uint8], device: torch.device) -> Tensor:
    """uint8 `(batch, height, width, 3)` to float `(batch, 3, height, width)` in [0, 1], channels last.

    The bytes travel to the device before they become floats: a quarter of the traffic.
    """
    return torch.from_numpy(images).to(device).permute(0, 3, 1, 2).float().div_(255)
