"""Canaries: a release gets a share of the requests next to the one that an alias points to.

It answers them, or is mirrored: then all are answered by what the alias points to, and its own answers are
only compared. It is promoted as any release is, with the same gates. It ends with an event that moves the
alias, by a canary of other versions, by `end_canary`, and by withdrawing a version of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from sqlalchemy import Connection, Engine

from registry.bundle.manifest import BundleManifest
from registry.database.changes import AuditContext, insert_event, insert_release
from registry.database.connection import writing
from registry.database.queries import (
    ended_with,
    first_event,
    require_model,
    running_canary,
    stated_prevalence,
)
from registry.errors import InvalidName, NotFound, ReleaseRefused
from registry.names import not_found
from registry.records import Canary, Event
from registry.releases.compose import Candidate


@dataclass(frozen=True)
class Share:
    """Which requests a canary gets.

    Attributes:
        share: of the requests, above 0 and below 1; of a mirrored one also 1.
        subgroup: by the declared skin tone; None if not restricted to a subgroup.
        mirror: whether its answers are only compared.
    """

    share: float
    subgroup: str | None = None
    mirror: bool = False

    def __post_init__(self) -> None:
        """Checks the share.

        Raises:
            InvalidName: it is none.
        """
        if not 0 < self.share < 1 and not (self.mirror and self.share == 1):
            raise InvalidName(
                f"a share of {self.share:g} is not between 0 and 1; name one such as 0.05. To release in "
                "full, promote without a share; to have no canary, `dermfed-registry canary end`"
            )


def check_share(candidate: Candidate, manifests: Mapping[int, BundleManifest], share: Share) -> None:
    """Checks that a candidate can answer a share of requests while the current release answers the rest.

    Args:
        candidate: the release.
        manifests: of its versions, by number.
        share: whose requests.

    Raises:
        ReleaseRefused: no release is current, or this one is.
        NotFound: it knows no such subgroup.
    """
    if candidate.before is None:
        raise ReleaseRefused(
            f"nothing runs under {candidate.alias} of {candidate.model}, beside which {candidate.title} "
            "could get a share; promote a release in full first"
        )
    if candidate.changes_nothing:
        raise ReleaseRefused(
            f"{candidate.alias} of {candidate.model} points to {candidate.title} already, which answers "
            "everybody; a canary is of other versions"
        )
    if share.subgroup is not None:
        known = candidate.subgroups(manifests)
        if share.subgroup not in known:
            raise not_found("subgroup", share.subgroup, known, of=f" that {candidate.title} would answer for")


def runs_as_asked(connection: Connection, candidate: Candidate, share: Share) -> bool:
    """Whether exactly this canary runs already."""
    canary = running_canary(connection, candidate.model, candidate.alias)
    return _is_of(canary, connection, candidate) and share == Share(
        canary.share, canary.subgroup, canary.mirror
    )


def _is_of(canary: Canary | None, connection: Connection, candidate: Candidate) -> TypeGuard[Canary]:
    """Whether a canary is of the candidate's versions and prevalence."""
    return (
        canary is not None
        and canary.release.versions == candidate.versions
        and stated_prevalence(connection, candidate.model, canary.release.id) == candidate.prevalence
    )


def start(
    connection: Connection,
    candidate: Candidate,
    share: Share,
    context: AuditContext,
    details: Mapping[str, Any],
) -> Event:
    """Starts a canary, or changes the share of the one that runs, within a transaction.

    Pictures that the canary answered are still answered by it when the share rises: its
    key stays.
    """
    before = candidate.before
    assert before is not None, "check_share has been asked"
    running = running_canary(connection, candidate.model, candidate.alias)
    told = {**details, "share": share.share}
    if share.subgroup is not None:
        told["subgroup"] = share.subgroup
    if share.mirror:
        told["mirror"] = True
    if _is_of(running, connection, candidate):
        release = running.release.id
        told |= {"first": first_event(connection, running), "share_before": running.share}
    else:
        release = insert_release(connection, candidate.model, candidate.versions)
        told |= ended_with(running)
    return insert_event(
        connection,
        "canary-started",
        candidate.model,
        context,
        versions=[version.number for version in candidate.named],
        alias=candidate.alias,
        release=release,
        before=before.id,
        details=told,
    )


def end_canary(engine: Engine, model: str, alias: str, context: AuditContext) -> Event:
    """Ends the canary of an alias: the release that the alias points to answers all requests again.

    Args:
        engine: of the database.
        model: the model's name.
        alias: of which alias.
        context: who ends it and why.

    Raises:
        NotFound: there is no such model, or no canary.
        ReleaseRefused: there is no reason.
    """
    context.require_reason("ending a canary")
    with writing(engine) as connection:
        require_model(connection, model)
        if (canary := running_canary(connection, model, alias)) is None:
            raise NotFound(
                f"no canary runs beside {alias} of {model}; `dermfed-registry show {model}` shows what does"
            )
        return write_end(connection, model, canary, context, {})


def write_end(
    connection: Connection, model: str, canary: Canary, context: AuditContext, details: Mapping[str, Any]
) -> Event:
    """Writes the event that ends a canary, within a transaction."""
    return insert_event(
        connection,
        "canary-ended",
        model,
        context,
        alias=canary.alias,
        before=canary.beside,
        details={**ended_with(canary), **details},
    )
