"""Named groups of a model's state, as the papers speak of them."""

from torch import Tensor, nn

from training.errors import JobError
from training.models.classifier import Classifier

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
