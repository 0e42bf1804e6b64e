"""Assigning each picture to a subgroup, by skin tone or by a column.

Traits: the columns whose intersections with subgroups a job evaluates, and the tones of its subgroups.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import ClientDataError, SubgroupError
from clients.data.manifest import Row
from clients.data.sources import Source
from registry.bundle.metrics.summary import UNKNOWN
from registry.bundle.skin_tone import read_tone
from training.data.dataset import DECLARED_TONE
from training.data.subgroups import TAKEN, ColumnSubgroups, IntersectionConfig, ToneGroups
from training.data.unused import NO_TONE, NO_VALUE, OTHER_VALUE, SCALE, TONE

UNDECLARED = -1


@dataclass(frozen=True)
class Grouping:
    """The subgroups, and the one of each row.

    Attributes:
        names: the subgroups.
        members: for each row an index into `names`, or `UNDECLARED`, `(rows,)`.
        reasons: why a row is in none, as `training.data.unused.Unused.undeclared` names it; empty for a row
            that is in one, and in a job without subgroups.
    """

    names: tuple[str, ...]
    members: NDArray[np.int64]
    reasons: tuple[str, ...] = ()


def assign_subgroups(
    rows: Sequence[Row],
    config: ToneGroups | ColumnSubgroups | None,
    seen: NDArray[np.bool_] | None = None,
    *,
    whole: bool = True,
) -> Grouping:
    """The subgroup of every row.

    By tone: each group has its values of one scale or of several; a tone that no group names and no tone at
    all are `UNDECLARED`, and nothing is converted. By column: one subgroup per value, sorted; an empty value
    is `UNDECLARED`. With None there are no subgroups and every row is `UNDECLARED`.

    Args:
        rows: the pictures.
        config: the job's `subgroups`.
        seen: the rows that some client trains on `(rows,)`, by default all; only these form subgroups.
        whole: whether these are all of a job's pictures; one hospital's own may lack a tone's subgroup.

    Raises:
        SubgroupError: a subgroup without pictures, or a column without values.
    """
    if config is None:
        return Grouping((), np.full(len(rows), UNDECLARED, dtype=np.int64))
    counted = np.ones(len(rows), dtype=bool) if seen is None else seen
    if isinstance(config, ColumnSubgroups):
        return _by_column(rows, config.column, counted)
    return _by_tone(rows, config, counted, whole=whole)


def _by_column(rows: Sequence[Row], column: str, seen: NDArray[np.bool_]) -> Grouping:
    values = [row.value(column) for row in rows]
    names = tuple(sorted({value for value, counts in zip(values, seen, strict=True) if counts} - {""}))
    if not names:
        raise SubgroupError(f"the column {column!r} is empty, so it names no subgroups; choose another")
    if taken := sorted(set(names) & set(TAKEN)):
        raise SubgroupError(
            f"the column {column!r} says {', '.join(taken)}, as figures call something else; leave the cell "
            "empty where nothing is known, or write another word"
        )
    return _grouping(names, values, [OTHER_VALUE if value else NO_VALUE for value in values])


def _by_tone(rows: Sequence[Row], config: ToneGroups, seen: NDArray[np.bool_], *, whole: bool) -> Grouping:
    named: dict[str, dict[str, str]] = {}  # group names by scale and tone
    for name, by_scale in config.tones.items():
        for scale, values in by_scale.items():
            named.setdefault(scale, {}).update({read_tone(value, scale): name for value in values})
    grouping = _grouping(
        tuple(config.tones),
        [named.get(row.skin_tone_scale, {}).get(row.skin_tone, "") for row in rows],
        [_undeclared(row, named) for row in rows],
    )
    held = Counter(grouping.members[seen].tolist())
    empty = [name for number, name in enumerate(grouping.names) if not held[number]]
    if whole and empty:
        tones = _tones([row for row, counts in zip(rows, seen, strict=True) if counts])
        scales = f"scale{'s' if len(named) > 1 else ''} {' and '.join(named)}"
        raise SubgroupError(
            f"no picture belongs to the subgroup {', '.join(empty)} ({scales}); "
            f"the pictures' tones: {tones}; name groups that have pictures"
        )
    return grouping


def _undeclared(row: Row, named: Mapping[str, object]) -> str:
    """Why a row whose tone no group names is in none, given the scales that groups name."""
    if not row.skin_tone:
        return NO_TONE
    if row.skin_tone_scale not in named:
        return f"{SCALE}{row.skin_tone_scale}"
    return f"{TONE}{row.skin_tone_scale} {row.skin_tone}"


def _grouping(names: tuple[str, ...], values: Sequence[str], reasons: Sequence[str]) -> Grouping:
    index = {name: number for number, name in enumerate(names)}
    members = [index.get(value, UNDECLARED) for value in values]
    why = ["" if member >= 0 else reason for member, reason in zip(members, reasons, strict=True)]
    return Grouping(names, np.array(members, dtype=np.int64), tuple(why))


def _tones(rows: Sequence[Row]) -> str:
    counts = Counter(
        f"{row.skin_tone_scale} {row.skin_tone}" if row.skin_tone else "undeclared" for row in rows
    )
    return ", ".join(f"{tone}: {count}" for tone, count in sorted(counts.items()))


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
