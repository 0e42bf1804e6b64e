"""Tensors of others into a model: every tensor of the encoder finds its place, or an error names it."""

from collections.abc import Mapping, Sequence
from math import isqrt
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.errors import JobError
from training.messages.message import Tensors, named, prefixed
from training.models.encoders.files import FileContent
from training.models.encoders.names import as_timm_names, of_the_encoder

SHOWN = 3  # tensors that an error names
ENCODER = "encoder."
POSITION = "pos_embed"


def load_tensors(model: nn.Module, content: FileContent, where: str, name: str) -> tuple[str, ...]:
    """Copy a file's tensors into a classifier, and tell what was left out or changed.

    A head that does not fit is left as it is. What stands beside the encoder in a file, such as a decoder
    or an encoder of text, is left out.

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
