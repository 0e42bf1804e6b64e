"""The roster: the participants of a run, and the classes and subgroups that their properties agree on.

Each site reads its own pictures and discloses classes, subgroups and a fingerprint; never a picture.
The coordinator agrees on one list of classes and subgroups for all, which stays as it is for the whole run.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NoReturn

from registry.bundle.labels import Label
from training.config import FrozenConfig
from training.data.dataset import Dataset, Examples, Split
from training.errors import DataError, JobError, tell
from training.files import PlainName
from training.jobs.job import Job


class ClientProperties(FrozenConfig):
    """What a site discloses of its data: classes, subgroups and a fingerprint.

    Attributes:
        client: its name.
        labels, subgroups: of its own pictures, as the job's `data` block makes them.
        fingerprint: of its pictures and what they are used for.
        source: the source of the job that it is part of, where the job has sources.
        unseen: whether it trains nothing.
    """

    client: PlainName
    labels: tuple[Label, ...]
    subgroups: tuple[str, ...]
    fingerprint: str
    source: str | None = None
    unseen: bool = False


class Roster(FrozenConfig):
    """Who takes part and with what; a `Dataset` for a coordinator without pictures.

    Attributes:
        clients: in the order in which sums are taken, without those that were dismissed.
        labels: the classes, in the order of the model's outputs.
        subgroups: the subgroups' names.
        fingerprints: of the data with which each client began, those that were dismissed as well.
        sources: the source of each client, where the job has sources.
        unseen: the clients that train nothing.
        left_out: the sites that may not take part, and why.
        dismissed: the hospitals that were taken out of the run, and when.
        masked_counts: whether the coordinator expects counts under masks; None until it is known.
    """

    clients: tuple[str, ...]
    labels: tuple[Label, ...]
    subgroups: tuple[str, ...]
    fingerprints: Mapping[str, str]
    sources: Mapping[str, str] = {}
    unseen: tuple[str, ...] = ()
    left_out: Mapping[str, str] = {}
    dismissed: Mapping[str, str] = {}
    masked_counts: bool | None = None

    @property
    def communities(self) -> Mapping[str, Sequence[str]]:
        """The clients of each source; unseen clients are in none."""
        found: dict[str, list[str]] = {}
        for client in self.clients:
            if client in self.sources and client not in self.unseen:
                found.setdefault(self.sources[client], []).append(client)
        return found

    @property
    def everybody(self) -> frozenset[str]:
        """All sites that the run was meant for, whether they take part or not."""
        return frozenset({*self.clients, *self.left_out, *self.dismissed})

    @property
    def fingerprint(self) -> str:
        """A digest of all clients' fingerprints."""
        text = json.dumps(list(self.fingerprints.items()))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def examples(self, client: str, split: Split) -> Examples:
        """Pictures are at the sites and nowhere else."""
        self._never(client, split)

    def _never(self, *_: object) -> NoReturn:
        raise AssertionError("a coordinator has nobody's pictures")

    def refuse_other_data(self, properties: ClientProperties) -> None:
        """Refuse a site that returns with other pictures than it began with.

        Raises:
            DataError: naming it.
        """
        known = self.fingerprints.get(properties.client)
        if known is not None and known != properties.fingerprint:
            raise tell(
                DataError(
                    f"{properties.client} returns with other data than it began the run with (fingerprint "
                    f"{properties.fingerprint}, not {known}); restore its manifest and pictures, or start "
                    "a new run, as where patients withdrew"
                )
            )

    def refuse_other_masks(self, site: str, *, masked: bool) -> None:
        """Refuse a coordinator that expects counts in another form than this site sends them.

        Raises:
            JobError: saying how that comes and what to do.
        """
        if self.masked_counts is not None and masked != self.masked_counts:
            forms = {True: "under masks", False: "in the clear"}
            raise tell(
                JobError(
                    f"{site} sends counts {forms[masked]}, and the coordinator expects them "
                    f"{forms[not masked]}: they know of different hospitals. Put the coordinator's "
                    "federation.yaml into the kits of all, or say privacy.counts.masks in the job"
                )
            )


def agree(job: Job, properties: Sequence[ClientProperties], left_out: Mapping[str, str]) -> Roster:
    """One list of classes and subgroups for all sites.

    The classes are all that any site has, sorted by code, as they are where one machine reads all manifests;
    where the job's label map names them they are the map's. So it is with subgroups by a column; those by
    tone are in the job's order.

    Args:
        job: the job.
        properties: of the sites, in client order.
        left_out: the sites that may not take part, and why.

    Raises:
        DataError: two sites disagree on what a class means.
    """
    labels: dict[str, Label] = {}
    first: dict[str, str] = {}
    for each in properties:
        for label in each.labels:
            known = labels.setdefault(label.code, label)
            first.setdefault(label.code, each.client)
            if known != label:
                raise DataError(
                    f"{first[label.code]} and {each.client} disagree on class {label.code}: "
                    f"{known.model_dump()} and {label.model_dump()}; name the classes in data.label_map"
                )
    trainers = [each for each in properties if not each.unseen] or list(properties)
    return Roster(
        clients=tuple(each.client for each in properties),
        labels=tuple(labels[code] for code in sorted(labels)),
        subgroups=agreed_subgroups(job, trainers),
        fingerprints={each.client: each.fingerprint for each in properties},
        sources={each.client: each.source for each in properties if each.source is not None},
        unseen=tuple(each.client for each in properties if each.unseen),
        left_out=dict(left_out),
    )


def agreed_subgroups(job: Job, properties: Sequence[ClientProperties]) -> tuple[str, ...]:
    """The subgroups of all: the job's groups of tones in its order, or every value of a column, sorted."""
    config = job.data.subgroups
    if config is None:
        return ()
    groups: Mapping[str, object] | None = getattr(config, "groups", None)
    if groups is not None:
        return tuple(groups)
    return tuple(sorted({name for each in properties for name in each.subgroups}))


def of_dataset(client: str, dataset: Dataset) -> ClientProperties:
    """The client properties of a site's data, of which `client` is the only client."""
    sources = [name for name, clients in dataset.communities.items() if client in clients]
    return ClientProperties(
        client=client,
        labels=tuple(dataset.labels),
        subgroups=tuple(dataset.subgroups),
        fingerprint=dataset.fingerprint,
        source=sources[0] if sources else None,
        unseen=client in dataset.unseen,
    )


def evict(roster: Roster, names: Sequence[str]) -> Roster:
    """The roster without these hospitals; those that were dismissed before stay so.

    Raises:
        JobError: when nobody would be left.
    """
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    dismissed = {**dict.fromkeys(names, now), **roster.dismissed}
    left = tuple(name for name in roster.clients if name not in dismissed)
    if not set(left) - set(roster.unseen):
        raise JobError(
            f"{', '.join(dismissed)} are dismissed, and no hospital would be left; end the run instead"
        )
    return roster.model_copy(
        update={
            "clients": left,
            "unseen": tuple(name for name in roster.unseen if name in left),
            "sources": {name: source for name, source in roster.sources.items() if name in left},
            "dismissed": dismissed,
        }
    )
