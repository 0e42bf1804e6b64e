"""Filtering: the rows of a job's sources that `where` keeps."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clients.data.errors import ClientDataError
from clients.data.manifests.manifest import Row
from clients.data.output import listing
from clients.data.pictures.files import PictureFile, locate
from clients.data.sources import Source
from training.data.settings import DataConfig
from training.data.subgroups import ColumnSubgroups


@dataclass(frozen=True)
class Picture:
    """One picture of a job: its row, file and source.

    Attributes:
        row: what its manifest says.
        source: the name of its manifest.
        file: where it is.
        unseen: whether no client trains on it.
        train_only: whether it is left out of evaluation.
    """

    row: Row
    source: str
    file: PictureFile
    unseen: bool = False
    train_only: bool = False


def filtered(sources: Sequence[Source], config: DataConfig) -> list[Picture]:
    """The pictures whose columns have one of the values that `where` asks for, in the order of the sources.

    A source's own `where` asks besides the job's.

    Raises:
        UnknownColumnError: the job or a source names a column that a manifest does not have.
        ClientDataError: no row is left, none of a source that has a `where` of its own, or all are
            `train_only`.
    """
    wanted, aside = _values(config.where), _values(config.train_only)
    kept: list[Picture] = []
    for source in sources:
        for column in _named_columns(config, source):
            source.manifest.require(column)
        own = _values(source.where)
        mine = [
            Picture(
                row,
                source.name,
                locate(row.image, source.manifest.folder),
                source.unseen,
                train_only=bool(aside) and not source.unseen and _has(row, aside),
            )
            for row in source.manifest.rows
            if _has(row, wanted) and _has(row, own)
        ]
        if own and not mine:
            asked = {**config.where, **source.where}
            raise ClientDataError(
                f"`where` {asked} keeps no picture of source {source.name}:\n"
                f"{listing(_present([source], asked))}"
            )
        kept += mine
    if not kept:
        raise ClientDataError(
            f"`where` {dict(config.where)} keeps no picture:\n{listing(_present(sources, wanted))}"
        )
    if aside and all(picture.train_only or picture.unseen for picture in kept):
        raise ClientDataError(
            f"`train_only` {dict(config.train_only)} leaves no picture to judge a model by:\n"
            f"{listing(_present(sources, aside))}"
        )
    return kept


def _values(where: Mapping[str, str | tuple[str, ...]]) -> dict[str, set[str]]:
    return {column: {values} if isinstance(values, str) else set(values) for column, values in where.items()}


def _has(row: Row, wanted: Mapping[str, set[str]]) -> bool:
    return all(row.value(column) in values for column, values in wanted.items())


def _named_columns(config: DataConfig, source: Source) -> list[str]:
    """The columns that `source` must have; an unseen one need not have those that part and group clients."""
    named = [*config.where, *source.where]
    if source.unseen:
        return named
    named += config.train_only
    if isinstance(config.subgroups, ColumnSubgroups):
        named.append(config.subgroups.column)
    if config.clients.column is not None:
        named.append(config.clients.column)
    return named


def _present(sources: Sequence[Source], columns: Iterable[str]) -> list[str]:
    """A line for each of `columns`, with its most frequent values."""
    lines = []
    for column in columns:
        counts = Counter(row.value(column) for source in sources for row in source.manifest.rows)
        common = ", ".join(f"{value!r} ({count})" for value, count in counts.most_common(10))
        lines.append(f"{column} has {common}")
    return lines
