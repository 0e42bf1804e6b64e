"""The model of a job: which, and with which weights it begins."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import torch
from pydantic import Field, model_validator
from torch import nn

from registry.bundle.cases import CaseInput
from registry.bundle.pictures.rule import Interpolation
from registry.bundle.text import nearest
from training.config import FrozenConfig
from training.errors import JobError
from training.models.cases import CaseClassifier, FusionConfig
from training.models.classifier import Classifier, normalised, with_flips, with_safe_strides
from training.models.encoder_files import IMAGENET, Normalisation, is_safetensors, prepare_torchvision
from training.models.encoder_loading import load_tensors
from training.models.encoder_sources import (
    NONE,
    Origin,
    Source,
    find_weights,
    interpolation_of,
    preprocessing_of,
)
from training.models.several_encoders import Encoders, OneOfSeveral, View
from training.randomness import derive_seed

AS_GIVEN = Normalisation(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))  # each of several has its own
SETTING = re.compile(
    r"(?<![\w./-])model\.(?=(name|weights|normalisation|options)\b)"
)  # in what is said of one


class EncoderConfig(FrozenConfig):
    """One of several frozen encoders.

    Attributes:
        name, weights, normalisation, options: as in `ModelConfig`.
        layers: of a ViT, the blocks whose class token and mean patch are taken, from 0; empty for what the
            encoder itself pools.
        components: principal components that are kept of each view.
    """

    name: str
    weights: str
    normalisation: Normalisation | None = None
    options: Mapping[str, Any] = {}
    layers: tuple[int, ...] = ()
    components: int = Field(128, ge=1)


class ModelConfig(FrozenConfig):
    """The `model` block of a job: one encoder by its `name`, or several frozen ones.

    Attributes:
        name: a timm model, e.g. `resnet18`, `vgg11`, `vit_tiny_patch16_224`.
        weights: `none` for random initial weights (drawn from the job's seed), `package:NAME` for those of
            an installed package, `hub:TAG` or `hub:OWNER/NAME` for those that are fetched from Hugging Face,
            or a file: of a timm model, also by other authors' names, or what a stage of another run left
            (`checkpoints/0-pretrain/outcome.safetensors`).
        normalisation: mean and standard deviation of red, green and blue that the encoder was trained with;
            null for what its source says, and ImageNet's without any.
        options: passed to the timm model, e.g. `{channels: [32, 64, 128, 256]}` for a narrow ResNet. A model
            of one picture size, as most ViTs, takes that of the job unless `img_size` says otherwise.
        fusion: how pictures and facts of a case become one embedding; null for `FusionConfig()`.
        flips: whether an answer is the mean over a picture and its mirror image, which takes twice the time;
            see `Classifier`. Training sees one side.
        encoders: several frozen encoders in place of `name`; see `training.models.several_encoders`.
        views: what each of them is shown: the `full` picture, and the `center` square of .8 of its height.
    """

    name: str | None = None
    weights: str = NONE
    normalisation: Normalisation | None = None
    options: Mapping[str, Any] = {}
    fusion: FusionConfig | None = None
    flips: bool = False
    encoders: tuple[EncoderConfig, ...] = ()
    views: tuple[View, ...] = ("full",)

    @model_validator(mode="after")
    def _one_or_several(self) -> "ModelConfig":
        if bool(self.encoders) == (self.name is not None):
            raise ValueError("name one encoder by `name`, or several by `encoders`, and not both")
        if self.encoders and (self.weights != NONE or self.normalisation or self.options or self.flips):
            raise ValueError(
                "weights, normalisation, options and flips of `model` are of one encoder; give each of "
                "`encoders` its own weights, normalisation and options, and leave flips out"
            )
        if not self.encoders and self.views != ("full",):
            raise ValueError("views are of `encoders`; list the one encoder there, or remove views")
        if not self.views or len(set(self.views)) < len(self.views):
            raise ValueError(f"views are {', '.join(self.views) or 'none'}; name each once, at least one")
        return self

    @property
    def begins_with(self) -> tuple[tuple[str, str], ...]:
        """The timm model and the weights of each encoder."""
        if self.encoders:
            return tuple((each.name, each.weights) for each in self.encoders)
        assert self.name is not None, "validated"
        return ((self.name, self.weights),)

    @property
    def named(self) -> str:
        """The timm models, for what is said."""
        return " + ".join(name for name, _ in self.begins_with)

    @property
    def interpolation(self) -> Interpolation:
        """By which the encoders' pictures were resized; bicubic where they disagree."""
        found = {interpolation_of(weights, name) for name, weights in self.begins_with}
        return found.pop() if len(found) == 1 else "bicubic"


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

    The linear head begins at zero: every class is as likely at first, whatever is shown. timm draws it for
    each network otherwise, that of an EfficientNet of two classes at ±0.7, which costs the first rounds.

    Raises:
        JobError: for an unknown timm model, options that it does not take, or weights that do not fit.
    """
    if config.encoders:
        return build_several(config, num_classes, seed, image_size, case)
    prepare_torchvision()
    import timm

    assert config.name is not None, "validated"
    if config.name not in timm.list_models():
        raise JobError(f"model.name: unknown timm model `{config.name}`; {nearest_model(config.name)}")
    options = dict(config.options)
    known = timm.get_pretrained_cfg(config.name)
    if image_size is not None and known is not None and known.fixed_input_size:
        options.setdefault("img_size", image_size)
    source = find_weights(config.weights, config.name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            outputs = num_classes if case is None else 0
            encoder = timm.create_model(config.name, pretrained=False, num_classes=outputs, **options)
        except TypeError as error:
            raise JobError(f"model.options: {config.name} does not take {options}: {error}") from error
        encoder = with_flips(
            normalised(with_safe_strides(encoder), normalisation_of(config, source)), config.flips
        )
        model = classifier_on(encoder, config, num_classes, case)
    if source is not None:
        notes = load_tensors(model, source.read(), str(source.path), config.name)
        model.origins = (Origin(source, config.name, notes),)
    return model


def build_several(
    config: ModelConfig, num_classes: int, seed: int, image_size: int | None, case: CaseInput | None
) -> Classifier:
    """As `build_model`, of several encoders, whose projection is not known yet."""
    if image_size is None:
        raise JobError("model.encoders need the size of pictures; give image_size")
    parts, origins = list[OneOfSeveral](), list[Origin]()
    for place, each in enumerate(config.encoders):
        one = ModelConfig(
            name=each.name, weights=each.weights, normalisation=each.normalisation, options=each.options
        )
        try:
            alone = build_model(one, 0, seed, image_size)
        except JobError as error:
            raise JobError(SETTING.sub(f"model.encoders.{place}.", str(error))) from error
        colours = alone.normalisation
        parts.append(OneOfSeveral(alone.encoder, colours.mean, colours.std, each.layers))
        origins += alone.origins
    components = [each.components for each in config.encoders]
    outputs = num_classes if case is None else 0
    encoder = normalised(Encoders(parts, components, config.views, image_size, outputs), AS_GIVEN)
    encoder.requires_grad_(False)
    encoder.classifier.requires_grad_(True)
    model = classifier_on(encoder, config, num_classes, case)
    model.origins = tuple(origins)
    return model


def classifier_on(encoder: Any, config: ModelConfig, num_classes: int, case: CaseInput | None) -> Classifier:
    """The classifier of pictures or of cases on an encoder, its linear head at zero."""
    if case is not None:
        return CaseClassifier(encoder, case, config.fusion or FusionConfig(), num_classes)
    for parameter in encoder.get_classifier().parameters():
        nn.init.zeros_(parameter)
    return Classifier(encoder)


def normalisation_of(config: ModelConfig, source: Source | None) -> Normalisation:
    """What pictures are normalised with: what the job says, else the source, else ImageNet's.

    Raises:
        JobError: neither says it. Files of safetensors have ever been taken with ImageNet's.
    """
    if config.normalisation is not None:
        return config.normalisation
    ((name, weights),) = config.begins_with
    told = preprocessing_of(weights, name)
    if told is not None:
        return told.normalisation
    named = source is not None and source.weights != str(source.path)
    if source is not None and source.path.is_file() and (named or not is_safetensors(source.path)):
        raise JobError(
            f"model.weights: {config.weights} does not say how its encoder was shown pictures, and with "
            "other colours it sees worse; set model.normalisation: {mean: […], std: […]}. `dermfed-train "
            "encoders FILE` suggests one"
        )
    return IMAGENET


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
