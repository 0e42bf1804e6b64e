"""The relation matrix: a network's softened mean prediction for pictures of each class (Liu et al. 2021).

For v_c the mean logits over pictures of class c, K classes and the temperature T, row c of M `(K, K)` is

    s_c = softmax(v_c / T)

and uniform where no picture is of class c. Over an epoch v_c is the mean of its means in those batches that
hold c.

Departures: the authors' code softens v_c of each batch and averages the rows, uniform ones too. With small
batches the row of a rare class is then mostly uniform, though the client holds the class.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


class MeanLogits:
    """v_c for all classes: the mean over the batches that hold c of their mean logits."""

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
