"""The records that the registry returns: versions, releases, events and API keys, all immutable.

All times are aware, in UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args

from registry.bundle.labels import Subgroup
from registry.bundle.text import shown_name
from registry.gate_report import GateReport

Scope = Literal["diagnose", "outcome", "read", "operate"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
"""All scopes, which a key has by default."""

ROTATION_GRACE: Final = timedelta(days=1)
"""How long a key stays valid after it was rotated, by default."""

PRODUCTION: Final = "production"
"""The alias that the service serves by default."""

Role = Literal["uploader", "approver", "operator"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""What a person may do: add versions; approve releases; and all else, as `ROLE_FOR` says: promote, go back,
stop, withdraw, set gates, tell and close alarms of the field, remove what is not needed,
register people and make API keys."""

EventKind = Literal[
    "added",
    "promoted",
    "rolled-back",
    "stopped",
    "withdrawn",
    "canary-started",
    "canary-ended",
    "approved",
    "gates-changed",
    "signed",
    "tagged",
    "untagged",
    "noted",
    "imported",
    "person-added",
    "person-revoked",
    "key-created",
    "key-rotated",
    "key-revoked",
    "collected",
    "alarm",
    "alarm-closed",
]


ROLE_FOR: Final[Mapping[EventKind, Role]] = {
    **{kind: "operator" for kind in get_args(EventKind) if kind != "signed"},
    **dict.fromkeys(("added", "imported", "tagged", "untagged", "noted"), "uploader"),
    "approved": "approver",
}
"""The role that an action takes as soon as the registry knows people; what is not here, anybody may do."""

MOVES: Final[tuple[EventKind, ...]] = ("promoted", "rolled-back", "stopped")
"""The kinds of events after which an alias points elsewhere than before."""

CANARY_MOVES: Final[tuple[EventKind, ...]] = (*MOVES, "canary-started", "canary-ended")
"""The kinds of events after which a canary runs beside an alias, or none does: every move ends it."""


SEARCHED: Final = ("model", "subgroup", "digest", "tag", "note", "withdrawal")
"""What `find` looks at: all of it is in the database, so that no bundle has to be opened."""


def moment(time: datetime | None) -> str:
    """A time in UTC, to the second, as people read it."""
    return "" if time is None else time.isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Version:
    """One bundle under a model's name.

    Attributes:
        model: the model's name.
        number: 1, 2, … in the order of adding; never used twice for a model.
        digest: the bundle's digest, sha256 of its `bundle.json`.
        subgroup: whom it is for.
        created: when it was added.
    """

    model: str
    number: int
    digest: str
    subgroup: Subgroup
    created: datetime


@dataclass(frozen=True)
class Added:
    """The result of adding bundles.

    Attributes:
        versions: the version of each bundle, in their order.
        new: those that were not there before.
        repaired: digests of objects that were missing or altered, and are right again.
        warnings: which versions were withdrawn, or have the `model.onnx` of one that was.
    """

    versions: tuple[Version, ...]
    new: tuple[Version, ...]
    repaired: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Release:
    """The versions that answer together: a global one, and at most one for each subgroup.

    Attributes:
        id: unique over all models.
        model: the model's name.
        versions: the global one first, then by the subgroup's name.
    """

    id: int
    model: str
    versions: tuple[Version, ...]

    def __post_init__(self) -> None:
        ordered = sorted(self.versions, key=lambda one: (not one.subgroup.is_global, one.subgroup.name))
        object.__setattr__(self, "versions", tuple(ordered))

    @property
    def everybody(self) -> Version:
        """The global version, for requests whose subgroup has no version of its own."""
        return self.versions[0]

    def for_subgroup(self, name: str) -> Version | None:
        """The version of the subgroup's own, if it has one."""
        return next((one for one in self.versions if one.subgroup.name == name), None)


@dataclass(frozen=True)
class Withdrawal:
    """A version that must answer no more.

    Attributes:
        model: the model's name.
        number: the version's number.
        digest: of its bundle.
        model_digest: of its `model.onnx`.
        reason: why.
        created: when.
    """

    model: str
    number: int
    digest: str
    model_digest: str
    reason: str
    created: datetime

    def __str__(self) -> str:
        return f"WITHDRAWN at {moment(self.created)}: {self.reason}"


@dataclass(frozen=True)
class Canary:
    """A release that gets a share of the requests, next to the one that an alias points to.

    Attributes:
        alias: of which alias.
        release: it.
        beside: the id of the release that the alias points to.
        share: of the requests, between 0 and 1.
        subgroup: of whose requests, by the declared skin tone; None if not restricted to a subgroup.
        mirror: whether its answers are only compared: what the alias points to answers all requests.
        event: the id of the event by which it runs so.
        since: when that was.
        actor: who did it.
        reason: why, if it was said.
        key: by which requests are chosen; stays the same while its share changes. No caller knows it.
    """

    alias: str
    release: Release
    beside: int
    share: float
    subgroup: str | None
    mirror: bool
    event: int
    since: datetime
    actor: str
    reason: str | None
    key: bytes = field(repr=False)

    @property
    def title(self) -> str:
        """What it gets, in words."""
        whose = "of requests" if self.subgroup is None else f"of requests for {self.subgroup}"
        return f"{self.share:.4g} {whose}{', mirrored' if self.mirror else ''}"

    @property
    def versions_told(self) -> str:
        """Its versions and whom each is for, in words."""
        told = ", ".join(f"{one.number} ({shown_name(one.subgroup.name)})" for one in self.release.versions)
        return f"versions {told}"


@dataclass(frozen=True)
class SiteStatus:
    """What may answer under an alias at one moment, and what must not.

    Attributes:
        releases: the release of each model that has one.
        stopped: models whose alias was stopped and points to nothing.
        withdrawn: the model and the bundle's digest of every version that was withdrawn.
        events: how many events there were.
        newest: the hash of the newest one; empty where nobody knows.
        canaries: the canary of each model that has one.
    """

    releases: Mapping[str, Release]
    stopped: frozenset[str] = frozenset()
    withdrawn: frozenset[tuple[str, str]] = frozenset()
    events: int = 0
    newest: str = ""
    canaries: Mapping[str, Canary] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """One event of the audit log.

    Attributes:
        id: grows with time, over all models.
        time: when.
        actor: who.
        kind: what.
        model: to which model; empty where it was done to none, as to a key.
        alias: to which alias, if to any.
        versions: the numbers added, withdrawn, or named in the promotion; empty for `rolled-back`.
        release: the release that the alias points to since; None where it was stopped. Of `canary-started`
            the canary's.
        before: the release that it pointed to before; of a canary, the release that it accompanies.
        reason: why, if it was said.
        gates: what the gates said of the promotion.
        overridden: whether a gate refused and was overridden.
        host: from which machine; None in events of registries that did not write it down.
        details: further facts by kind: of `added` the versions, of `promoted` the release's members.
        previous: the hash of the event before.
        hash: of all of this, as `registry.database.tables` computes it.
    """

    id: int
    time: datetime
    actor: str
    kind: EventKind
    model: str
    alias: str | None
    versions: tuple[int, ...]
    release: int | None
    before: int | None
    reason: str | None
    gates: GateReport | None
    overridden: bool
    host: str | None
    details: dict[str, Any] | None
    previous: str
    hash: str

    @property
    def signed_with(self) -> str | None:
        """The fingerprint of the key that signed it; None where the actor is the operating system's word."""
        signed = (self.details or {}).get("signed")
        return signed["key"] if isinstance(signed, dict) else None


@dataclass(frozen=True)
class Person:
    """A person whom the registry knows by a public key.

    Attributes:
        name: as events call them.
        fingerprint: sha256 of the public key (`openssl pkey -pubin -in KEY -outform DER | sha256sum`).
        public_key: the key in PEM.
        roles: what they may do.
        created: when they were added.
        revoked: when the key was revoked, if it was.
    """

    name: str
    fingerprint: str
    public_key: str
    roles: tuple[Role, ...]
    created: datetime
    revoked: datetime | None = None


RESTORE: Final = "find out who changed the database, and restore a copy of it"
"""What to do about an issue that nobody makes by using the registry."""


@dataclass(frozen=True)
class IntegrityIssue:
    """One thing that verification found wrong.

    Attributes:
        about: what it is about, such as a version and its object, an alias or a table.
        text: what is wrong and what to do.
    """

    about: str
    text: str


@dataclass(frozen=True)
class ApiKey:
    """One API key of the service.

    Attributes:
        id: the part of the secret that may be shown.
        name: whom or what it is for.
        sha256: of the secret, which is kept nowhere.
        created: when it was made.
        revoked: when it was revoked, if it was.
        scopes: what it may ask for.
        expires: when it ceases to be good, if ever.
        per_minute: how many requests a minute it may make; None for as many as the service grants to any key.
        replaces: the id of the key that it was rotated from, if it was.
    """

    id: str
    name: str
    sha256: str
    created: datetime
    revoked: datetime | None
    scopes: tuple[Scope, ...] = SCOPES
    expires: datetime | None = None
    per_minute: int | None = None
    replaces: str | None = None

    def expired(self, now: datetime) -> bool:
        """Whether the key has expired."""
        return self.expires is not None and self.expires <= now

    def good(self, now: datetime) -> bool:
        """Whether the key is valid: neither revoked nor expired."""
        return self.revoked is None and not self.expired(now)
