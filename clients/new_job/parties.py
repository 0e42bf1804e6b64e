"""Who the clients are: the values of a column, one a manifest, or parts of one hospital for a trial."""

from collections import Counter
from dataclasses import dataclass

from clients.data.errors import PartitionError
from clients.data.inspect.presence import COLUMNS
from clients.new_job.manifests import Manifests
from registry.bundle.text import nearest
from training.data.settings import ClientsConfig

FEWEST = 10  # labelled patients that a proposed client has
MOST = 50  # clients that are proposed
PARTS = 3  # of a trial, unless another number is asked for


@dataclass(frozen=True)
class Parties:
    """The clients of a job.

    Attributes:
        clients: the job's `clients`.
        values: where they are a column's values, pictures by value.
        without: pictures whose cell in that column is empty; no client holds them.
    """

    clients: ClientsConfig
    values: dict[str, int]
    without: int = 0


def hospital_columns(manifests: Manifests) -> list[str]:
    """Columns that look like hospitals, with no empty cell and patients enough for each value."""
    named = [column for column in manifests.columns if column.lower() in COLUMNS]
    return [column for column in named if _fits(manifests, column)]


def _fits(manifests: Manifests, column: str) -> bool:
    values = {row.value(column) for row in manifests.rows}
    return (
        "" not in values
        and 2 <= len(values) <= MOST
        and all(
            manifests.patients_of([bool(row.label) and row.value(column) == value for row in manifests.rows])
            >= FEWEST
            for value in values
        )
    )


def proposed(manifests: Manifests) -> str:
    """A column of hospitals where one manifest has one, else the manifests themselves."""
    columns = hospital_columns(manifests) if len(manifests.paths) == 1 else []
    return f"column:{columns[0]}" if columns else "files"


def read_parties(text: str, manifests: Manifests) -> Parties:
    """The clients that an answer names: `files`, `column:NAME` or `parts:N`.

    Raises:
        PartitionError: it names none of these, or a column that is not there or has one value.
    """
    kind, _, value = text.partition(":")
    if kind == "files" and not value:
        return Parties(ClientsConfig(by="manifest"), {})
    if kind == "parts" and (not value or (value.isdecimal() and int(value) > 1)):
        return Parties(ClientsConfig(by="iid", count=int(value or PARTS)), {})
    if kind == "column" and value:
        return _by_column(value, manifests)
    raise PartitionError(
        f"there are no clients {text!r}; name `files`, `column:NAME` or `parts:N` with N of 2 or more"
    )


def _by_column(column: str, manifests: Manifests) -> Parties:
    columns = ("site", *manifests.columns)
    if column not in columns:
        raise PartitionError(f"the manifests have no column {column!r}; {nearest(column, list(columns))}")
    values = Counter(row.value(column) for row in manifests.rows)
    without = values.pop("", 0)
    if len(values) < 2:
        raise PartitionError(
            f"the column {column!r} has {len(values)} values; name another, or take `parts:{PARTS}`"
        )
    return Parties(ClientsConfig(by="column", column=column), dict(sorted(values.items())), without)
