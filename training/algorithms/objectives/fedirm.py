"""FedIRM: semi-supervised learning by the relations between classes (Liu et al. 2021).

Predictive uncertainty is the entropy of the mean prediction over stochastic passes. In such a pass dropout
draws as in training (Gal and Ghahramani 2016), or noise is added to the picture, while normalisation layers
use their statistics and do not move them.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from training.algorithms.augmentations import AugmentConfig, augment
from training.algorithms.exchanges.base import Exchange, Shared
from training.algorithms.exchanges.relations import RELATIONS, SharedRelations
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.epochs import (
    ClassWeights,
    SubgroupLossTask,
    class_weights,
    in_batches,
    repeated,
)
from training.algorithms.objectives.momentum import MeanTeacher, MomentumStart
from training.data.cells import count_people
from training.data.dataset import Examples
from training.errors import DataError
from training.messages import Tensors
from training.models import Classifier
from training.models.classifier import NORMALISATIONS, to_model_input

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


class MeanLogits:
    """The relation matrix: a network's softened mean prediction for pictures of each class (Liu et al. 2021).

    For v_c the mean logits over pictures of class c, K classes and the temperature T, row c of M `(K, K)` is

        s_c = softmax(v_c / T)

    and uniform where no picture is of class c. Over an epoch v_c is the mean of its means in those batches
    that hold c.

    Departures: the authors' code softens v_c of each batch and averages the rows, uniform ones too. With
    small batches the row of a rare class is then mostly uniform, though the client holds the class.
    """

    def __init__(self, classes: int, device: torch.device) -> None:
        self._sums = torch.zeros(classes, classes, dtype=torch.float64, device=device)
        self._batches = torch.zeros(classes, 1, dtype=torch.float64, device=device)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Take in a batch: logits `(batch, classes)` and labels `(batch,)`."""
        means, present = mean_logits(logits.double(), labels)
        self._sums += means
        self._batches += present.unsqueeze(1)

    def relations(self, temperature: float, disclosed: Tensor) -> Tensor:
        """M `(classes, classes)`; the row of a class that never came, or is not `disclosed`, is uniform.

        Args:
            temperature: T.
            disclosed: which classes may be disclosed `(classes,)`.
        """
        means = self._sums / self._batches.clamp_min(1) * disclosed.to(self._sums.device).unsqueeze(1)
        return (means / temperature).softmax(dim=1)


def mean_logits(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """v_c of one batch `(classes, classes)`, 0 for absent classes, and which are present `(classes,)`.

    Args:
        logits: `(batch, classes)`, perhaps of no picture.
        labels: `(batch,)`.
    """
    classes = logits.shape[1]
    counts = F.one_hot(labels, classes).sum(dim=0)
    sums = torch.zeros(classes, classes, dtype=logits.dtype, device=logits.device)
    sums = sums.index_add(0, labels, logits)
    return sums / counts.clamp_min(1).unsqueeze(1), counts > 0


def relation_distance(logits: Tensor, labels: Tensor, relations: Tensor, temperature: float) -> Tensor:
    """½ (KL(M ‖ M_u) + KL(M_u ‖ M)), the mean over the rows of classes that occur; 0 where none does.

    Args:
        logits: of the pictures that are kept `(batch, classes)`.
        labels: their pseudo labels `(batch,)`.
        relations: M `(classes, classes)`.
        temperature: T.
    """
    means, present = mean_logits(logits, labels)
    own = F.log_softmax(means / temperature, dim=1)
    received = relations.clamp_min(torch.finfo(relations.dtype).tiny).log()
    # Both divergences in one: ½ Σ_j (M_j − M_u,j) (log M_j − log M_u,j).
    rows = 0.5 * ((relations - own.exp()) * (received - own)).sum(dim=1)
    return rows[present].sum() / present.sum().clamp_min(1)


class FedIRM(Objective):
    """FedIRM: clients without labels learn class relations from those with labels (Liu et al. 2021).

    A client learns from its labelled pictures by cross-entropy, and sends its relation matrix by the exchange
    `relations` (`MeanLogits`). The mean M of these matrices comes back to all clients.

    From pictures without a label a client learns, with t the round,

        λ(t) (L_c + L_IRM),    λ(t) = 15 e^{−5 (1 − t/30)²} for t < 30, and 15 from then on.

    L_c is the squared distance ‖p − p'‖² between the student's softmax output on one weak view of a picture
    and the teacher's (`training.algorithms.objectives.momentum`) on another, the mean over the batch. For M_u
    the batch's own relation matrix

        L_IRM = ½ (KL(M ‖ M_u) + KL(M_u ‖ M)),

    the mean over the rows of classes that occur. M_u is made of the student's logits, which carry the
    gradient, and of pseudo labels: the student's most likely classes in evaluation mode. Only pictures count
    whose pseudo label has a probability of at least 0.3, and whose mean prediction over 11 passes has an
    entropy up to a limit (`mean_prediction`). Before an M has arrived there is no L_IRM. A client with
    pictures of both kinds goes through those with a label first.

    Departures from the authors' code:

    - Its pseudo labels come from the pass that trains, and its 11 passes move the normalisation statistics.
    - Its limit on the entropy, 2.0 nats, is above what its five classes can have. Here it is a share of log
      K: 2.0 nats are 0.96 of it for eight classes. That takes little away either, for where one class has
      0.3, the entropy of eight is at most 1.97 nats. A limit that filters is lower.
    - A row of M over pictures of fewer patients than the job's `privacy.min_count` is uniform: the row of a
      single picture would be the model's answer to it.
    - It divides L_IRM by all K classes; the rows of those that do not occur carry no gradient there. Here it
      is the mean over those that do, so that its gradient is K / (classes that occur in the batch) times
      theirs, and a batch of few classes says as much of each pair as one of all.
    - Its cross-entropy is of both views of a picture, with smoothed labels.
    - Its clients without labels wait for 20 rounds. Here a stage of 20 rounds with `supervised` goes before,
      and `rounds_before` counts them in t.

    Attributes:
        augment: of the weak views.
        samples: pictures of each kind in a local epoch, the same for every client (FedVC); None for all.
        class_weights: whether rare classes count more in the cross-entropy.
        temperature: T.
        momentum: how much of itself the teacher keeps at each step (α).
        teacher: whether it goes on where the client's was (`keep`) or starts each round as the received
            network (`reset`).
        consistency: the value of λ at its end.
        ramp: the round from which λ is there.
        rounds_before: rounds of earlier stages that count in t.
        min_confidence: the least probability of a pseudo label.
        max_entropy: the largest entropy of the mean prediction, as a share of log K.
        passes: over how many the prediction is averaged; one is made where the model drops nothing.
        noise: the standard deviation of Gaussian noise on the pictures of these passes, where a picture's
            values are in [0, 1]; a model without dropout (`model.options.drop_rate`) needs it.
    """

    uses_unlabelled: ClassVar[bool] = True
    shares: ClassVar[frozenset[Shared]] = frozenset({"relations"})
    name: Literal["fedirm"] = "fedirm"
    batch_size: int = Field(64, ge=2)
    augment: AugmentConfig = AugmentConfig(rotation=180)
    samples: int | None = Field(None, ge=2)
    class_weights: ClassWeights = "none"
    temperature: float = Field(2.0, gt=0)
    momentum: float = Field(0.99, ge=0, lt=1)
    teacher: MomentumStart = "keep"
    consistency: float = Field(15.0, ge=0)
    ramp: int = Field(30, ge=0)
    rounds_before: int = Field(0, ge=0)
    min_confidence: float = Field(0.3, ge=0, le=1)
    max_entropy: float = Field(0.96, ge=0, le=1)
    passes: int = Field(11, ge=1)
    noise: float = Field(0.0, ge=0)

    def fit_with(self, exchange: Exchange) -> None:
        """Refuse an exchange that brings no relations."""
        brings_relations = isinstance(exchange, SharedRelations)
        if not brings_relations:
            raise ValueError(
                f"fedirm gets no relations with exchange {exchange.name}; set `exchange: {{name: relations}}`"
            )

    def weight(self, round_: int) -> float:
        """λ(t) for t = `round_` + `rounds_before`."""
        t = round_ + self.rounds_before
        if t >= self.ramp:
            return self.consistency
        return self.consistency * math.exp(-5 * (1 - t / self.ramp) ** 2)

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round.

        Raises:
            DataError: when the relations that arrived are of other classes than the model's.
        """
        return FedIRMTask(self, model, work)


class FedIRMTask(SubgroupLossTask):
    """One client's round of FedIRM."""

    def __init__(self, config: FedIRM, model: Classifier, work: LocalRound) -> None:
        self._examples = without_lone_pictures(work.examples)
        super().__init__(work, self._examples)
        self._config = config
        self._model = model
        self._work = work
        self._classes = model.num_classes
        self._weight = config.weight(work.round)
        self._relations = received_relations(work, self._classes)
        self._labels = torch.from_numpy(self._examples.labels).to(work.device)
        self._labelled = np.flatnonzero(self._examples.labels >= 0)
        self._unlabelled = np.flatnonzero(self._examples.labels < 0)
        self._class_weights = class_weights(
            self._examples.labels, self._classes, config.class_weights, work.device
        )
        self._teacher = (
            MeanTeacher(model, work, config.momentum, config.teacher) if len(self._unlabelled) else None
        )
        self._draws = work.torch_generator("noise")
        self._forget()

    def _forget(self) -> None:
        self._losses.reset()
        self._means = MeanLogits(self._classes, self._work.device)
        # Pictures without a label, those kept among them, and the sums of their L_c and L_IRM.
        self._sums = torch.zeros(4, dtype=torch.float64, device=self._work.device)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Pictures with a label in one weak view, then those without in two."""
        self._forget()
        work, config = self._work, self._config
        order, views = work.numpy_generator(f"order {epoch}"), work.torch_generator(f"augment {epoch}")
        for part, shown in ((self._labelled, 1), (self._unlabelled, 2)):
            drawn = part[repeated(len(part), self._drawn(part), order)]
            for positions in in_batches(drawn, config.batch_size) if len(drawn) else ():
                images = to_model_input(self._examples.batch(positions), work.device)
                yield Batch(
                    torch.cat([augment(images, config.augment, views) for _ in range(shown)]), positions
                )

    def _drawn(self, part: NDArray[np.int64]) -> int:
        """Pictures in an epoch of a part; none of an empty one."""
        return (self._config.samples or len(part)) if len(part) else 0

    def loss(self, batch: Batch) -> Tensor:
        """The mean loss of a batch with labels, or of one without."""
        named = self._examples.labels[batch.positions[0]] >= 0
        losses = self._with_labels(batch) if named else self._without_labels(batch)
        self._losses.add(batch.positions, losses)
        return losses.mean()

    def _with_labels(self, batch: Batch) -> Tensor:
        """Cross-entropy of each picture `(batch,)`."""
        labels = self._labels[torch.from_numpy(batch.positions).to(self._work.device)]
        logits = self._model(batch.images).float()
        self._means.add(logits.detach(), labels)
        losses: Tensor = F.cross_entropy(logits, labels, self._class_weights, reduction="none")
        return losses

    def _without_labels(self, batch: Batch) -> Tensor:
        """λ(t) (‖p − p'‖² + L_IRM) of each picture `(batch,)`; L_IRM is the batch's."""
        assert self._teacher is not None
        student_view, teacher_view = batch.images.chunk(2)
        # First, for autocast may reuse what it has cast in a pass without gradient.
        logits: Tensor = self._model(student_view).float()
        targets = self._teacher.probabilities(teacher_view)
        distances = (logits.softmax(dim=1) - targets).square().sum(dim=1)
        kept = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
        relation = torch.zeros((), device=logits.device)
        if self._relations is not None:
            labels, kept = self._pseudo_labels(student_view)
            relation = relation_distance(
                logits[kept], labels[kept], self._relations, self._config.temperature
            )
        sums = [torch.full_like(relation, len(logits)), kept.sum(), distances.sum(), relation * len(logits)]
        self._sums += torch.stack([value.detach().double() for value in sums])
        return self._weight * (distances + relation)

    @torch.no_grad()
    def _pseudo_labels(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The most likely class of each picture `(batch,)`, and whether it is sure enough."""
        config = self._config
        with at_rest(self._model):
            confidence, labels = self._model(images).float().softmax(dim=1).max(dim=1)
        mean = mean_prediction(self._model, images, config.passes, config.noise, self._draws)
        limit = config.max_entropy * math.log(self._classes)
        return labels, (confidence >= config.min_confidence) & (entropy(mean) <= limit)

    def after_step(self) -> None:
        """The teacher follows."""
        if self._teacher is not None:
            self._teacher.follow()

    def outgoing(self) -> Tensors:
        """M, where there are labels; uniform for a class of which too few patients were drawn."""
        if not len(self._labelled):
            return {}
        drawn = self._losses.drawn
        patients = count_people(drawn.labels, drawn.people, self._classes)
        disclosed = torch.from_numpy(patients >= self._work.min_count)
        return {RELATIONS: self._means.relations(self._config.temperature, disclosed).float().cpu()}

    def keep(self) -> Tensors:
        """The teacher, where it is kept."""
        return {} if self._teacher is None else self._teacher.keep()

    def scalars(self) -> Mapping[str, float]:
        """L_c, L_IRM and the share of pseudo labels kept, over the last epoch; λ is left out."""
        pictures, kept, consistency, relation = self._sums.tolist()
        if not self._losses.enough_unlabelled:
            return {}
        scalars = {"consistency": consistency / pictures}
        if self._relations is not None:
            scalars |= {"kept": kept / pictures, "relation": relation / pictures}
        return scalars


def received_relations(work: LocalRound, classes: int) -> Tensor | None:
    """M `(classes, classes)` on the client's device, or None before there is one.

    Raises:
        DataError: when it is of other classes.
    """
    if RELATIONS not in work.received:
        return None
    relations = work.received[RELATIONS].to(work.device)
    if relations.shape != (classes, classes):
        raise DataError(
            f"{work.client} received relations {tuple(relations.shape)} in round {work.round}; its model has "
            f"{classes} classes. Do all sites run the same job?"
        )
    return relations


def without_lone_pictures(examples: Examples) -> Examples:
    """The examples without a lone labelled or a lone unlabelled picture: a batch of one has no variance."""
    named = examples.labels >= 0
    alike = np.where(named, named.sum(), (~named).sum())
    return examples.where(alike > 1)
