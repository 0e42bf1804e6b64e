"""The manifests that a job names: files, or what an adapter makes of a folder."""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clients.data.adapters.table import make_adapter
from clients.data.errors import AdapterError, ClientDataError
from clients.data.manifest import Manifest
from clients.data.manifest_csv import read_manifest
from training.data import DataConfig


@dataclass(frozen=True)
class Source:
    """One manifest, and the name of the client that it is where each manifest is a client."""

    name: str
    manifest: Manifest


def read_sources(config: DataConfig, folder: Path, cache: Path) -> list[Source]:
    """The manifests of a job.

    Args:
        config: the job's `data` block. Its paths may name environment variables (`${PICTURES}/a.csv`).
        folder: what relative paths start from.
        cache: where an adapter that makes its own pictures puts them when no folder is named.

    Raises:
        ClientDataError: a manifest or folder that is not there or cannot be used.
    """
    if config.adapter is not None:
        adapter = make_adapter(config.adapter, config.options)
        if config.folder is not None:
            place = _place(config.folder, folder)
        elif adapter.makes_pictures:
            settings = hashlib.sha256(adapter.model_dump_json().encode()).hexdigest()[:16]
            place = cache / f"{config.adapter}-{settings}"
        else:
            raise AdapterError(f"adapter {config.adapter} needs `folder`: where its pictures and tables are")
        return [Source(config.adapter, adapter.manifest(place))]
    named = (config.manifest,) if isinstance(config.manifest, str) else config.manifest or ()
    if not named:
        raise ClientDataError("`manifest` names no file; name at least one")
    paths = [_place(name, folder) for name in named]
    return [Source(name, read_manifest(path)) for name, path in zip(_client_names(paths), paths, strict=True)]


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
