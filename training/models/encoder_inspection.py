"""What a file of weights contains, for a user who wants a `model:` block for it.

The architecture is identified by names and shapes. Where a timm model of the guessed name has the very
tensors it is certain; elsewhere it is a guess, and building the model (`--check`) decides.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from training.errors import JobError
from training.messages import Tensors
from training.models.encoder_files import IMAGENET, Normalisation, Preprocessing, prepare_torchvision
from training.models.encoder_loading import as_timm_names, head_prefixes, of_the_encoder
from training.models.encoder_sources import KNOWN, PACKAGE, Source, of_timm, preprocessing_of

SIZES = {192: "tiny", 384: "small", 768: "base", 1024: "large", 1280: "huge", 1536: "giant"}  # ViTs by width
CNNS = (  # those that people have files of
    *(f"resnet{depth}" for depth in (18, 34, 50, 101, 152)),
    *(f"efficientnet_b{size}" for size in range(5)),
    *(f"tf_efficientnet_lite{size}" for size in range(5)),
    *(f"convnext_{size}" for size in ("tiny", "small", "base", "large")),
    *("densenet121", "mobilenetv3_large_100", "swin_tiny_patch4_window7_224", "swin_base_patch4_window7_224"),
)
CLIP = Normalisation(
    mean=(0.48145466, 0.4578275, 0.40821073), std=(0.26862954, 0.26130258, 0.27577711)
)  # OpenAI's, and most of open_clip's


@dataclass(frozen=True)
class Contents:
    """What a file of weights contains.

    Attributes:
        layout: by whose names.
        tensors: how many, of the encoder and outside it.
        values: in those of the encoder.
        model: the timm model that they seem to be of; None where nothing resembles them.
        certain: whether that model has these very tensors.
        options: of the timm model.
        head: the shape of a linear head in the file; None without one.
        preprocessing: how pictures were prepared for the encoder, as far as its layout shows.
        known: whether the source itself says so.
        notes: what is passed over, and what to look at.
    """

    layout: str
    tensors: tuple[int, int]
    values: int
    model: str | None
    certain: bool
    options: Mapping[str, Any]
    head: tuple[int, ...] | None
    preprocessing: Preprocessing
    known: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """By whose names the tensors of a file are.

    Attributes:
        name: whose.
        normalisation: what they train with, as a rule.
        options: of the timm model.
        note: what to look at.
    """

    name: str
    normalisation: Normalisation | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def inspect(source: Source) -> Contents:
    """What the file of a source contains.

    Raises:
        JobError: it cannot be read.
    """
    content = source.read()
    inside, beside = of_the_encoder(content.tensors)
    layout = layout_of(inside, beside)
    known = KNOWN.get(source.weights.removeprefix(PACKAGE)) if source.weights.startswith(PACKAGE) else None
    candidates = [known.model] if known else []
    candidates += list(guesses(inside, source.path.name))
    model, certain = first_that_fits(candidates, inside, dict(layout.options))
    told = preprocessing_of(source.weights, model or "")
    return Contents(
        layout=layout.name,
        tensors=(len(inside), len(beside)),
        values=sum(value.numel() for value in inside.values() if value.is_floating_point()),
        model=model,
        certain=certain,
        options=layout.options,
        head=head_of(inside),
        preprocessing=told or suggested(layout, model),
        known=told is not None,
        notes=(*content.notes, *((layout.note,) if layout.note else ())),
    )


def layout_of(inside: Tensors, beside: Tensors) -> Layout:
    """By whose names the tensors of an encoder are."""
    if "_conv_stem.weight" in inside:
        return Layout("EfficientNet, as its first port to PyTorch")
    if "visual.class_embedding" in inside or any(name.startswith("text_model.") for name in beside):
        note = "CLIP's colours, unless its author says otherwise: MONET was trained with ImageNet's"
        return Layout("CLIP", CLIP, note=note)
    if "blocks.0.attn.q_bias" in inside and "pos_embed" in inside:
        note = "of BEiT with positions of CAE, as PanDerm: one token tells, and nothing is relative"
        options = {"use_abs_pos_emb": True, "use_rel_pos_bias": False, "global_pool": "token"}
        return Layout("PanDerm (CAE)", IMAGENET, options, note)
    if "storage_tokens" in inside:
        return Layout("DINOv3 of Meta", IMAGENET)
    if "mask_token" in inside:
        return Layout("DINOv2 of Meta", IMAGENET)
    if any(name.startswith(("embeddings.", "layer.0.", "encoder.layer.")) for name in inside):
        note = "transformers has other tensors for it than timm: take timm's file, or its author's own"
        return Layout("transformers", note=note)
    return Layout("timm")


def guesses(tensors: Tensors, file: str) -> Iterator[str]:
    """Timm models whose tensors these may be: by the file's name, by a ViT's shape, then the usual ones."""
    prepare_torchvision()
    import timm

    stem = re.split(r"[.\s]", file)[0]
    if stem in timm.list_models():
        yield stem
    yield from _vits(tensors)
    if not any(name.startswith("blocks.0.attn") for name in tensors):
        yield from CNNS


def _vits(tensors: Tensors) -> Iterator[str]:
    patches = next((value for name, value in tensors.items() if _is_patches(name) and value.ndim == 4), None)
    if patches is None or patches.shape[0] not in SIZES:
        return
    size, patch = SIZES[patches.shape[0]], patches.shape[-1]
    if "storage_tokens" in tensors or ("reg_token" in tensors and patch == 16):
        yield f"vit_{size}_patch{patch}_dinov3"
        yield f"vit_{size}_patch{patch}_dinov3_qkvb"
    if "register_tokens" in tensors or "reg_token" in tensors:
        yield f"vit_{size}_patch{patch}_reg4_dinov2"
    if "visual.class_embedding" in tensors or "norm_pre.weight" in tensors:
        yield f"vit_{size}_patch{patch}_clip_quickgelu_224"
        yield f"vit_{size}_patch{patch}_clip_224"
    if "blocks.0.attn.q_bias" in tensors:
        yield f"beit_{size}_patch{patch}_224"
    yield f"vit_{size}_patch{patch}_dinov2"
    yield f"vit_{size}_patch{patch}_224"


def _is_patches(name: str) -> bool:
    return name in ("patch_embed.proj.weight", "visual.conv1.weight")


def first_that_fits(
    candidates: list[str], tensors: Tensors, options: Mapping[str, Any]
) -> tuple[str | None, bool]:
    """The first timm model that has these tensors, and True; else the likeliest, and False."""
    import timm

    known = set(timm.list_models())
    there = [name for name in dict.fromkeys(candidates) if name in known]
    for name in there:
        with torch.device("meta"):
            encoder = timm.create_model(name, num_classes=0, **options)
        heads = head_prefixes(encoder)
        try:
            given = as_timm_names(tensors, encoder, name)
        except JobError:
            continue
        own = {key: value.shape for key, value in encoder.state_dict().items() if value.is_floating_point()}
        body = {
            key: value.shape
            for key, value in given.items()
            if value.is_floating_point() and not key.startswith(heads)
        }
        if body == own:
            return name, True
    return (there[0] if there and any(_is_patches(name) for name in tensors) else None), False


def head_of(tensors: Tensors) -> tuple[int, ...] | None:
    """The shape of the linear head in a file."""
    names = ["head.weight", "fc.weight", "_fc.weight", "classifier.weight", "head.fc.weight"]
    found = next((tensors[name] for name in names if name in tensors), None)
    return None if found is None else tuple(found.shape)


def suggested(layout: Layout, model: str | None) -> Preprocessing:
    """How such encoders are shown pictures as a rule: by whose names they are, else as timm's own weights."""
    if layout.normalisation is not None:
        return Preprocessing(normalisation=layout.normalisation, interpolation="bicubic")
    ours = next((known.preprocessing for known in KNOWN.values() if known.model == model), None)
    if ours is not None:
        return ours
    import timm

    known = timm.get_pretrained_cfg(model) if model else None
    return of_timm(known) if known is not None else Preprocessing()
