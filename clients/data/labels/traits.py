"""Traits: the columns whose intersections with subgroups a job evaluates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import ClientDataError
from clients.data.manifests.manifest import Row
from clients.data.sources import Source
from registry.bundle.metrics.intersections import UNKNOWN
from training.data.intersections import IntersectionConfig

MOST_VALUES = 50


@dataclass(frozen=True)
class Traits:
    """The columns, and the value of each row in them.

    Attributes:
        values: by column, what is said there: the values of bands in their order, others sorted, unknown
            last.
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


def read_traits(rows: Sequence[Row], intersections: Sequence[IntersectionConfig]) -> Traits:
    """The traits of every row.

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
    return Traits(values, members)
