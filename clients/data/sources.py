"""The sources of a job: manifest files, or what adapters make of folders, and the rows that are kept.

Also a job's `data` block as it is for one hospital, with its own manifest in place of the job's.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients.data.adapters.table import make_adapter
from clients.data.errors import AdapterError, ClientDataError, PartitionError
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import read_manifest
from clients.data.output import listing
from clients.data.picture_files import PictureFile, locate
from registry.bundle.text import nearest
from training.data.dataset import SERVER
from training.data.settings import (
    ClientsConfig,
    DataConfig,
    LabelMap,
    ServerConfig,
    SourceConfig,
    SplitConfig,
)
from training.data.subgroups import ColumnSubgroups


@dataclass(frozen=True)
class Source:
    """One manifest and its role in the job.

    Attributes:
        name: the name of the client that it is where each manifest is a client.
        manifest: its pictures.
        where: which of them are kept, besides the job's `where`.
        label_map: its codes to common ones, before the job's `label_map`.
        count: how many clients it becomes where clients are by source.
        unseen: whether no client trains on it.
    """

    name: str
    manifest: Manifest
    where: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    label_map: LabelMap = None
    count: int = 1
    unseen: bool = False


def read_sources(config: DataConfig, folder: Path, cache: Path) -> list[Source]:
    """Read the manifests of a job.

    Args:
        config: the job's `data` block. Its paths may name environment variables (`${PICTURES}/a.csv`).
        folder: what relative paths start from.
        cache: where an adapter that makes its own pictures puts them when no folder is named.

    Raises:
        ClientDataError: a manifest or folder that is not there or cannot be used.
    """
    if config.sources:
        return [_read_source(source, folder, cache) for source in config.sources]
    if config.adapter is not None:
        return [Source(config.adapter, _adapt(config.adapter, config.options, config.folder, folder, cache))]
    named = (config.manifest,) if isinstance(config.manifest, str) else config.manifest or ()
    if not named:
        raise ClientDataError("`manifest` names no file; name at least one")
    paths = [_place(name, folder) for name in named]
    return [Source(name, read_manifest(path)) for name, path in zip(_client_names(paths), paths, strict=True)]


def _read_source(config: SourceConfig, folder: Path, cache: Path) -> Source:
    if config.adapter is not None:
        manifest = _adapt(config.adapter, config.options, config.folder, folder, cache)
    else:
        manifest = read_manifest(_place(config.manifest or "", folder))
    return Source(config.name, manifest, config.where, config.label_map, config.count, config.unseen)


def _adapt(name: str, options: Mapping[str, Any], place: str | None, folder: Path, cache: Path) -> Manifest:
    """Run the adapter `name` on the folder `place`, or on pictures that it makes itself."""
    adapter = make_adapter(name, options)
    if place is not None:
        return adapter.manifest(_place(place, folder))
    if not adapter.makes_pictures:
        raise AdapterError(f"adapter {name} needs `folder`: where its pictures and tables are")
    settings = hashlib.sha256(adapter.model_dump_json().encode()).hexdigest()[:16]
    return adapter.manifest(cache / f"{name}-{settings}")


def _place(name: str, folder: Path) -> Path:
    """The path that a job names, with its environment variables filled in."""
    expanded = os.path.expandvars(name)
    missing = re.findall(r"\$\{?(\w+)", expanded)
    if missing:
        raise ClientDataError(f"the path {name!r} needs the environment variable {missing[0]}; set it")
    return (folder / Path(expanded).expanduser()).absolute()


def _client_names(paths: Sequence[Path]) -> list[str]:
    """The files' names, with as many of their folders as it takes to tell them apart."""
    if len(set(paths)) < len(paths):
        raise ClientDataError(f"`manifest` names a file twice: {', '.join(map(str, paths))}")
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.with_suffix("").parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def own_config(data: DataConfig, node: str, manifest: Path) -> tuple[DataConfig, str | None]:
    """The `data` block with this node's manifest in place of the job's, and the source it is part of.

    Raises:
        PartitionError: the job makes clients in a way that several hospitals cannot.
    """
    if data.unlabelled_at == "one":
        raise PartitionError(
            "`unlabelled_at: one` gathers all hospitals' unlabelled pictures at one client, but over a "
            "network pictures stay where they are; remove it"
        )
    if data.clients.by not in ("manifest", "source"):
        raise PartitionError(
            f"clients by {data.clients.by} divides pictures that are all in one place; over a network each "
            "hospital is one client: set `data.clients: {by: manifest}`"
        )
    settings = {"manifest": str(manifest.absolute())}
    if node == SERVER:
        own, source = SourceConfig(name="coordinator", **settings), None
    elif data.sources:
        own, source = own_source(data, node, manifest)
    else:
        own, source = SourceConfig(name=node, **settings), None
    return (
        data.model_copy(
            update={
                "manifest": None,
                "adapter": None,
                "folder": None,
                "options": {},
                "sources": (own,),
                "clients": ClientsConfig(by="manifest"),
                "server": None,
                "labelled_clients": None,
                "label_map": "malignancy" if is_unseen(data, node) else data.label_map,
                "kinds": {} if is_unseen(data, node) else data.kinds,
                "groups": {} if is_unseen(data, node) else data.groups,
                "label_fraction": data.label_fraction if node != SERVER else 1.0,
                "split": server_split(data.server) if node == SERVER else data.split,
            }
        ),
        source,
    )


def own_source(data: DataConfig, node: str, manifest: Path) -> tuple[SourceConfig, str]:
    """The part of a source that this node holds, with the source's label map.

    Raises:
        PartitionError: the job knows no such client.
    """
    for source in data.sources:
        if node in source.clients:
            own = SourceConfig(
                name=node,
                manifest=str(manifest.absolute()),
                where=source.where,
                label_map=source.label_map,
            )
            return own, source.name
    known = [client for source in data.sources for client in source.clients]
    raise PartitionError(f"the job's sources have no client {node!r}; {nearest(node, known)}")


def is_unseen(data: DataConfig, node: str) -> bool:
    """Whether a node trains nothing and is only asked, in two classes: those of the map `malignancy`."""
    return any(source.unseen for source in data.sources if node in source.clients)


def server_split(config: ServerConfig | None) -> SplitConfig:
    """How the coordinator's own pictures are divided: to train on and for validation.

    Raises:
        PartitionError: the job gives the coordinator no pictures.
    """
    if config is None:
        raise PartitionError(
            "the job gives the coordinator no pictures; start it without --data, or add `data.server`"
        )
    train = min(max(config.train, 1e-9), 1 - 1e-9)
    return SplitConfig(train=train, validation=1 - train, calibration=0.0, test=0.0)


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
