"""Partitioning one manifest into a manifest per client, before any job (`dermfed-data partition`)."""

import re
import unicodedata

from clients.data.errors import PartitionError
from clients.data.manifests.groups import components, linkage_keys
from clients.data.manifests.manifest import Manifest
from clients.data.partition.assign import name_of
from clients.data.partition.divide_sites import divide_sites
from clients.data.partition.rules import Partition, by_value, dirichlet, iid
from registry.bundle.text import on_one_line
from training.data.settings import ClientsConfig


def partition_manifest(manifest: Manifest, rule: ClientsConfig, *, seed: int) -> dict[str, Manifest]:
    """One manifest per client, by a name that a file may have.

    Raises:
        UnknownColumnError: the rule names a column that the manifest does not have.
        PartitionError: the rule is none of column, dirichlet and iid, asks for fewer clients than the column
            has values, or leaves a client without pictures.
    """
    partition = _partition(manifest, rule, seed)
    composed = [unicodedata.normalize("NFC", client) for client in partition.clients]
    names = [re.sub(r"[^\w.-]+", "-", client).strip("-.") or "client" for client in composed]
    files = [name.casefold() for name in names]  # which Windows and macOS do not tell apart
    if alike := [one for one, file in zip(partition.clients, files, strict=True) if files.count(file) > 1]:
        shown = ", ".join(map(on_one_line, alike))
        raise PartitionError(f"clients {shown} cannot be told apart as file names; rename them in the column")
    return {
        name: manifest.keep([manifest.rows[row] for row in (partition.holders == number).nonzero()[0]])
        for number, name in enumerate(names)
    }


def _partition(manifest: Manifest, rule: ClientsConfig, seed: int) -> Partition:
    rows = manifest.rows
    component_ids = components([linkage_keys(row) for row in rows])
    names = [name_of(row) for row in rows]
    splits = [row.split for row in rows]
    labels = [row.label for row in rows]
    if rule.by == "column" and rule.column is not None:
        sites = by_value(manifest.values(rule.column), column=rule.column)
        if rule.count is None:
            return sites
        return divide_sites(sites, rule.count, component_ids, names, labels, splits, seed=seed)
    if rule.by == "iid" and rule.count is not None:
        return iid(rule.count, component_ids, names, splits, seed=seed)
    if rule.by == "dirichlet" and rule.count is not None and rule.alpha is not None:
        return dirichlet(rule.count, rule.alpha, component_ids, names, labels, splits, seed=seed)
    raise PartitionError(f"a manifest is parted by column, dirichlet or iid, not by {rule.by}")
