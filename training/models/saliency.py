"""Where in a picture a class's logit comes from: class activation, without a gradient.

Of a network whose last feature map f `(features, rows, columns)` is averaged over its cells and goes through
a linear layer W, the logit of class k is the mean over cells of

    M_k(r, c) = Σ_j W_kj f_j(r, c),

its class activation map (Zhou et al. 2016, Eq. 2), which for such networks is Grad-CAM (Selvaraju et al.
2017, section 3.1) but for its ReLU. From W the mean over classes is taken away: what is added to all rows of
W changes no probability, and here no map. So

    mean over cells of M_k = z_k − mean over classes of z,   z = W · (pooled features).

A layer norm behind the pooling is read as a linear map, with the standard deviation of what was pooled held
still (Ali et al. 2022); the equation holds there too. A transformer that answers from one token pools
nothing: its patches' tokens, after the last norm, are shown to the linear layer in that token's place.
Nothing sums up there, and whether it shows what counts is for a judgement to say (`registry.bundle.maps`);
attention rollout (Abnar & Zuidema 2020) knows no class, and Chefer et al. 2021 need gradients, which a graph
has none of.

How an encoder pools is not asked by its name but found out on noise: one that does neither has no map, and
one of a single cell has none.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.models.cases import CaseClassifier
from training.models.classifier import CaseBatch, Classifier

COARSEST = 2  # rows and columns: a map of one cell says nothing
_CLOSE = 1e-3  # of the largest value: how far a found rule may be from what the encoder pools


@dataclass(frozen=True)
class CellRule:
    """How an encoder's features lie in a picture, and how they are pooled.

    Attributes:
        layout: of what `forward_features` gives: `(batch, features, rows, columns)`, `(batch, rows, columns,
            features)`, or tokens `(batch, tokens, features)`.
        pooling: their mean, the layer norm of their mean, or a token of its own.
        norm: the layer norm, by its name in the encoder; empty without one.
        prefix: how many tokens stand before those of patches.
        grid: rows and columns of tokens.
    """

    layout: Literal["features first", "features last", "tokens"]
    pooling: Literal["mean", "norm of mean", "token"]
    norm: str = ""
    prefix: int = 0
    grid: tuple[int, int] = (1, 1)

    def cells(self, maps: Tensor) -> Tensor:
        """The features of each cell, `(batch, features, rows, columns)`."""
        if self.layout == "features first":
            return maps
        if self.layout == "features last":
            return maps.permute(0, 3, 1, 2)
        patches = maps[:, self.prefix :].transpose(1, 2)
        return patches.reshape(*patches.shape[:2], *self.grid)


def cell_rule(classifier: Classifier, size: int) -> CellRule | None:
    """How the encoder of a classifier pools, tested on noise; None where it does not pool, or in another way.

    Args:
        classifier: in evaluation mode; its last layer must be linear.
        size: pixels on both sides of a picture.
    """
    encoder: Any = classifier.encoder
    if not isinstance(classifier, CaseClassifier) and not isinstance(encoder.get_classifier(), nn.Linear):
        return None
    noise = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        maps = encoder.forward_features(noise.to(classifier.mean.device))
        pooled = encoder.forward_head(maps, pre_logits=True)
    if pooled.ndim != 2 or not isinstance(maps, Tensor):
        return None
    return next((rule for rule in _candidates(encoder, maps) if _pools(rule, encoder, maps, pooled)), None)


def _candidates(encoder: Any, maps: Tensor) -> list[CellRule]:
    norms = [
        name
        for name, module in encoder.named_modules()
        if isinstance(module, nn.LayerNorm) and name in ("fc_norm", "head.norm")
    ]
    rules: list[CellRule] = []
    if maps.ndim == 4:
        for layout in ("features first", "features last"):
            rules.append(CellRule(layout, "mean"))
            rules += [CellRule(layout, "norm of mean", norm) for norm in norms]
    if maps.ndim == 3:
        prefix = int(getattr(encoder, "num_prefix_tokens", 0))
        sides = getattr(getattr(encoder, "patch_embed", None), "grid_size", None)
        if sides is None or sides[0] * sides[1] + prefix != maps.shape[1]:
            return []
        grid = int(sides[0]), int(sides[1])
        rules.append(CellRule("tokens", "mean", "", prefix, grid))
        rules += [CellRule("tokens", "norm of mean", norm, prefix, grid) for norm in norms]
        rules += [CellRule("tokens", "token", "", prefix, grid)] if prefix else []
    return rules


def _pools(rule: CellRule, encoder: Any, maps: Tensor, pooled: Tensor) -> bool:
    cells = rule.cells(maps)
    if cells.shape[1] != pooled.shape[1] or min(cells.shape[2:]) < COARSEST:
        return False
    with torch.no_grad():
        found = maps[:, 0] if rule.pooling == "token" else cells.mean(dim=(2, 3))
        if rule.norm:
            norm = encoder.get_submodule(rule.norm)  # maybe one of timm's, which takes maps alone
            found = F.layer_norm(found, found.shape[1:], norm.weight, norm.bias, norm.eps)
    return bool((found - pooled).abs().max() <= _CLOSE * pooled.abs().max().clamp(min=1e-6))


def features_and_cells(classifier: Classifier, images: Tensor, rule: CellRule) -> tuple[Tensor, Tensor]:
    """What a classifier's encoder makes of pictures, and what of that comes from each cell.

    Args:
        classifier: in evaluation mode.
        images: `(batch, 3, height, width)` in [0, 1].
        rule: of its encoder.

    Returns:
        The features `(batch, features)`, the same as `Classifier.features`; and their parts `(batch,
        features, rows, columns)`, whose mean over cells they are, but for a transformer that answers from one
        token. Of a picture and its mirror image the parts lie where they are in the picture.
    """
    if not classifier.flips:
        return _of_one_side(classifier, images, rule)
    features, parts = _of_one_side(classifier, torch.cat([images, images.flip(-1)]), rule)
    straight, mirrored = parts.view(2, -1, *parts.shape[1:]).unbind(0)
    return features.view(2, -1, features.shape[1]).mean(dim=0), (straight + mirrored.flip(-1)) / 2


def _of_one_side(classifier: Classifier, images: Tensor, rule: CellRule) -> tuple[Tensor, Tensor]:
    encoder: Any = classifier.encoder
    maps = encoder.forward_features((images - classifier.mean) / classifier.std)
    pooled: Tensor = encoder.forward_head(maps, pre_logits=True)
    cells = rule.cells(maps)
    if rule.norm:
        norm = encoder.get_submodule(rule.norm)
        cells = _centred(cells, cells.mean(dim=(2, 3)), norm.eps)
        if norm.weight is not None:
            cells = cells * norm.weight[:, None, None] + norm.bias[:, None, None]
    return pooled, cells


def _centred(cells: Tensor, pooled: Tensor, eps: float = 1e-5) -> Tensor:
    """The layer norm without weights of each cell, by the standard deviation of what was pooled."""
    spread = (pooled.var(dim=1, unbiased=False) + eps).sqrt()
    return (cells - cells.mean(dim=1, keepdim=True)) / spread[:, None, None, None]


def class_activation(classifier: Classifier, parts: Tensor) -> Tensor:
    """The maps `(batch, classes, rows, columns)` of pictures, from their parts; in units of logits."""
    weight = classifier.encoder.get_classifier().weight
    return torch.einsum("kj,bjrc->bkrc", weight - weight.mean(dim=0), parts)


def case_activation(
    classifier: CaseClassifier, parts: Tensor, features: Tensor, cases: CaseBatch, rule: CellRule
) -> Tensor:
    """The maps `(batch, slots, classes, rows, columns)` of a case's pictures, zero in empty slots.

    Summed over pictures, their means over cells are what the pictures give to the logits, without facts and
    biases: each is weighed as `training.models.cases` weighs its picture.

    Args:
        classifier: whose fusion and head.
        parts: `(batch, slots, features, rows, columns)`.
        features: `(batch, slots, features)`, zeros in empty slots.
        cases: kinds of the pictures.
        rule: of the encoder.
    """
    fusion, kinds = classifier.fusion, cases.kinds
    width = features.shape[-1]
    weight = classifier.head.weight[:, : fusion.kinds * width]
    of_each = (weight - weight.mean(dim=0)).view(-1, fusion.kinds, width)
    of_kind = (kinds[..., None] == torch.arange(fusion.kinds, device=kinds.device)).to(parts.dtype)
    counts = of_kind.sum(dim=1)
    kinds_there = (counts > 0).to(parts.dtype).sum(dim=1, keepdim=True).clamp(min=1)
    share = (of_kind / (counts.clamp(min=1) * kinds_there)[:, None]).sum(dim=-1)
    flat = parts.flatten(0, 1)
    if rule.pooling == "token":
        normalised = F.layer_norm(flat.movedim(1, -1), (width,)).movedim(-1, 1)
    else:
        normalised = _centred(flat, features.flatten(0, 1))
    weights = torch.einsum("bsn,knj->bskj", of_kind, of_each)
    maps = torch.einsum("bskj,bsjrc->bskrc", weights, normalised.view(parts.shape))
    return maps * share[..., None, None, None]
