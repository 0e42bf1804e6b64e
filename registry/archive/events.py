"""Events as an archive tells them: what was done to a release and when, and neither by whom nor where.

An event in the registry holds a user's name and a machine's, and its reason may name people. An archive
goes to others. So what is exported of an event is a list of what may be told, not the event without some of
it: the hash of the whole event is left out too, since whoever knows all else of it can find a name by trying
(`docs/decisions/048-exports-name-nobody.md`).
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from registry.bundle.frozen import Frozen
from registry.bundle.manifest.lineage import Digest
from registry.gates.gate_set import GATES

_VERSION: Final = ("number", "digest", "model_digest", "subgroup", "scale", "tones", "created")
_MEMBER: Final = ("number", "digest", "subgroup")
_SIGNATURE: Final = ("number", "object", "identity")

_TOLD: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "added": {"versions": _VERSION},
    "imported": {
        "versions": _VERSION,
        "signatures": _SIGNATURE,
        "origin": ("list", "alias", "release", "registry", "time", "key", "versions"),
    },
    "signed": {"signatures": _SIGNATURE},
    "approved": {"candidate": (), "members": _MEMBER, "without": (), "over_gates": ()},
    "promoted": {"made": (), "members": _MEMBER, "without": ()},
    "rolled-back": {
        "made": (),
        "members": _MEMBER,
        "because": (),
        "skipped": ("release", "withdrawn"),
    },
    "stopped": {"because": (), "skipped": ("release", "withdrawn")},
    "withdrawn": {},
}
"""The kinds of event that are exported, and which of their details with which facts."""


_KEY: Final = r"^sha256:[0-9a-f]{64}$"
_TIME: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$"
_LARGEST: Final = 2**63 - 1

Number = Annotated[int, Field(ge=0, le=_LARGEST)]
"""An id or a number of another registry."""


class PackedEvent(Frozen):
    """An event with every stored column, the time as text, so that its hash can be computed again."""

    id: int
    time: str
    actor: str
    kind: str
    model: str
    alias: str | None
    versions: tuple[int, ...]
    release_id: int | None
    before_id: int | None
    reason: str | None
    gates: dict[str, Any] | None
    overridden: bool
    host: str | None
    details: dict[str, Any] | None
    previous: Digest
    hash: Digest


class ToldEvent(Frozen):
    """What an archive tells of an event.

    Attributes:
        reason: why; None unless whoever exported asked for reasons.
        gates: what the gates said, without the names of people.
        key: the fingerprint of the key that signed it, as its registry says; None where nobody did. The
            signature itself stays there.
    """

    id: Number
    time: Annotated[str, Field(pattern=_TIME)]
    kind: str
    alias: str | None
    versions: tuple[int, ...]
    release_id: Number | None
    before_id: Number | None
    reason: str | None = None
    gates: dict[str, Any] | None
    overridden: bool
    details: dict[str, Any] | None
    key: Annotated[str, Field(pattern=_KEY)] | None


def is_told(event: PackedEvent) -> bool:
    """Whether events of its kind are exported; notes and tags are for those who wrote them."""
    return event.kind in _TOLD


def told(event: PackedEvent, *, with_reasons: bool) -> ToldEvent:
    """What an archive tells of an event."""
    facts = event.model_dump(mode="json", include=set(ToldEvent.model_fields))
    signed = (event.details or {}).get("signed")
    details = {
        name: _chosen(event.details[name], fields)
        for name, fields in _TOLD[event.kind].items()
        if event.details and name in event.details
    }
    return ToldEvent(
        **{
            **facts,
            "reason": event.reason if with_reasons else None,
            "gates": without_people(event.gates),
            "details": details or None,
            "key": _fingerprint(signed.get("key")) if isinstance(signed, dict) else None,
        }
    )


def _fingerprint(key: object) -> str | None:
    """A key's fingerprint; None of what is none."""
    return key if isinstance(key, str) and re.fullmatch(_KEY, key) else None


def without_people(gates: dict[str, Any] | None) -> dict[str, Any] | None:
    """A gate report without what may name people: the words of `approvals` and of gates that are not ours."""
    if gates is None:
        return None
    return {**gates, "results": [_impersonal(result) for result in gates.get("results", ())]}


def _impersonal(result: dict[str, Any]) -> dict[str, Any]:
    if result["gate"] in GATES.own and result["gate"] != "approvals":
        return result
    findings = [{**one, "note": ""} for one in result["findings"]]
    return {
        **result,
        "findings": findings,
        "detail": "what it said is not exported, since it may name people",
    }


def _chosen(fact: Any, fields: tuple[str, ...]) -> Any:
    """These fields of a fact, or of each one in a list; a fact that has none is whole."""
    if isinstance(fact, list):
        return [_chosen(one, fields) for one in fact]
    if isinstance(fact, dict):
        return {name: value for name, value in fact.items() if name in fields}
    return fact
