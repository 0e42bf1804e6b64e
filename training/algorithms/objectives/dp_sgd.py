"""DP-SGD: supervised training with differential privacy of each picture (Abadi et al. 2016, Algorithm 1).

A step draws each picture by itself with probability q = L / N (L the expected batch, N the client's labelled
pictures), clips each picture's gradient to the norm C, adds N(0, σ² C²) to their sum, and divides by L. A
local epoch has ⌈N / L⌉ steps. Gradients of single pictures are `torch.func`'s; clipping and scaling are
Opacus' `DPOptimizer`; noise and draws come from the operating system (`training.randomness`), not from the
job's seed, so that runs differ.

Neighbouring data sets differ in one picture: a patient with k pictures is protected k times less. Losses do
not leave the client, for the account does not cover them.

Departures: any optimizer may take the private gradient's step. Pictures are augmented before their gradient
is taken, each by itself.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from typing import Any, Final, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from training.algorithms.augmentations import augment
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.epochs import SubgroupLossTask
from training.errors import JobError
from training.models import Classifier
from training.models.classifier import to_model_input

STEPS: Final = "private_steps"
RATE: Final = "private_rate"
NOISE: Final = "private_noise_multiplier"
DELTA: Final = "private_delta"


class DPSGD(Objective):
    """Cross-entropy with private gradients; `batch_size` is L, the expected size of a batch.

    Attributes:
        clip: C, the largest L2 norm of one picture's gradient.
        noise_multiplier: σ.
        delta: δ of the account; below 1 / N.
    """

    name: Literal["dp-sgd"] = "dp-sgd"
    clip: float = Field(1.0, gt=0)
    noise_multiplier: float = Field(gt=0)
    delta: float = Field(1e-5, gt=0, lt=1)

    @model_validator(mode="after")
    def _nothing_else_touches_gradients(self) -> "DPSGD":
        if self.mu or self.clip_norm is not None:
            raise ValueError("dp-sgd clips each picture's gradient itself; leave mu and clip_norm out")
        return self

    def require_model(self, model: Classifier) -> None:
        """Refuse batch normalisation, which mixes the pictures of a batch.

        Raises:
            JobError: naming a layer, and what to use.
        """
        for name, module in model.named_modules():
            if isinstance(module, nn.modules.batchnorm._NormBase):
                raise JobError(
                    f"dp-sgd needs the gradient of each picture by itself, and {name} "
                    f"({type(module).__name__}) mixes the pictures of a batch; use a model without "
                    "batch normalisation, e.g. "
                    "model.options: {norm_layer: groupnorm} of a ResNet (groupnorm1 for a narrow one), or a "
                    "ViT"
                )

    @contextmanager
    def stepping(self, optimizer: torch.optim.Optimizer) -> Iterator[torch.optim.Optimizer]:
        """Opacus' optimizer around the job's, with noise of our own source."""
        private = private_optimizer(self, optimizer)
        try:
            yield private
        finally:
            for parameter in private.params:
                parameter.grad_sample = parameter.summed_grad = None

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round."""
        return DPSGDTask(self, model, work)


class DPSGDTask(SubgroupLossTask):
    """One client's round of private steps."""

    def __init__(self, config: DPSGD, model: Classifier, work: LocalRound) -> None:
        from training.randomness import NoiseSource

        self._examples = work.examples.where(work.examples.labels >= 0)
        super().__init__(work, self._examples)
        self._config, self._model, self._work = config, model, work
        self._labels = torch.from_numpy(self._examples.labels).to(work.device)
        self._rate = min(1.0, config.batch_size / max(len(self._examples), 1))
        self._draws = NoiseSource()
        self._steps = 0

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Poisson samples; one may be empty."""
        self._losses.reset()
        random = self._work.torch_generator(f"augment {epoch}")
        for _ in range(ceil(len(self._examples) / self._config.batch_size)):
            positions = self._draws.chosen(len(self._examples), self._rate)
            images = to_model_input(self._examples.batch(positions), self._work.device)
            if len(positions):
                images = augment(images, self._config.augment, random)
            yield Batch(images, positions)

    def loss(self, batch: Batch) -> Tensor:
        """The mean loss of the batch; each picture's gradient is left in `grad_sample` of the parameters."""
        self._steps += 1
        trained = {name: p for name, p in self._model.named_parameters() if p.requires_grad}
        positions = torch.from_numpy(batch.positions).to(self._work.device)
        gradients, losses = gradients_of_each(self._model, trained, batch.images, self._labels[positions])
        for name, parameter in trained.items():
            parameter.grad_sample = gradients[name]  # type: ignore[attr-defined]
        if len(positions):
            self._losses.add(batch.positions, losses)
        return losses.sum() + 0.0 * sum((p.sum() for p in trained.values()), torch.zeros(()))

    def losses(self) -> Mapping[str, float]:
        """Nothing: the account covers the weights alone."""
        return {}

    def scalars(self) -> Mapping[str, float]:
        """What the account needs."""
        config = self._config
        return {
            STEPS: float(self._steps),
            RATE: self._rate,
            NOISE: config.noise_multiplier,
            DELTA: config.delta,
        }


def gradients_of_each(
    model: Classifier, trained: Mapping[str, nn.Parameter], images: Tensor, labels: Tensor
) -> tuple[dict[str, Tensor], Tensor]:
    """The gradient of each picture's cross-entropy `(batch, *shape)` by parameter, and their losses."""
    if not len(images):
        return {name: p.new_zeros((0, *p.shape)) for name, p in trained.items()}, images.new_zeros(0)

    def loss_of(weights: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        logits = torch.func.functional_call(model, weights, (image[None],))
        return F.cross_entropy(logits, label[None])

    # Row by row, and plain attention: for other layouts and fused kernels `vmap` has no rule of its own.
    weights = {name: parameter.detach().contiguous() for name, parameter in trained.items()}
    each = torch.func.vmap(torch.func.grad_and_value(loss_of), in_dims=(None, 0, 0), randomness="different")
    with sdpa_kernel(SDPBackend.MATH):
        gradients, losses = each(weights, images.contiguous(), labels)
    return dict(gradients), losses.detach()


def private_optimizer(config: DPSGD, optimizer: torch.optim.Optimizer) -> Any:  # Opacus has no types
    """Opacus' clipping and scaling around an optimizer, with noise from `training.randomness`.

    Raises:
        JobError: when Opacus is not installed.
    """
    try:
        from opacus.optimizers import DPOptimizer
    except ImportError as error:
        raise JobError("dp-sgd needs Opacus; install it with `pip install dermfed[privacy]`") from error

    from training.randomness import NoiseSource

    class PrivateOptimizer(DPOptimizer):  # type: ignore[misc]
        source = NoiseSource()

        def add_noise(self) -> None:
            for parameter in self.params:
                noise = self.source.normal(parameter.summed_grad.cpu(), config.noise_multiplier * config.clip)
                # In the parameter's own order: fused steps walk through both memories side by side.
                private = torch.empty_like(parameter)
                parameter.grad = private.copy_(parameter.summed_grad + noise.to(parameter.device))

    return PrivateOptimizer(
        optimizer,
        noise_multiplier=config.noise_multiplier,
        max_grad_norm=config.clip,
        expected_batch_size=config.batch_size,
    )
