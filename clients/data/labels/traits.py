"""Traits: the columns whose intersections with subgroups a job evaluates, and the tones of its subgroups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import ClientDataError
from clients.data.manifests.manifest import Row
from clients.data.sources import Source
from registry.bundle.metrics.summary import UNKNOWN
from training.data.dataset import DECLARED_TONE
from training.data.subgroups import ColumnSubgroups, IntersectionConfig, ToneGroups

MOST_VALUES = 50


@dataclass(frozen=True)
class Traits:
    """The columns, and the value of each row in them.

    Attributes:
        values: by column, what is said there: the values of bands in their order, others sorted, unknown
            last. The last column, `DECLARED_TONE`, has the tones that subgroups name as `scale tone`, and ""
            for every other.
        members: for each row and column an index into the column's values, `(rows, columns)`.
    """

    values: Mapping[str, tuple[str, ...]]
    members: NDArray[np.int64]


def require_columns(sources: Sequence[Source], intersections: Sequence[IntersectionConfig]) -> None:
    """Refuse a job whose sources lack a column; unseen ones need none.

    Raises:
        UnknownColumnError: names the nearest columns.
    """
    for source in sources:
        for each in intersections:
            if not source.unseen:
                source.manifest.require(each.column)


def read_traits(
    rows: Sequence[Row],
    intersections: Sequence[IntersectionConfig],
    subgroups: ToneGroups | ColumnSubgroups | None = None,
) -> Traits:
    """The traits of every row; without `subgroups` by skin tone none of them is a tone.

    Raises:
        ClientDataError: a column with more than `MOST_VALUES` values, such as one that names patients.
    """
    values: dict[str, tuple[str, ...]] = {}
    members = np.zeros((len(rows), len(intersections)), dtype=np.int64)
    for place, each in enumerate(intersections):
        cells = [each.value(row.value(each.column)) for row in rows]
        known = each.values or tuple(sorted(set(cells), key=lambda value: (value == UNKNOWN, value)))
        if len(known) > MOST_VALUES:
            raise ClientDataError(
                f"evaluation.intersections: the column {each.column} has {len(known)} values; at most "
                f"{MOST_VALUES} can be told apart. Cut numbers with `bands`, or name another column"
            )
        numbers = {value: number for number, value in enumerate(known)}
        values[each.column] = known
        members[:, place] = [numbers[value] for value in cells]
    if isinstance(subgroups, ToneGroups):
        claimed = subgroups.claimed
        places = {tone: place for place, tone in enumerate(claimed)}
        tones = [places.get((row.skin_tone_scale, row.skin_tone), len(claimed)) for row in rows]
        values[DECLARED_TONE] = (*(f"{scale} {tone}" for scale, tone in claimed), "")
        members = np.column_stack([members, np.array(tones, dtype=np.int64)])
    return Traits(values, members)
