"""The sources of a job: manifest files, or what an adapter makes of a folder."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients.data.adapters.table import make_adapter
from clients.data.errors import AdapterError, ClientDataError
from clients.data.manifests.csv_file import read_manifest
from clients.data.manifests.manifest import Manifest
from training.data.settings import DataConfig, LabelMap, SourceConfig


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
