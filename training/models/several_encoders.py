"""Several frozen encoders, layers and views of a picture as one encoder, projected to few numbers.

For encoder e and view v a picture has the raw features r = f_e(v(x)): pooled as the encoder pools, or of each
layer that is named the class token and the mean of the patches, after the last norm, side by side. Each such
block is centred, turned to its first principal components and divided by one number,

    y = P (r − μ) / s,   s² = mean of the variances of the components,

so that every block weighs the same; y of all blocks side by side is what a picture's features are. μ and P/s
are found from sums over all hospitals (`training.models.several_encoders`), and zero until then.

The centre view is the square of .8 of the height in the middle, resampled to the whole size bicubically, as
A x Aᵀ with a fixed matrix A: so every runtime computes the same.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.errors import JobError, MessageError


def triangle(gram: Tensor) -> Tensor:
    """The values `(width (width + 1) / 2,)` on and above the diagonal of a matrix `(width, width)`."""
    return gram[tuple(torch.triu_indices(*gram.shape))]


def triangle_size(width: int) -> int:
    """How many values `triangle` has."""
    return width * (width + 1) // 2


def principal(n: float, total: Tensor, upper: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Principal components of features from sums over hospitals (Pearson 1901), in double precision.

    With n pictures, the sum Σ r and the Gram matrix G = Σ r rᵀ of their raw features,

        μ = Σ r / n,   C = G / n − μ μᵀ = Σ_j λ_j u_j u_jᵀ,   λ_1 ≥ λ_2 ≥ …,

    the first k components are the rows u_1 … u_k, divided by s = (λ_1 + … + λ_k)^½ k^−½: what they give has a
    variance of 1 on average. Sums of hospitals add up to those of pooled pictures, and so does all that
    follows. Of a Gram matrix the triangle on and above the diagonal is sent, row after row.

    A component's sign is that of its largest value, positive.

    Args:
        n: how many pictures.
        total: the sum of their raw features `(width,)`.
        upper: `triangle` of their Gram matrix.
        count: how many components.

    Raises:
        MessageError: the sums are of no picture, or all features are the same.
    """
    mean = total / max(n, 1)
    width = len(mean)
    gram = torch.zeros(width, width, dtype=torch.float64)
    gram[tuple(torch.triu_indices(width, width))] = upper.double()
    gram = gram + gram.triu(1).T
    values, vectors = torch.linalg.eigh(gram / max(n, 1) - torch.outer(mean, mean))
    components, spread = vectors.T.flip(0)[:count], values.flip(0)[:count].clamp(min=0).mean().sqrt()
    if n < 1 or not spread > 0:
        raise MessageError(
            f"the sums of features of {n:.0f} training pictures have no spread to find components of; look "
            "in the logs of the hospitals for what was held back, or lower privacy.min_count"
        )
    largest = components.gather(1, components.abs().argmax(dim=1, keepdim=True))
    return mean, components * largest.sign() / spread


View = Literal["full", "center"]
CENTRE = 0.8  # of the height
CENTRES, COMPONENTS = "encoder.centre", "encoder.components"  # names in a classifier, before a block's number


class OneOfSeveral(nn.Module):
    """A timm encoder with its normalisation, and what of it is taken: a block for each view.

    Args:
        encoder: a timm model without a classifier.
        mean, std: what pictures in [0, 1] are normalised with, of red, green and blue.
        layers: numbers of blocks of a ViT from 0; empty for what the encoder itself pools.

    Raises:
        JobError: it has no such layers.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, encoder: Any, mean: Sequence[float], std: Sequence[float], layers: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.encoder, self.layers = encoder, tuple(layers)
        # With the weights, so that whoever compares digests of them compares these.
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1))
        depth = len(encoder.blocks) if layers and hasattr(encoder, "num_prefix_tokens") else 0
        wrong = [layer for layer in layers if not 0 <= layer < depth]
        if wrong:
            has = f"has blocks 0 to {depth - 1}" if depth else "is no ViT and takes no layers"
            raise JobError(
                f"model.encoders: layers {list(layers)} of {type(encoder).__name__}, which {has}; name "
                "others, or remove layers for the features that the encoder pools"
            )
        tokens = 1 + (layers != () and encoder.num_prefix_tokens > 0)
        self.width = int(encoder.embed_dim * tokens * len(layers) if layers else pooled_width(encoder))

    def forward(self, images: Tensor) -> Tensor:
        """The raw features `(batch, width)` of pictures `(batch, 3, height, width)` in [0, 1]."""
        shown = (images - self.mean) / self.std
        if not self.layers:
            pooled: Tensor = self.encoder.forward_head(self.encoder.forward_features(shown), pre_logits=True)
            return pooled
        found = self.encoder.forward_intermediates(
            shown,
            indices=list(self.layers),
            return_prefix_tokens=True,
            norm=True,
            stop_early=True,
            output_fmt="NLC",
            intermediates_only=True,
        )
        if not self.encoder.num_prefix_tokens:
            return torch.cat([patches.mean(dim=1) for patches in found], dim=1)
        return torch.cat([part for patches, first in found for part in (first[:, 0], patches.mean(dim=1))], 1)


class Encoders(nn.Module):
    """In place of one timm encoder: of pictures in [0, 1] the projected features of all blocks.

    Blocks are in the order of encoders, those of one in the order of views.

    Args:
        encoders: what is taken of each.
        components: of each encoder's blocks.
        views: of a picture, each once.
        size: pixels on both sides of a picture.
        num_classes: outputs of the linear classifier; 0 for none.

    Raises:
        JobError: a block has fewer features than components.
    """

    standardised = True  # for fusion, which leaves such features as they are

    def __init__(
        self,
        encoders: Sequence[OneOfSeveral],
        components: Sequence[int],
        views: Sequence[View],
        size: int,
        num_classes: int,
    ) -> None:
        super().__init__()
        self.parts, self.views = nn.ModuleList(encoders), tuple(views)
        self.widths = tuple(each.width for each in encoders for _ in views)
        self.kept = tuple(count for count in components for _ in views)
        for each, count in zip(encoders, components, strict=True):
            if count > each.width:
                raise JobError(
                    f"model.encoders: {count} components of {type(each.encoder).__name__}, whose features "
                    f"here are {each.width}; name at most so many, or more layers"
                )
        self.register_buffer("middle", middle_of(size), persistent=False)
        for number, (width, count) in enumerate(zip(self.widths, self.kept, strict=True)):
            self.register_buffer(f"centre{number}", torch.zeros(width))
            self.register_buffer(f"components{number}", torch.zeros(count, width))
        self.num_features, self.num_classes = sum(self.kept), num_classes
        self.classifier = nn.Linear(self.num_features, num_classes) if num_classes else nn.Identity()

    @property
    def is_projected(self) -> bool:
        """Whether the projection has been found."""
        return all(bool(self.get_buffer(f"components{n}").any()) for n in range(len(self.widths)))

    def forward_features(self, images: Tensor) -> tuple[Tensor, ...]:
        """The raw features of each block `(batch, width)`, of pictures `(batch, 3, height, width)`."""
        shown = [images if view == "full" else self.centre_of(images) for view in self.views]
        return tuple(part(view) for part in self.parts for view in shown)

    def forward_head(self, maps: Sequence[Tensor], pre_logits: bool = False) -> Tensor:
        """The projected features `(batch, num_features)` of all blocks, and what is made of them."""
        blocks = [
            F.linear(raw - self.get_buffer(f"centre{n}"), self.get_buffer(f"components{n}"))
            for n, raw in enumerate(maps)
        ]
        projected = torch.cat(blocks, dim=1)
        if pre_logits:
            return projected
        logits: Tensor = self.classifier(projected)
        return logits

    def raw(self, images: Tensor) -> Tensor:
        """The raw features of all blocks side by side, `(batch, sum of widths)`."""
        return torch.cat(self.forward_features(images), dim=1)

    def projected(self, raw: Tensor) -> Tensor:
        """What `raw` gave, projected, `(batch, num_features)`."""
        return self.forward_head(torch.split(raw, list(self.widths), dim=1), pre_logits=True)

    def centre_of(self, images: Tensor) -> Tensor:
        """The square in the middle of pictures, at their own size."""
        middle = self.get_buffer("middle")
        return torch.matmul(torch.matmul(middle, images), middle.T).clamp(0, 1)

    def get_classifier(self) -> nn.Module:
        """The linear classifier."""
        return self.classifier


def middle_of(size: int) -> Tensor:
    """The matrix `(size, size)` that takes a column of pixels to its middle, resampled bicubically."""
    inside = size - 2 * round(size * (1 - CENTRE) / 2)
    beside = (size - inside) // 2
    resampled = F.interpolate(
        torch.eye(inside)[None, None], (size, inside), mode="bicubic", align_corners=False
    )[0, 0]
    return F.pad(resampled, (beside, beside))


def pooled_width(encoder: Any) -> int:
    """The width of what a timm encoder pools."""
    return int(getattr(encoder, "head_hidden_size", None) or encoder.num_features)
