"""The pictures that a job means: the rows of its sources that `where` keeps."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clients.data.errors import ClientDataError
from clients.data.manifest import Row
from clients.data.pictures import PictureFile, locate
from clients.data.sources import Source
from clients.data.wording import listing
from training.data import ColumnSubgroups, DataConfig


@dataclass(frozen=True)
class Picture:
    """One picture on its way to training.

    Attributes:
        row: what its manifest says.
        source: the name of its manifest.
        file: where it is.
    """

    row: Row
    source: str
    file: PictureFile


def filtered(sources: Sequence[Source], config: DataConfig) -> list[Picture]:
    """The rows whose columns have one of the values that `where` asks for, in the order of the sources.

    Raises:
        UnknownColumnError: the job names a column that a manifest does not have.
        ClientDataError: no row is left.
    """
    wanted = {
        column: {values} if isinstance(values, str) else set(values)
        for column, values in config.where.items()
    }
    kept: list[Picture] = []
    for source in sources:
        for column in _named_columns(config):
            source.manifest.require(column)
        kept += [
            Picture(row, source.name, locate(row.image, source.manifest.folder))
            for row in source.manifest.rows
            if all(row.value(column) in values for column, values in wanted.items())
        ]
    if not kept:
        raise ClientDataError(
            f"`where` {dict(config.where)} keeps no picture:\n{listing(_present(sources, wanted))}"
        )
    return kept


def _named_columns(config: DataConfig) -> list[str]:
    named = list(config.where)
    if isinstance(config.subgroups, ColumnSubgroups):
        named.append(config.subgroups.column)
    if config.clients.column is not None:
        named.append(config.clients.column)
    return named


def _present(sources: Sequence[Source], columns: Iterable[str]) -> list[str]:
    """For each of `columns`, a line with its most frequent values."""
    lines = []
    for column in columns:
        counts = Counter(row.value(column) for source in sources for row in source.manifest.rows)
        common = ", ".join(f"{value!r} ({count})" for value, count in counts.most_common(10))
        lines.append(f"{column} has {common}")
    return lines
