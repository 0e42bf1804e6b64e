"""`release.json`, the index of an archive: its release, every file in it, and the events that made it.

Every file beside it is named by its digest, so the digest of this text stands for the whole file.
"""

import json
from datetime import datetime
from typing import Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from registry.archive.events import PackedEvent, ToldEvent
from registry.bundle.frozen import Frozen
from registry.bundle.manifest.lineage import Digest
from registry.database.hash_chain import canonical_json, event_hash
from registry.errors import ArchiveRefused
from registry.names import INDEX_FILE

FORMAT: Final = 1
"""The format that this dermfed writes, and the only one that it reads."""

MAX_ONNX_BYTES = 2**31
"""Bytes of a `model.onnx`: ONNX's own limit for one file."""
MAX_TEXT_BYTES = 2**26
"""Bytes of `release.json` and of each `bundle.json` and signature."""


class PackedSignature(Frozen):
    """The index entry of a version's signature."""

    object: Digest
    size: int = Field(ge=0, le=MAX_TEXT_BYTES)  # bytes
    identity: str
    created: datetime


class PackedVersion(Frozen):
    """The index entry of a version of the release, as its registry of origin held it.

    Attributes:
        number: its number there.
        digest: of its `bundle.json`.
        size: bytes of its `bundle.json`.
        model_digest: of its `model.onnx`.
        model_size: bytes of its `model.onnx`.
        subgroup: whom it is for.
        signatures: who signed it.
    """

    number: int = Field(ge=1)
    digest: Digest
    size: int = Field(ge=0, le=MAX_TEXT_BYTES)
    model_digest: Digest
    model_size: int = Field(ge=0, le=MAX_ONNX_BYTES)
    subgroup: str
    signatures: tuple[PackedSignature, ...] = ()


class ReleaseIndex(Frozen):
    """The content of `release.json`.

    Attributes:
        format: of the file.
        registry: the id of the registry of origin; empty where its database has lost it.
        code_version: the dermfed that wrote it.
        model: the model's name.
        alias: the alias that pointed to the release.
        release: the release's id there.
        versions: its versions, by number.
        gates: what the gates said when it was promoted, without the names of people; None where it was not
            judged.
        events: each event about the release or its versions, the oldest first.
    """

    format: Literal[1] = FORMAT
    registry: str = Field(pattern=r"^([0-9a-f]{32})?$")
    code_version: str
    model: str
    alias: str
    release: int
    versions: tuple[PackedVersion, ...] = Field(min_length=1)
    gates: dict[str, Any] | None
    events: tuple[ToldEvent, ...]

    def text(self) -> bytes:
        """The canonical JSON of this index: sorted keys, no spaces, UTF-8."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def files(self) -> dict[str, int]:
        """The size of every file of the release in the archive, by name."""
        found: dict[str, int] = {}
        for version in self.versions:
            found[manifest_file(version.digest)] = version.size
            found[model_file(version.model_digest)] = version.model_size
            found.update({signature_file(one.object): one.size for one in version.signatures})
        return found

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        numbers = [one.number for one in self.versions]
        if numbers != sorted(set(numbers)) or len({one.digest for one in self.versions}) != len(numbers):
            raise ValueError("versions are listed once each, in the order of their numbers")
        for version in self.versions:
            if len({one.object for one in version.signatures}) != len(version.signatures):
                raise ValueError(f"a signature of version {version.number} is listed twice")
        return self

    @property
    def promotion(self) -> ToldEvent | None:
        """The event that first promoted the release to the alias."""
        promotions = (one for one in self.events if one.release_id == self.release and one.kind == "promoted")
        return next((one for one in promotions if one.alias == self.alias), None)


def manifest_file(digest: str) -> str:
    """The name of a `bundle.json` in the archive."""
    return f"manifests/{digest.removeprefix('sha256:')}.json"


def model_file(digest: str) -> str:
    """The name of a `model.onnx` in the archive."""
    return f"models/{digest.removeprefix('sha256:')}.onnx"


def signature_file(digest: str) -> str:
    """The name of a signature in the archive."""
    return f"signatures/{digest.removeprefix('sha256:')}"


def read_index(content: bytes) -> ReleaseIndex:
    """Reads a `release.json` and checks that it is consistent.

    Raises:
        ArchiveRefused: it is not valid, of another format, or the events are of another release.
    """
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArchiveRefused(f"{INDEX_FILE} is not JSON ({error}); fetch the file again") from error
    written = record.get("format") if isinstance(record, dict) else None
    if isinstance(written, int) and written != FORMAT:
        raise ArchiveRefused(
            f"{INDEX_FILE} has format {written}; this dermfed reads {FORMAT} alone: import it with dermfed "
            f"{record.get('code_version')}, which wrote it, or export the release again"
        )
    try:
        index = ReleaseIndex.model_validate(record)
        altered = content != index.text()
    except (ValueError, RecursionError) as error:
        raise ArchiveRefused(
            f"{INDEX_FILE} does not hold: {_validation_errors(error)}; export the release again"
        ) from error
    if altered:
        raise ArchiveRefused(
            f"{INDEX_FILE} is not in its canonical form: it was edited; export the release again"
        )
    check_events(index)
    return index


def check_hash(event: PackedEvent) -> None:
    """Checks the hash of an event.

    Raises:
        ArchiveRefused: it was altered.
    """
    if (actual := event_hash(event.model_dump(mode="json"))) != event.hash:
        raise ArchiveRefused(
            f"event {event.id} in {INDEX_FILE} was altered: it has the hash {actual} and says "
            f"{event.hash}; export the release again"
        )


def check_events(index: ReleaseIndex) -> None:
    """Checks that the events are in order, and that they promoted this release.

    Raises:
        ArchiveRefused: they are of another release.
    """
    again = "export the release again"
    numbers = [event.id for event in index.events]
    if numbers != sorted(set(numbers)):
        raise ArchiveRefused(f"the events in {INDEX_FILE} are not in their order, each once; {again}")
    if (promotion := index.promotion) is None:
        raise ArchiveRefused(
            f"no event in {INDEX_FILE} tells that release {index.release} of {index.model} was promoted to "
            f"{index.alias}; {again}"
        )
    members = [
        {"number": one.number, "digest": one.digest, "subgroup": one.subgroup} for one in index.versions
    ]
    if (promotion.details or {}).get("members") != members:
        raise ArchiveRefused(
            f"event {promotion.id} in {INDEX_FILE} tells of other versions than the file holds; {again}"
        )
    if promotion.gates != index.gates:
        raise ArchiveRefused(f"event {promotion.id} in {INDEX_FILE} has another gate report; {again}")


def _validation_errors(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'the list'}: {problem['msg']}"
        for problem in error.errors(include_url=False)
    )
