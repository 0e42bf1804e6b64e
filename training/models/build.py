"""The model of a job: which, and with which weights it begins."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from registry.bundle.cases.case_input import CaseInput
from registry.bundle.nearest import nearest
from training.config import FrozenConfig
from training.errors import JobError
from training.messages.message import named
from training.models.cases import CaseClassifier
from training.models.classifier import Classifier
from training.models.fusion import FusionConfig
from training.models.torchvision_ops import prepare_torchvision
from training.seeds import derive_seed

GLOBAL_IN_OUTCOME = "model-0/"  # before the names of the global model's weights in what a stage leaves


class ModelConfig(FrozenConfig):
    """The `model` block of a job.

    Attributes:
        name: a timm model, e.g. `resnet18`, `vgg11`, `vit_tiny_patch16_224`.
        weights: `none` for random initial weights (drawn from the job's seed), or a safetensors file: of a
            timm model, or what a stage of another run left (`checkpoints/0-pretrain/outcome.safetensors`).
        options: passed to the timm model, e.g. `{channels: [32, 64, 128, 256]}` for a narrow ResNet. A model
            of one picture size, as most ViTs, takes that of the job unless `img_size` says otherwise.
        fusion: how pictures and facts of a case become one embedding; null for `FusionConfig()`.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"fusion"})
    name: str
    weights: str = "none"
    options: Mapping[str, Any] = {}
    fusion: FusionConfig | None = None


def build_model(
    config: ModelConfig,
    num_classes: int,
    seed: int,
    image_size: int | None = None,
    case: CaseInput | None = None,
) -> Classifier:
    """The model of a job, with initial weights that follow from `seed` alone.

    Args:
        config: which.
        num_classes: outputs of the linear head.
        seed: from which the initial weights are drawn.
        image_size: pixels on both sides, for a model that is made for one size; None for the model's own.
        case: what a case has; None for a model of single pictures.

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
            outputs = num_classes if case is None else 0
            encoder = timm.create_model(config.name, pretrained=False, num_classes=outputs, **options)
        except TypeError as error:
            raise JobError(f"model.options: {config.name} does not take {options}: {error}") from error
        if case is None:
            model = Classifier(encoder)
        else:
            model = CaseClassifier(encoder, case, config.fusion or FusionConfig(), num_classes)
    if config.weights != "none":
        load_weights(model, Path(config.weights))
    return model


def initial_model(
    config: ModelConfig, seed: int, image_size: int, num_classes: int, case: CaseInput | None = None
) -> Classifier:
    """The model that a job begins with, the same at the coordinator and at every client.

    Args:
        config: the `model` block of the job.
        seed: the job's seed.
        image_size: pixels on both sides.
        num_classes: outputs of the linear head.
        case: what a case has; None for a model of single pictures.
    """
    return build_model(config, num_classes, derive_seed(seed, "initial weights"), image_size, case)


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
    head = set(model.head_names)
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
