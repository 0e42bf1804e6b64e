"""The server's labelled pictures, drawn from every client's (Bdair et al. 2022, section 3).

The paper has "ten clients besides the global model": the server holds labelled pictures of its own, to train
on where no client has labels, and to judge peers by. It does not say how they were drawn. Here they are a
share of every client's components, drawn before anything else: the others' splits are of what remains.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import PartitionError
from clients.data.manifests.manifest import Row
from clients.data.partition.assign import Component, Stratum, assign, name_of, ordered_components
from clients.data.partition.splits import refuse_straddling
from training.data.dataset import SPLITS
from training.data.settings import ServerConfig

ELSEWHERE = -1
_TRAIN, _VALIDATION = SPLITS.index("train"), SPLITS.index("validation")


def draw_server(
    config: ServerConfig,
    rows: Sequence[Row],
    component_ids: NDArray[np.int64],
    strata: Sequence[Stratum],
    *,
    seed: int,
) -> NDArray[np.int64]:
    """Each row's split at the server, `(rows,)`, an index into `SPLITS`; `ELSEWHERE` for a client's rows.

    Components are laid out by client, subgroup and label and assigned to the server and to their clients in
    the proportions s and 1 - s, each client's afresh: what the server has of one does not depend on the
    others. A component whose manifest gives it to calibration or test stays there. Of all that the server
    got, in the same order, t are for training and 1 - t for validation, but where the manifest gives a
    component to one of them. Which pictures are the server's does not depend on t.

    Args:
        config: the proportions s and t.
        rows: the pictures of all clients.
        component_ids: the component of each row `(rows,)`.
        strata: (client, subgroup, label) of each row.
        seed: the job's seed.

    Raises:
        SplitError: rows of one component were given different splits.
    """
    refuse_straddling(rows, component_ids)
    items = ordered_components(
        component_ids, [name_of(row) for row in rows], strata, seed=seed, purpose="server"
    )
    taken: list[Component] = []
    for _, line in groupby(items, key=lambda item: item.stratum[0]):
        stretch = list(line)
        fixed = [1 if _fixed_split(item, rows) in ("calibration", "test") else None for item in stretch]
        assigned = assign([len(item.rows) for item in stretch], [config.share, 1 - config.share], fixed)
        taken += [item for item, receiver in zip(stretch, assigned, strict=True) if receiver == 0]
    fixed = [{"train": 0, "validation": 1}.get(_fixed_split(item, rows)) for item in taken]
    parts = assign([len(item.rows) for item in taken], [config.train, 1 - config.train], fixed)
    splits = np.full(len(rows), ELSEWHERE, dtype=np.int64)
    for item, part in zip(taken, parts, strict=True):
        splits[list(item.rows)] = (_TRAIN, _VALIDATION)[part]
    return splits


def refuse_idle_server(config: ServerConfig, splits: NDArray[np.int64], codes: Sequence[str]) -> None:
    """Refuse a server share that leaves the server no pictures, or no labels to train on.

    Args:
        config: what was asked.
        splits: what the server has, as of `draw_server`.
        codes: the class of each row, empty where it is unlabelled.

    Raises:
        PartitionError: no pictures, or no labelled ones to train on although it should train.
    """
    labelled = np.array([bool(code) for code in codes], dtype=bool)
    wanted, what = splits != ELSEWHERE, "no pictures"
    if config.train > 0:
        wanted, what = (splits == _TRAIN) & labelled, "no labelled pictures to train on"
    if not wanted.any():
        raise PartitionError(
            f"the server, with the share {config.share:g} of {len(splits)} pictures and {config.train:g} of "
            f"that for training, would have {what}; raise `server.share`, or remove `server`"
        )


def _fixed_split(item: Component, rows: Sequence[Row]) -> str:
    return next((rows[row].split for row in item.rows if rows[row].split), "")
