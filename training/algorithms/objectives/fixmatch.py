"""FixMatch, alone or with peers: pseudo labels of weak views teach strong ones (Sohn et al. 2020; FedPerl).

With α a weak and A a strong augmentation, a client m minimises (Bdair et al. 2022, Eqs. 2, 8 and 9)

    L_m = CE(y, f_m(α(x_L))) + β CE(ỹ, f_m(A(x_U))) + γ ‖f_m(α(x_U)) − f_a(α(x_U))‖²

over its labelled pictures x_L and its unlabelled ones x_U. The pseudo label ỹ is the class of the highest
score of the mean of the client's and its peers' softmax outputs on the weak view (Eqs. 5 and 7), and a
picture whose highest score is below τ has no part in the second term. An anonymized peer is one voice, so
that it and the client count 1:1. The third term is a mean over the peers; without peers there is none, and
the system is FedAvg with FixMatch, SSFL.

Pseudo labels come from the client's present weights and the peers' weights as they arrived, in evaluation
mode and without gradient: making them moves no normalisation statistics. What of a peer did not travel is
the client's own. The third term carries a gradient into the client's model alone.

Departures: Eqs. 5 and 7 add scores up; the mean keeps τ's meaning in [0, 1], as in the authors' code. There
both sides of the third term are detached, so that it trains nothing; Eq. 8 holds. The second term is a mean
over all unlabelled pictures of a batch, those below τ with 0 (Sohn et al., Eq. 4), where FedPerl's code
takes it over those that count: here few sure pictures teach little, there each of them as much as a whole
batch would. Class weights are for labelled pictures only: a pseudo label of a rare class is more often
wrong, not more dear.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from training.algorithms.augmentations import AugmentConfig, augment
from training.algorithms.exchanges.base import Shared
from training.algorithms.exchanges.peers import peer_prefix
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.epochs import (
    ClassSampling,
    ClassWeights,
    Streams,
    SubgroupLossTask,
    class_weights,
)
from training.algorithms.objectives.momentum import load
from training.algorithms.rand_augment import RandAugmentConfig, rand_augment
from training.messages import named
from training.models import Classifier
from training.models.classifier import float_state, to_model_input

WEAK = AugmentConfig(flip=True, rotation=180)


class FixMatch(Objective):
    """Cross-entropy on labels and on pseudo labels.

    Attributes:
        augment: α, the weak augmentation.
        strong: A.
        pseudo_view: pseudo labels are made of the `weak` view, or of the picture as it is (`original`).
        threshold: τ, the score from which a pseudo label counts.
        beta: β, the weight of pseudo labels.
        gamma: γ, the weight of agreement with peers.
        batch_size: labelled pictures in a batch.
        unlabelled_ratio: unlabelled pictures for each labelled one in a batch.
        samples: labelled pictures in a local epoch, and so many times the ratio unlabelled ones, the same for
            every client (FedVC); None goes once through the stream that takes more batches.
        sampling: how labelled pictures are drawn.
        class_weights: whether rare classes count more among labelled pictures.
    """

    shares: ClassVar[frozenset[Shared]] = frozenset({"peers"})
    uses_unlabelled: ClassVar[bool] = True
    name: Literal["fixmatch"] = "fixmatch"
    batch_size: int = Field(16, ge=2)
    augment: AugmentConfig = WEAK
    strong: RandAugmentConfig = RandAugmentConfig()
    pseudo_view: Literal["weak", "original"] = "weak"
    threshold: float = Field(0.6, ge=0, le=1)
    beta: float = Field(0.5, ge=0)
    gamma: float = Field(0.01, ge=0)
    unlabelled_ratio: int = Field(1, ge=1)
    samples: int | None = Field(None, ge=2)
    sampling: ClassSampling = "uniform"
    class_weights: ClassWeights = "none"

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round."""
        return FixMatchTask(self, model, work)


class FixMatchTask(SubgroupLossTask):
    """One client's round of FixMatch."""

    def __init__(self, config: FixMatch, model: Classifier, work: LocalRound) -> None:
        super().__init__(work, work.examples)
        self._config = config
        self._model = model
        self._work = work
        self._labels = torch.from_numpy(work.examples.labels).to(work.device)
        self._weights = class_weights(
            work.examples.labels, model.num_classes, config.class_weights, work.device
        )
        self._peers = received_peers(model, work)
        self._streams = Streams(
            work.examples.labels, config.batch_size, config.unlabelled_ratio, config.samples, config.sampling
        )
        self._kept = torch.zeros((), device=work.device)
        self._seen = 0

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Labelled pictures weakly augmented, unlabelled ones so, and the same unlabelled ones strongly."""
        self._losses.reset()
        self._kept.zero_()
        self._seen = 0
        work, config = self._work, self._config
        random = work.torch_generator(f"augment {epoch}")
        for labelled, unlabelled in self._streams.batches(work.numpy_generator(f"order {epoch}")):
            views = []
            if len(labelled):
                views.append(augment(self._images(labelled), config.augment, random))
            if len(unlabelled):
                originals = self._images(unlabelled)
                is_weak = config.pseudo_view == "weak"
                views.append(augment(originals, config.augment, random) if is_weak else originals)
                views.append(rand_augment(originals, config.strong, random))
            yield Batch(torch.cat(views), np.concatenate([labelled, unlabelled]))

    def _images(self, positions: NDArray[np.int64]) -> Tensor:
        return to_model_input(self._work.examples.batch(positions), self._work.device)

    def loss(self, batch: Batch) -> Tensor:
        """Eq. 9, each term a mean over its pictures of the batch."""
        unlabelled = len(batch.images) - len(batch.positions)
        labelled = len(batch.positions) - unlabelled
        known, weak, strong = batch.images.tensor_split([labelled, len(batch.positions)])
        own, theirs = self._voices(weak) if unlabelled else (weak, [])
        agrees = bool(theirs) and self._config.gamma > 0
        outputs = self._model(torch.cat([known, strong, weak] if agrees else [known, strong])).float()
        of_known, of_strong, of_weak = outputs.tensor_split([labelled, len(batch.positions)])

        terms = []
        if labelled:
            classes = self._labels[torch.from_numpy(batch.positions[:labelled]).to(outputs.device)]
            terms.append(F.cross_entropy(of_known, classes, self._weights, reduction="none"))
        if unlabelled:
            terms.append(self._config.beta * self._taught(of_strong, [own, *theirs]))
            if agrees:
                terms[-1] = terms[-1] + self._config.gamma * disagreement(of_weak.softmax(dim=1), theirs)
        self._losses.add(batch.positions, torch.cat(terms))
        return torch.stack([term.mean() for term in terms]).sum()

    def _taught(self, outputs: Tensor, voices: Sequence[Tensor]) -> Tensor:
        """Cross-entropy of strong views' outputs against pseudo labels `(batch,)`, 0 where none counts."""
        scores, pseudo = torch.stack(list(voices)).mean(dim=0).max(dim=1)
        counts = scores >= self._config.threshold
        self._kept += counts.sum()
        self._seen += len(counts)
        return F.cross_entropy(outputs, pseudo, reduction="none") * counts

    @torch.no_grad()
    def _voices(self, weak: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Probabilities `(batch, classes)` of the client and each of its peers for weak views."""
        self._model.eval()
        own = self._model(weak).float().softmax(dim=1)
        self._model.train()
        # Autocast would hand the weights it cast here, without gradient, to the pass that needs one.
        torch.clear_autocast_cache()
        return own, [peer(weak).float().softmax(dim=1) for peer in self._peers]

    def scalars(self) -> dict[str, float]:
        """The share of pseudo labels that counted in the last local epoch, where there were any."""
        return {"kept": float(self._kept) / self._seen} if self._losses.enough_unlabelled else {}


def disagreement(own: Tensor, theirs: Sequence[Tensor]) -> Tensor:
    """‖f_m − f_t‖² (Eq. 8) of probabilities `(batch, classes)`, the mean over peers t: `(batch,)`."""
    return torch.stack([((own - peer) ** 2).sum(dim=1) for peer in theirs]).mean(dim=0)


def received_peers(model: Classifier, work: LocalRound) -> Sequence[Classifier]:
    """The peers that came with the round, in evaluation mode; what did not travel of them is `model`'s."""
    count = len({name.partition("/")[0] for name in work.received})
    peers = work.frozen_copies(count)
    for place, peer in enumerate(peers):
        load(peer, {**float_state(model), **named(work.received, peer_prefix(place))})
        peer.eval()
    return peers
