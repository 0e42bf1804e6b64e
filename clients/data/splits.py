"""Train, validation, calibration and test: drawn by component, stratified, and the same on every machine.

Components (`clients.data.groups`) are laid out by client, subgroup and label, in an order drawn from the
seed, and dealt so that every stretch of that line is divided in the asked shares (`clients.data.dealing`).
So each client gets its shares, each subgroup within it, and each label within that as nearly as whole lesions
allow. The line starts afresh at each client: a hospital that sees its own manifest alone draws the same
splits as the coordinator who sees all.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from clients.data.dealing import Component, Stratum, deal, gather, name_of
from clients.data.errors import SplitError
from clients.data.manifest import Row
from clients.data.wording import listing
from training.data import SPLITS, SplitConfig


def assign_splits(
    config: SplitConfig,
    rows: Sequence[Row],
    numbers: NDArray[np.int64],
    strata: Sequence[Stratum],
    *,
    seed: int,
) -> NDArray[np.int64]:
    """The split of each row, `(rows,)`, as an index into `SPLITS`.

    A component with a row whose `split` is given goes there whole; the others fill up the shares.

    Args:
        config: the shares.
        rows: the pictures.
        numbers: the component of each row `(rows,)`.
        strata: (client, subgroup, label) of each row.
        seed: the job's seed.

    Raises:
        SplitError: rows of one component were given different splits; the first twenty are named.
    """
    refuse_straddling(rows, numbers)
    shares = [getattr(config, name) for name in SPLITS]
    items = gather(numbers, [name_of(row) for row in rows], strata, seed=seed, purpose="split")
    splits = np.empty(len(rows), dtype=np.int64)
    for _, line in groupby(items, key=lambda item: item.stratum[0]):
        stretch = list(line)
        given = [_given(item, rows) for item in stretch]
        dealt = deal([len(item.rows) for item in stretch], shares, given)
        for item, split in zip(stretch, dealt, strict=True):
            splits[list(item.rows)] = split
    return splits


def straddling(rows: Sequence[Row], numbers: NDArray[np.int64]) -> list[str]:
    """A line for each component whose rows were given different splits: which pictures, and where."""
    placed: dict[int, dict[str, Row]] = {}
    for row, number in zip(rows, numbers.tolist(), strict=True):
        if row.split:
            placed.setdefault(number, {}).setdefault(row.split, row)
    return [
        ", ".join(f"{name_of(row)} ({row.image}) is in {split}" for split, row in by_split.items())
        for by_split in placed.values()
        if len(by_split) > 1
    ]


def refuse_straddling(rows: Sequence[Row], numbers: NDArray[np.int64]) -> None:
    """Refuse given splits that part pictures of one component.

    Raises:
        SplitError: names the components.
    """
    problems = straddling(rows, numbers)
    if problems:
        raise SplitError(
            f"{len(problems)} groups of pictures of one lesion, patient or duplicate are on both sides of a "
            f"split:\n{listing(problems)}\ngive each group one split, or leave the column empty"
        )


def _given(item: Component, rows: Sequence[Row]) -> int | None:
    given = {rows[row].split for row in item.rows} - {""}
    return next((number for number, name in enumerate(SPLITS) if name in given), None)
