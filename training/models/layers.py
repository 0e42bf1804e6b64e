"""The layers of an encoder, as timm divides it."""

from typing import Any

from torch import nn

from training.models.torchvision_ops import prepare_torchvision


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
