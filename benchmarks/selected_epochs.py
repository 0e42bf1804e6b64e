"""How often a personal model takes the global one's place, by each rule, where it should and should not.

Drawn validation lesions of one subgroup, half of them malignant, of which the global model gets three in four
right. Six epochs of fine-tuning change answers, each on its own: of all lesions one in eight at least. Rules
are the paper's (the best accuracy), the floor's (the best that is not below the global model), and the
floor's with proof, as `personalize` asks for it. Criterion: where no epoch is better for patients, one is
taken in at most 5 % of the draws with proof, in every row.

    python benchmarks/selected_epochs.py --draws 2000
"""

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from quick import start
from tables import print_conditions, print_table

from personalization.selection.proof import ProofConfig, prove
from personalization.selection.select import SelectionConfig, select
from registry.bundle.counts.lesions import PairedCounts

LESIONS = (20, 50, 100, 500, 1000)
EPOCHS = 6
RIGHT = 0.75  # of the global model's answers, benign and malignant alike
CHANGED = 0.125  # of all answers, at least
# What six epochs truly change: points of specificity, and of malignant sensitivity.
TRUTHS: Mapping[str, tuple[float, float]] = {
    "all 3 points worse": (-0.03, -0.03),
    "no better and no worse": (0.0, 0.0),
    "accuracy 3 points better, sensitivity 10 worse": (0.16, -0.10),
    "all 5 points better": (0.05, 0.05),
    "all 10 points better": (0.10, 0.10),
}
MALIGNANT = np.array([False, True])


def drawn(
    change: tuple[float, float], n: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Labels `(n,)`, and whether the global model and each epoch are right, `(1 + epochs, n)`."""
    labels = np.arange(n) % 2
    by_side = np.array(change)[labels]
    changed = np.maximum(CHANGED, np.abs(by_side))
    gained, lost = (changed + by_side) / 2, (changed - by_side) / 2
    right = random.random(n) < RIGHT
    flip = np.where(right, lost / RIGHT, gained / (1 - RIGHT))
    return labels, np.concatenate([right[None], right ^ (random.random((EPOCHS, n)) < flip)])


def taken(labels: NDArray[np.int64], right: NDArray[np.bool_]) -> tuple[bool, bool, bool]:
    """Whether an epoch takes the global model's place by the paper's rule, the floor's, and with proof."""
    accuracies = {"one": {epoch: float(row.mean()) for epoch, row in enumerate(right)}}
    paper, floor = (
        select(accuracies, SelectionConfig(rule=rule)).epochs["one"] for rule in ("paper", "floor")
    )
    if not floor:
        return bool(paper), False, False
    before, after = (np.where(right[epoch], labels, 1 - labels) for epoch in (0, floor))
    counts = PairedCounts.count(labels, before, after, np.arange(len(labels)), MALIGNANT)
    proof = prove(counts, floor, EPOCHS, ProofConfig(), has_malignancy=True)
    return bool(paper), True, proof.holds


def main(draws: Annotated[int, typer.Option(help="For each row.")] = 2000) -> None:
    """Draw, choose, and print how often an epoch is taken."""
    print_conditions("How often a personal model is taken", {"draws": draws, "epochs": EPOCHS})
    rows = []
    for truth, change in TRUTHS.items():
        for n in LESIONS:
            random = np.random.default_rng([n, list(TRUTHS).index(truth)])
            shares = np.mean([taken(*drawn(change, n, random)) for _ in range(draws)], axis=0)
            rows.append([truth, n, *(f"{share:.1%}" for share in shares)])
    print_table(["the six epochs are", "validation lesions", "paper", "floor", "floor and proof"], rows)


if __name__ == "__main__":
    start(main, "--draws 3")
