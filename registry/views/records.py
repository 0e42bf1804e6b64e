"""Versions, releases, events, API keys and people as lines and columns of text."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from registry.bundle.text import shown_name
from registry.gate_report import set_title
from registry.records import ROLE_FOR, ApiKey, Canary, Event, Person, Release, Version, moment
from registry.views.tables import columns, lines_of

OVERRIDDEN: Final = "GATES OVERRIDDEN"
NOT_SIGNED: Final = "NOT SIGNED, though it says so"


def version_table(versions: Sequence[Version], **more: Sequence[str]) -> str:
    """Versions, one on each line; `more` are further columns, left out where all are empty."""
    further = {name: texts for name, texts in more.items() if any(texts)}
    rows = [
        [one.model, str(one.number), one.subgroup.name, moment(one.created), one.digest, *texts]
        for one, *texts in zip(versions, *further.values(), strict=True)
    ]
    return columns(("model", "version", "subgroup", "created", "digest", *further), rows)


def release_line(
    alias: str,
    release: Release,
    overridden: Event | None = None,
    prevalence: Mapping[str, float] | None = None,
) -> str:
    """Where an alias points, by which event if that overrode the gates, and the prevalence stated with it."""
    versions = ", ".join(f"{one.number} ({shown_name(one.subgroup.name)})" for one in release.versions)
    lines = [f"{alias}: release {release.id}, versions {versions}"]
    if prevalence:
        lines.append(f"  {prevalence_line(prevalence)}")
    if overridden is not None:
        who, when = shown_name(overridden.actor), moment(overridden.time)
        lines.append(f"  {OVERRIDDEN} by {who} at {when}: {overridden.reason}")
    return lines_of(lines)


def prevalence_line(prevalence: Mapping[str, float]) -> str:
    """The prevalence that was stated, by subgroup."""
    stated = ", ".join(f"{shown_name(name)} {share:g}" for name, share in prevalence.items())
    return f"stated prevalence of malignancy: {stated}"


def canary_line(alias: str, canary: Canary) -> str:
    """Which release answers a share of an alias's requests, since when and why."""
    reason = f"; {canary.reason}" if canary.reason else ""
    line = (
        f"{alias}: CANARY: {canary.title} to release {canary.release.id}, {canary.versions_told}, since "
        f"{moment(canary.since)} by {shown_name(canary.actor)}{reason}"
    )
    return lines_of([line])


def stopped_line(alias: str, event: Event) -> str:
    """That an alias was stopped and points to nothing."""
    when = moment(event.time)
    return lines_of([f"{alias}: STOPPED by {event.actor} at {when}: {event.reason}; it points to nothing"])


@dataclass(frozen=True)
class EventView:
    """One event in words.

    Attributes:
        id: of the event.
        title: what was done, to which versions and which alias.
        time, actor: when and by whom.
        signature: how sure that is; empty if no signature is needed.
        details: what was recorded with it, a line each.
        gates: the verdict of each gate, a line each.
        overridden: whether a gate refused and was overridden.
    """

    id: int
    title: str
    time: str
    actor: str
    signature: str
    details: tuple[str, ...]
    gates: tuple[str, ...]
    overridden: bool


def event_view(event: Event, forged: Collection[int] | None = ()) -> EventView:
    """An event in words.

    Args:
        event: the event.
        forged: the ids of events whose signature was checked and is wrong; None where none could be checked.
    """
    signature = "not signed" if event.kind in ROLE_FOR else ""
    if event.signed_with is not None:
        signature = NOT_SIGNED if forged and event.id in forged else "signed"
        signature = "signed, not checked" if forged is None else signature
    results = () if event.gates is None else event.gates.results
    return EventView(
        id=event.id,
        title=_title(event, event.details or {}),
        time=moment(event.time),
        actor=event.actor,
        signature=signature,
        details=tuple(_details(event, event.details or {})),
        gates=tuple(f"gate {one.gate}: {one.verdict}: {one.detail}" for one in results),
        overridden=event.overridden,
    )


def event_lines(event: Event, forged: Collection[int] | None = ()) -> str:
    """One event on several lines, with its details and the verdicts of gates; `forged` as of `event_view`."""
    view = event_view(event, forged)
    signature = f" ({view.signature})" if view.signature else ""
    more = [*view.details, *view.gates, *([OVERRIDDEN] if view.overridden else [])]
    head = f"{view.id}  {view.time}  {shown_name(view.actor)}{signature}  {view.title}"
    return lines_of([head, *(f"    {line}" for line in more)])


def _title(event: Event, details: Mapping[str, Any]) -> str:
    title = str(event.kind)
    if event.versions:
        many = "s" if len(event.versions) > 1 else ""
        title += f" version{many} {', '.join(map(str, event.versions))}"
    before = event.before or "none"
    match event.kind:
        case "canary-started":
            whose = f" for {details['subgroup']}" if "subgroup" in details else ""
            how = " mirrored" if details.get("mirror") else ""
            to = f"{details['share']:.4g} of requests{whose}{how} to release {event.release}"
            return f"{title}, {event.alias}: {to}, beside {event.before}"
        case "gates-changed" if details:
            old, new = (
                set_title(one["model"], one["number"], one.get("alias", ""))
                for one in (details["before"], details["after"])
            )
            return f"{title}: {old} -> {new}"
        case "tagged" | "untagged" if details:
            return f"{title}: {', '.join(details['tags'])}"
        case "stopped":
            return f"{title}, {event.alias}: release {before} -> nothing"
    if event.release is not None:
        title += f", {event.alias}: release {before} -> {event.release}"
    elif event.alias is not None and event.kind != "gates-changed":
        title += f" for {event.alias}"
    return title + (_approved(details) if event.kind == "approved" else "")


def _approved(details: Mapping[str, Any]) -> str:
    """What was approved, where it is more than a release."""
    if "gates" in details:
        whose = f"of {details['model']}" if details["model"] else "for all models"
        return f": the gate set {details['gates']} {whose}"
    if "fingerprint" in details:
        who, roles = shown_name(details["name"]), ", ".join(details["roles"])
        return f": adding {who} ({roles}) with the key {details['fingerprint']}"
    return " although gates refuse" if details.get("over_gates") else ""


def _details(event: Event, details: Mapping[str, Any]) -> list[str]:
    lines = []
    if because := details.get("because"):
        lines.append(f"since withdrawn: version {', '.join(map(str, because))}")
    for one in details.get("skipped", ()):
        withdrawn = ", ".join(map(str, one["withdrawn"]))
        lines.append(f"skipped: release {one['release']}, which holds version {withdrawn}, withdrawn")
    if "share_before" in details:
        lines.append(f"its share was: {details['share_before']:.4g}")
    if ended := details.get("canary"):
        lines.append(f"ended: the canary, release {ended}")
    if event.kind in ("alarm", "alarm-closed") and details:
        lines.append(_alarm(details))
    if event.kind == "noted" and details:
        lines.append(f"note: {details['note']}")
    if without := details.get("without"):
        lines.append(f"without a version for: {', '.join(without)}")
    if stated := details.get("prevalence"):
        lines.append(prevalence_line(stated))
    if event.kind == "imported" and details:
        lines.append(f"from: {_origin(details['origin'])}")
    if approved_by := details.get("approved_by"):
        lines.append(f"approved by: {', '.join(map(shown_name, approved_by))}")
    if event.reason is not None:
        lines.append(f"reason: {event.reason}")
    if event.kind == "withdrawn":
        lines.append("WITHDRAWN for good")
    return lines


def _alarm(details: Mapping[str, Any]) -> str:
    """Which alarm, and which guarantee was broken."""
    text = f"alarm {details['alarm']}: {details['of']} promised to {shown_name(details['subgroup'])}"
    if "least" not in details:
        return text
    return (
        f"{text}, {details['least']:.2f} or more, broken on {details['day']} ({details['outcomes']:,} "
        f"outcomes, evidence {details['evidence']:.3g} of {details['limit']:.3g})"
    )


def _origin(origin: Mapping[str, Any]) -> str:
    """Where an imported release comes from, as its file says."""
    numbers = ", ".join(str(version["number"]) for version in origin["versions"])
    key = origin["key"]
    # The file names the key and has no signature of the event: its writer may have named anybody's key.
    signed = "signed by nobody" if key is None else f"signed, it says, with the key {shown_name(key)}"
    return (
        f"release {origin['release']} under {shown_name(origin['alias'])} (versions {numbers} there), "
        f"promoted at {shown_name(origin['time'])} (event {origin['event']} of registry "
        f"{origin['registry'] or 'unknown'}), {signed}"
    )


def key_table(keys: Sequence[ApiKey]) -> str:
    """API keys, one on each line, without their secrets."""
    now = datetime.now(UTC)
    rows = []
    for key in keys:
        state = "valid"
        if key.revoked is not None:
            state = f"revoked {moment(key.revoked)}"
        elif key.expires is not None:
            state = f"{'expired' if key.expired(now) else 'valid until'} {moment(key.expires)}"
        limits = (", ".join(key.scopes), str(key.per_minute or ""), key.replaces or "")
        rows.append([key.id, key.name, moment(key.created), state, *limits])
    return columns(("id", "name", "created", "state", "scopes", "per minute", "replaces"), rows)


def people_table(people: Sequence[Person]) -> str:
    """People, one on each line, with the fingerprint of their key."""
    rows = []
    for one in people:
        state = "valid" if one.revoked is None else f"revoked {moment(one.revoked)}"
        rows.append([shown_name(one.name), ", ".join(one.roles), moment(one.created), state, one.fingerprint])
    return columns(("name", "roles", "added", "state", "key"), rows)
