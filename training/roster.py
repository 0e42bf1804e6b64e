"""The roster: what the sites of a network tell of their data, and what follows for all of them.

Each site reads its own pictures and introduces itself: classes, subgroups, a fingerprint; never a picture.
The coordinator agrees on one list of classes and subgroups for all, which stays as it is for the whole run.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

from registry.bundle.labels import Label
from training.config import FrozenConfig
from training.data import Dataset, Examples, Split
from training.errors import DataError
from training.job import Job


class Introduction(FrozenConfig):
    """What a site tells of its data.

    Attributes:
        client: its name.
        labels, subgroups: of its own pictures, as the job's `data` block makes them.
        fingerprint: of its pictures and what they are used for.
        source: the source of the job that it is part of, where the job has sources.
        unseen: whether it trains nothing.
    """

    client: str
    labels: tuple[Label, ...]
    subgroups: tuple[str, ...]
    fingerprint: str
    source: str | None = None
    unseen: bool = False


class Roster(FrozenConfig):
    """Who takes part and with what; implements `training.data.Dataset` for a coordinator without pictures.

    Attributes:
        clients: in the order in which sums are taken, without those that were dismissed.
        labels: the classes, in the order of the model's outputs.
        subgroups: the subgroups' names.
        fingerprints: of the data of each client, of those that were dismissed as well.
        sources: the source of each client, where the job has sources.
        unseen: the clients that train nothing.
        left_out: the sites that may not take part, and why.
        dismissed: the hospitals that were taken out of the run, and when.
    """

    clients: tuple[str, ...]
    labels: tuple[Label, ...]
    subgroups: tuple[str, ...]
    fingerprints: Mapping[str, str]
    sources: Mapping[str, str] = {}
    unseen: tuple[str, ...] = ()
    left_out: Mapping[str, str] = {}
    dismissed: Mapping[str, str] = {}

    @property
    def communities(self) -> Mapping[str, Sequence[str]]:
        """The clients of each source; unseen clients are in none."""
        found: dict[str, list[str]] = {}
        for client in self.clients:
            if client in self.sources and client not in self.unseen:
                found.setdefault(self.sources[client], []).append(client)
        return found

    @property
    def fingerprint(self) -> str:
        """A digest of all clients' fingerprints."""
        text = json.dumps([[name, digest] for name, digest in self.fingerprints.items()])
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def examples(self, client: str, split: Split) -> Examples:
        """Pictures are at the sites and nowhere else."""
        self._never(client, split)

    def _never(self, *_: object) -> NoReturn:
        raise AssertionError("a coordinator has nobody's pictures")

    def refuse_other_data(self, introduction: Introduction) -> None:
        """Refuse a site that returns with other pictures than it began with.

        Raises:
            DataError: naming it.
        """
        known = self.fingerprints.get(introduction.client)
        if known is not None and known != introduction.fingerprint:
            raise DataError(
                f"{introduction.client} returns with other data than it began the run with (fingerprint "
                f"{introduction.fingerprint}, not {known}); restore its manifest and pictures, or start the "
                "run anew"
            )


def agree(job: Job, introductions: Sequence[Introduction], left_out: Mapping[str, str]) -> Roster:
    """One list of classes and subgroups for all sites.

    The classes are all that any site has, sorted by code, as they are where one machine reads all manifests;
    where the job's label map names them they are the map's. So it is with subgroups by a column; those by
    tone are in the job's order.

    Args:
        job: the job.
        introductions: of the sites, in client order.
        left_out: the sites that may not take part, and why.

    Raises:
        DataError: two sites disagree on what a class means.
    """
    labels: dict[str, Label] = {}
    first: dict[str, str] = {}
    for each in introductions:
        for label in each.labels:
            known = labels.setdefault(label.code, label)
            first.setdefault(label.code, each.client)
            if known != label:
                raise DataError(
                    f"{first[label.code]} and {each.client} disagree on class {label.code}: "
                    f"{known.model_dump()} and {label.model_dump()}; name the classes in data.label_map"
                )
    seen = [each for each in introductions if not each.unseen] or list(introductions)
    return Roster(
        clients=tuple(each.client for each in introductions),
        labels=tuple(labels[code] for code in sorted(labels)),
        subgroups=agreed_subgroups(job, seen),
        fingerprints={each.client: each.fingerprint for each in introductions},
        sources={each.client: each.source for each in introductions if each.source is not None},
        unseen=tuple(each.client for each in introductions if each.unseen),
        left_out=dict(left_out),
    )


def agreed_subgroups(job: Job, introductions: Sequence[Introduction]) -> tuple[str, ...]:
    """The subgroups of all: the job's groups of tones in its order, or every value of a column, sorted."""
    config = job.data.subgroups
    if config is None:
        return ()
    groups: Mapping[str, object] | None = getattr(config, "groups", None)
    if groups is not None:
        return tuple(groups)
    return tuple(sorted({name for each in introductions for name in each.subgroups}))


def of_dataset(client: str, dataset: Dataset) -> Introduction:
    """How a site introduces its data, of which `client` is the only client."""
    sources = [name for name, clients in dataset.communities.items() if client in clients]
    return Introduction(
        client=client,
        labels=tuple(dataset.labels),
        subgroups=tuple(dataset.subgroups),
        fingerprint=dataset.fingerprint,
        source=sources[0] if sources else None,
        unseen=client in dataset.unseen,
    )
