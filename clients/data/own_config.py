"""A job's `data` block as it is for one hospital, with its own manifest in place of the job's."""

from pathlib import Path

from clients.data.errors import PartitionError
from registry.bundle.text import nearest
from training.data.dataset import SERVER
from training.data.settings import ClientsConfig, DataConfig, ServerConfig, SourceConfig, SplitConfig


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
