"""What coordinator and sites agree on: versions and the job, then clients, classes and subgroups.

Each site reads its own pictures and discloses classes, subgroups and a fingerprint; never a picture.
The coordinator agrees on one list of classes and subgroups for all, which stays as it is for the whole run.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from registry.bundle.labels import Label
from training.config import FrozenConfig
from training.data.dataset import Dataset, Examples, Split
from training.engines.wire import PROTOCOL
from training.errors import DataError, EngineError, JobError, public
from training.files import PlainName
from training.jobs.job import Job

MUST_BE_EQUAL = ("dermfed",)  # a job's weights are these versions' work
WEIGHTS = "the file of model.weights"  # beside the packages: by its digest, where the job names one
REPORTED = (*MUST_BE_EQUAL, "torch", "numpy", "nvflare")


class Handshake(FrozenConfig):
    """The first message of either side.

    Attributes:
        protocol: of the messages.
        versions: of the packages that make the weights; and the digest of the file that they begin with.
        job: the job's digest, as this side computes it.
        session: of the coordinator's present stay in the job.
    """

    protocol: int
    versions: Mapping[str, str]
    job: str
    session: str


def shake_hands(job: str, session: str, weights: str | None = None) -> Handshake:
    """This side's handshake.

    Args:
        job: its digest.
        session: of the coordinator's present stay in it.
        weights: the digest of the file that the job begins with, if it names one.
    """
    versions = installed() | ({WEIGHTS: weights} if weights else {})
    return Handshake(protocol=PROTOCOL, versions=versions, job=job, session=session)


def installed() -> dict[str, str]:
    """The versions of what is installed here; what is not is absent."""
    found = {}
    for name in REPORTED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def refuse_incompatible(name: str, theirs: Handshake, ours: Handshake) -> None:
    """Refuse a side that runs something else.

    Raises:
        EngineError: naming the versions and what to do.
    """
    for package in MUST_BE_EQUAL:
        there, here = theirs.versions.get(package, "none"), ours.versions.get(package, "none")
        if there != here:
            raise public(
                EngineError(
                    f"{name} runs {package} {there}, this side {here}; install the same version on both sides"
                )
            )
    if theirs.protocol != ours.protocol:
        raise public(
            EngineError(
                f"{name} speaks version {theirs.protocol} of our messages, this side {ours.protocol}; "
                "install the same version of dermfed on both sides"
            )
        )
    if theirs.job != ours.job:
        raise public(
            EngineError(
                f"{name} reads the job as {theirs.job}, this side as {ours.job}; the same job has one "
                "digest: install the same version of dermfed, and of others' parts that the job names, on "
                "both sides"
            )
        )


def refuse_other_weights(theirs: str, ours: str | None) -> None:
    """Refuse a coordinator that begins with another file of weights than is here.

    A job may name any file of this machine: its digest is disclosed only to a coordinator that already has
    it.

    Raises:
        EngineError: naming theirs, and not ours.
    """
    if ours is not None and theirs != ours:
        raise public(
            EngineError(
                f"the coordinator begins with other weights than this side: {theirs} there; put the same "
                "file, or install the same package, on both sides (sha256sum tells the digest)"
            )
        )


def differing(theirs: Handshake, ours: Handshake) -> dict[str, str]:
    """The packages of which the sides have different versions, and theirs: digits of weights may differ."""
    return {
        name: theirs.versions.get(name, "none")
        for name in ours.versions
        if theirs.versions.get(name) != ours.versions[name]
    }


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
            raise public(
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
            raise public(
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
        JobError: when no hospital would be left.
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
