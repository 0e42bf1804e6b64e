"""A node's own pictures in a job: what the job's `data` block means for one hospital.

The node's manifest replaces the job's; subgroups, label map, splits and shares of labels are the job's. The
hospital is one client under its own name. Splits are drawn hospital by hospital wherever they are drawn, so
they are those that one machine with all manifests would draw.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.data.enough_patients import withhold_few
from clients.data.errors import LabelError
from clients.data.label_map import UNLABELLED
from clients.data.prepare import prepare
from clients.data.prepared import PreparedDataset
from clients.data.sources import is_unseen, own_config
from training.data.dataset import SERVER, SPLITS, PictureList
from training.data.settings import DataConfig
from training.engines.roster import ClientProperties, Roster, of_dataset
from training.errors import DataError, public
from training.files import write_text
from training.jobs.job import Job


@dataclass(frozen=True)
class OwnData:
    """A node's pictures as the job asks for them.

    Attributes:
        properties: what the node discloses of them.
        dataset: the pictures, with classes and subgroups of their own numbering.
        labelled: whether the node knows the labels of its training pictures.
        withheld: what of the pictures is of too few patients, in words.
    """

    properties: ClientProperties
    dataset: PreparedDataset
    labelled: bool
    withheld: tuple[str, ...] = ()

    @property
    def pictures(self) -> int:
        """The number of pictures."""
        return sum(len(self.dataset.examples(self.dataset.clients[0], split)) for split in SPLITS)

    @property
    def not_used(self) -> list[str]:
        """Notes on pictures that are not used, or in no subgroup."""
        return [*self.dataset.report.left_out.lines(), *self.withheld]


def read_own(job: Job, node: str, manifest: Path, cache: Path) -> OwnData:
    """Read the pictures of a node as the job asks.

    Args:
        job: the job.
        node: the client that the node is in it.
        manifest: its pictures.
        cache: where decoded pictures are kept.

    Raises:
        ClientDataError: they cannot be used as the job asks.
    """
    config, source = own_config(job.data, node, manifest)
    least = 1 if node == SERVER else job.privacy.min_count
    prepared = prepare(
        config,
        seed=job.seed,
        folder=manifest.absolute().parent,
        cache=cache,
        intersections=job.evaluation.intersections,
        whole=False,
        rule=job.picture,
        least=least,
    )
    unseen = is_unseen(job.data, node)
    dataset = enough(prepared, job.data, least, unseen=unseen)
    keepers = job.data.labelled_clients
    changes: dict[str, Any] = {"client": node, "source": source}
    if unseen:
        changes |= {"unseen": True, "labels": ()}  # its pictures have no say in what the classes are
    properties = of_dataset(dataset.clients[0], dataset).model_copy(update=changes)
    withheld = tuple(withheld_in_words(prepared, dataset, least))
    return OwnData(properties, dataset, keepers is None or node in (*keepers, SERVER), withheld)


def enough(prepared: PreparedDataset, data: DataConfig, least: int, *, unseen: bool) -> PreparedDataset:
    """A node's pictures without what is of fewer than `least` patients."""
    if least <= 1:
        return prepared
    mapped = [data.label_map, *(source.label_map for source in data.sources)]
    chosen = any(isinstance(each, Mapping) for each in mapped)
    table = withhold_few(prepared.table, least, mapped=chosen, unseen=unseen)
    left = np.unique(table.subgroups[table.subgroups >= 0])
    numbers = np.full(len(prepared.subgroups), -1, dtype=np.int64)
    numbers[left] = np.arange(len(left))
    table = replace(table, subgroups=renumbered(table.subgroups, numbers))
    names = tuple(prepared.subgroups[number] for number in left.tolist())
    return replace(prepared, table=table, subgroups=names)


def withheld_in_words(prepared: PreparedDataset, dataset: PreparedDataset, least: int) -> Iterator[str]:
    """What of a node's pictures is withheld, for their owner."""
    before, after = prepared.table, dataset.table
    fewer = {
        "are not used": len(before.rows) - len(after.rows),
        "are in no subgroup": int((before.subgroups >= 0).sum() - (after.subgroups >= 0).sum()),
        "have no label here": int((before.labels >= 0).sum() - (after.labels >= 0).sum()),
    }
    if any(fewer.values()):
        told = ", ".join(f"{number} {what}" for what, number in fewer.items() if number)
        yield (
            f"what is of fewer than {least} patients of one split, subgroup or class is withheld "
            f"(privacy.min_count): of the pictures {told}"
        )


def listed(own: OwnData) -> PictureList:
    """The list of a node's pictures before anything was agreed on; its sets are those of the run's census."""
    name, unseen = own.properties.client, own.properties.unseen
    roster = Roster(
        clients=(name,),
        labels=tuple(own.dataset.labels),
        subgroups=own.properties.subgroups,
        fingerprints={},
        unseen=(name,) if unseen else (),
    )
    return PictureList.of(agreed(own, roster), name)


def agreed(own: OwnData, roster: Roster, *, tells_unused: bool = True) -> PreparedDataset:
    """A node's pictures in the classes and subgroups that all agreed on; of an unseen one all are for test.

    Args:
        own: the node's pictures.
        roster: what all agreed on.
        tells_unused: whether the number of unused pictures is reported with the census.

    Raises:
        LabelError: pictures of a class that is none of the run.
    """
    told, table = own.properties, own.dataset.table
    codes, mine = [label.code for label in roster.labels], [label.code for label in told.labels]
    unknown = sorted(set(mine) - set(codes))
    if unknown and not told.unseen:
        raise LabelError(
            f"{told.client} has pictures of {', '.join(unknown)}, which are no class of "
            f"this run ({', '.join(sorted(codes))}); map them in data.label_map, or drop them with null"
        )
    labels, splits = table.labels, table.splits
    if told.unseen:
        splits = np.full_like(splits, SPLITS.index("test"))
    else:
        labels = renumbered(labels, np.array([codes.index(code) for code in mine], dtype=np.int64))
    if not own.labelled:
        labels = np.where(splits == SPLITS.index("train"), UNLABELLED, labels)
    names = roster.subgroups
    groups = np.array([names.index(name) if name in names else -1 for name in told.subgroups], dtype=np.int64)
    return replace(
        own.dataset,
        labels=roster.labels,
        subgroups=roster.subgroups,
        clients=(told.client,),
        fingerprint=told.fingerprint,
        table=replace(table, labels=labels, splits=splits, subgroups=renumbered(table.subgroups, groups)),
        unseen=(told.client,) if told.unseen else (),
        communities={},  # which clients are of one source is for the coordinator to know
        tells_unused=tells_unused,
    )


def renumbered(values: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each index in the numbering of all clients; values below 0 stay."""
    kept = values.copy()
    known = values >= 0
    kept[known] = numbers[values[known]]
    return kept


class RunPictures:
    """Which pictures a run began with: all counts that are sent in the run are of these.

    Args:
        path: of a file in the run's folder, for the digest of their list.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def settled(self) -> bool:
        """Whether a count was sent."""
        return self._path.exists()

    def settle(self, now: PictureList) -> None:
        """Write down what is there, before the first number of it leaves."""
        write_text(self._path, now.digest + "\n")

    def refuse_others(self, now: PictureList) -> None:
        """Refuse to go on with other pictures than the run began with.

        Numbers of pictures are exact: the difference to earlier ones would be what changed.

        Raises:
            DataError: they are others.
        """
        if self.settled and self._path.read_text().strip() != now.digest:
            raise public(
                DataError(
                    "this hospital's pictures are not those that the run began with; restore its manifest "
                    "and pictures, or start a new run, as where patients withdrew"
                )
            )
