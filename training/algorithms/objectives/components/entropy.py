"""Predictive uncertainty: the entropy of the mean prediction over stochastic passes.

In such a pass dropout draws as in training (Gal and Ghahramani 2016), or noise is added to the picture, while
normalisation layers use their statistics and do not move them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from training.models import Classifier
from training.models.groups import NORMALISATIONS

# Under these names timm and torch say how often something is dropped: a layer, a path, a head's features.
RATES = ("p", "drop_prob", "drop_rate")


@contextmanager
def at_rest(model: nn.Module, *, dropout: bool = False) -> Iterator[None]:
    """Evaluation mode while it lasts, with `dropout` of normalisation only; then the modes that were."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(dropout)
    for module in model.modules():
        if isinstance(module, NORMALISATIONS):
            module.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def drops(model: nn.Module) -> bool:
    """Whether anything inside draws in training mode: dropout, or paths that are left out."""
    rates = (getattr(module, name, 0) for module in model.modules() for name in RATES)
    return any(isinstance(rate, int | float) and rate > 0 for rate in rates)


@torch.no_grad()
def mean_prediction(
    model: Classifier, images: Tensor, passes: int, noise: float, generator: torch.Generator
) -> Tensor:
    """Probabilities `(batch, classes)` of the mean logits over the passes.

    One pass is made where all would be the same.

    Args:
        model: the network.
        images: pictures `(batch, 3, height, width)` in [0, 1].
        passes: how many.
        noise: the standard deviation of Gaussian noise on each value of the pictures; 0 for none.
        generator: of the noise, on the CPU.
    """
    if not noise and not drops(model):
        passes = 1
    with at_rest(model, dropout=True):
        logits = [model(disturbed(images, noise, generator)).float() for _ in range(passes)]
    return torch.stack(logits).mean(dim=0).softmax(dim=1)


def disturbed(images: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """The pictures with Gaussian noise of this standard deviation on each value."""
    if not noise:
        return images
    return images + noise * torch.randn(images.shape, generator=generator).to(images.device)


def entropy(probabilities: Tensor) -> Tensor:
    """− Σ_c p_c log p_c in nats `(batch,)`, of probabilities `(batch, classes)`."""
    terms: Tensor = torch.special.entr(probabilities)
    return terms.sum(dim=1)
