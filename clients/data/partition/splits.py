"""Train, validation, calibration and test splits: by component, stratified, the same on every machine.

Components (`clients.data.manifests.manifest`) are laid out by client, subgroup and label, in an order drawn
from the seed, and assigned so that every stretch of that line is divided in the asked proportions
(`clients.data.partition.rules`). So each client gets these proportions, each subgroup within it, and each
label within that as nearly as whole lesions allow. The line starts afresh at each client: a hospital that
sees its own manifest alone draws the same splits as the coordinator who sees all.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import SplitError
from clients.data.manifests.manifest import Row
from clients.data.output import listing
from clients.data.partition.rules import Component, Stratum, deal, name_of, ordered_components
from training.data.dataset import SPLITS
from training.data.settings import SplitConfig


def assign_splits(
    config: SplitConfig,
    rows: Sequence[Row],
    component_ids: NDArray[np.int64],
    strata: Sequence[Stratum],
    *,
    seed: int,
) -> NDArray[np.int64]:
    """The split of each row, `(rows,)`, as an index into `SPLITS`.

    A component with a row whose `split` is given goes there whole; the others fill up the proportions.

    Args:
        config: the proportions.
        rows: the pictures.
        component_ids: the component of each row `(rows,)`.
        strata: (client, subgroup, label) of each row.
        seed: the job's seed.

    Raises:
        SplitError: rows of one component were given different splits; the first twenty are named.
    """
    refuse_straddling(rows, component_ids)
    proportions = [getattr(config, name) for name in SPLITS]
    items = ordered_components(
        component_ids, [name_of(row) for row in rows], strata, seed=seed, purpose="split"
    )
    numbers: dict[str, int] = {name: number for number, name in enumerate(SPLITS)}
    splits = np.empty(len(rows), dtype=np.int64)
    for item, split in deal(
        items, lambda _: proportions, by=1, fixed=lambda item: numbers.get(fixed_split(item, rows))
    ):
        splits[list(item.rows)] = split
    return splits


def straddling(rows: Sequence[Row], component_ids: NDArray[np.int64]) -> list[str]:
    """A line for each component whose rows are given different splits: which pictures, and where."""
    placed: dict[int, dict[str, Row]] = {}
    for row, number in zip(rows, component_ids.tolist(), strict=True):
        if row.split:
            placed.setdefault(number, {}).setdefault(row.split, row)
    return [
        ", ".join(f"{name_of(row)} ({row.image}) is in {split}" for split, row in by_split.items())
        for by_split in placed.values()
        if len(by_split) > 1
    ]


def refuse_straddling(rows: Sequence[Row], component_ids: NDArray[np.int64]) -> None:
    """Refuse given splits that separate pictures of one component.

    Raises:
        SplitError: names the components.
    """
    problems = straddling(rows, component_ids)
    if problems:
        raise SplitError(
            f"{len(problems)} groups of pictures of one lesion, patient or duplicate are on both sides of a "
            f"split:\n{listing(problems)}\ngive each group one split, or leave the column empty"
        )


def fixed_split(item: Component, rows: Sequence[Row]) -> str:
    """The split that the manifest gives a component; empty where it gives none."""
    return next((rows[row].split for row in item.rows if rows[row].split), "")
