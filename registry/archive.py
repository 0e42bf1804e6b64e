"""A release as one file: its index `release.json`, its events, and the zip of stored entries around them.

Every other file in it is named by its digest in `release.json`, so the digest of this text is that of the
whole release. Entries are stored, not compressed, with one time, one mode and one order: the same release
gives the same file, and no file holds more than its own size. Nothing is unpacked to a disk, and only what
the index names is read, so names, links and modes of entries mean nothing.

An event in the registry holds a user's name and a machine's, and its reason may name people. An archive
goes to others. So what is exported of an event is a list of chosen facts, not the event without some of it;
the hash of the whole event is left out too: who knows the rest of it can find a name by trying.
"""

import contextlib
import json
import os
import re
import secrets
import stat
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, field_validator

from registry.bundle.folder import flush_folder
from registry.bundle.frozen import Frozen
from registry.bundle.manifest import Digest
from registry.database.tables import canonical_json
from registry.errors import ArchiveError, ArchiveRefused
from registry.gates.gate_set import GATES
from registry.names import INDEX_FILE

_VERSION: Final = ("number", "digest", "model_digest", "subgroup", "scale", "tones", "created")
_MEMBER: Final = ("number", "digest", "subgroup")
_SIGNATURE: Final = ("number", "object", "identity")

EXPORTED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
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
_EVENT_TIME: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$"
_LARGEST: Final = 2**63 - 1

Number = Annotated[int, Field(ge=0, le=_LARGEST)]
"""An id or a number of another registry."""


class ExportedEvent(Frozen):
    """What an archive contains of an event.

    Attributes:
        reason: why; None unless the export was asked for reasons.
        gates: what the gates said, without the names of people.
        key: the fingerprint of the key that signed it, as its registry says; None if it is not signed. The
            signature itself stays there.
    """

    id: Number
    time: Annotated[str, Field(pattern=_EVENT_TIME)]
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


def exported_event(event: Mapping[str, Any], *, with_reasons: bool) -> ExportedEvent:
    """What an archive contains of an event, which is given as it is stored."""
    found = event["details"] or {}
    signed = found.get("signed")
    key = signed.get("key") if isinstance(signed, dict) else None
    details = {
        name: _chosen(found[name], fields)
        for name, fields in EXPORTED[event["kind"]].items()
        if name in found
    }
    return ExportedEvent(
        **{
            **{name: event[name] for name in ExportedEvent.model_fields if name != "key"},
            "reason": event["reason"] if with_reasons else None,
            "gates": without_people(event["gates"]),
            "details": details or None,
            "key": key if isinstance(key, str) and re.fullmatch(_KEY, key) else None,
        }
    )


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


FORMAT: Final = 1
"""The format that this dermfed writes, and the only one that it reads."""

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
    model_size: int = Field(ge=0)
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
    events: tuple[ExportedEvent, ...]

    @field_validator("versions")
    @classmethod
    def _each_once(cls, versions: tuple[PackedVersion, ...]) -> tuple[PackedVersion, ...]:
        numbers = [one.number for one in versions]
        if numbers != sorted(set(numbers)) or len({one.digest for one in versions}) != len(numbers):
            raise ValueError("versions are listed once each, in the order of their numbers")
        for version in versions:
            if len({one.object for one in version.signatures}) != len(version.signatures):
                raise ValueError(f"a signature of version {version.number} is listed twice")
        return versions

    def text(self) -> bytes:
        """The canonical JSON of this index: sorted keys, no spaces, UTF-8."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def files(self) -> dict[str, tuple[str, int]]:
        """The digest and the size of every file of the release in the archive, by name."""
        found: dict[str, tuple[str, int]] = {}
        for version in self.versions:
            found[manifest_file(version.digest)] = version.digest, version.size
            found[model_file(version.model_digest)] = version.model_digest, version.model_size
            found.update({signature_file(one.object): (one.object, one.size) for one in version.signatures})
        return found

    @property
    def promotion(self) -> ExportedEvent | None:
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
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"])) or INDEX_FILE
        raise ArchiveRefused(
            f"{INDEX_FILE} is not valid ({where}: {problem['msg']}); export the release again"
        ) from error
    check_events(index)
    return index


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


_MAX_ENTRIES = 10_000  # entries
_MODE = stat.S_IFREG | 0o644
_UNIX = 3  # wherever this runs
_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip can tell
_UNREADABLE = (zipfile.BadZipFile, struct.error, NotImplementedError, RuntimeError, EOFError, ValueError)


def write_container(path: Path, files: Iterable[tuple[str, bytes]]) -> int:
    """Writes an archive of these files, in this order, atomically; returns the bytes written.

    Raises:
        ArchiveError: the disk refuses.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with unfinished.open("xb") as target:
                with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
                    for name, content in files:
                        entry = zipfile.ZipInfo(name, _TIME)
                        entry.create_system = _UNIX
                        entry.external_attr = _MODE << 16
                        archive.writestr(entry, content)
                target.flush()
                os.fsync(target.fileno())
                size = target.tell()
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        flush_folder(path.absolute().parent)
    except OSError as error:
        raise ArchiveError(
            f"{path} cannot be written ({error.strerror}); check the disk, the folder and its permissions"
        ) from error
    return size


@dataclass(frozen=True)
class Container:
    """A validated archive, open for reading.

    Attributes:
        sizes: the bytes of each file in it, by name, the first first.
    """

    sizes: Mapping[str, int]
    _archive: zipfile.ZipFile

    def read(self, name: str) -> bytes:
        """The content of one file in the archive.

        Raises:
            ArchiveRefused: its bytes are not those that were written.
        """
        try:
            return self._archive.read(name)
        except (*_UNREADABLE, OSError) as error:
            raise ArchiveRefused(f"{name} cannot be read ({error}); fetch the file again") from error


@contextlib.contextmanager
def open_container(path: Path) -> Iterator[Container]:
    """Opens an archive and validates the list of its entries; nothing else is read yet.

    Raises:
        ArchiveError: it cannot be opened.
        ArchiveRefused: it is no zip, or not one that was written as we write them.
    """
    try:
        length = path.stat().st_size
        source = path.open("rb")
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read ({error.strerror}); name a file of `export`") from error
    with source:
        try:
            archive = zipfile.ZipFile(source)
        except (*_UNREADABLE, OSError) as error:
            raise ArchiveRefused(f"{path} is no release ({error}); name a file of `export`") from error
        with archive:
            yield Container(_checked_sizes(path, archive, length), archive)


def _checked_sizes(path: Path, archive: zipfile.ZipFile, length: int) -> dict[str, int]:
    """The size of each entry, if all of them together are no larger than the file."""
    entries = archive.infolist()
    if len(entries) > _MAX_ENTRIES:
        raise ArchiveRefused(f"{path} holds {len(entries):,} files; a release holds at most {_MAX_ENTRIES:,}")
    sizes = {entry.filename: entry.file_size for entry in entries}
    if next(iter(sizes), None) != INDEX_FILE:
        raise ArchiveRefused(f"{path} does not begin with {INDEX_FILE}; name a file of `export`")
    again = "take the file that `export` wrote, as it is"
    if len(sizes) < len(entries):
        raise ArchiveRefused(f"{path} holds a file twice; {again}")
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise ArchiveRefused(f"{path} holds {entry.filename!r} compressed; {again}")
    if sizes[INDEX_FILE] > MAX_TEXT_BYTES or sum(sizes.values()) > length:
        raise ArchiveRefused(
            f"{path} has {length:,} bytes and claims {sum(sizes.values()):,}, of which {INDEX_FILE} may have "
            f"{MAX_TEXT_BYTES:,}; {again}"
        )
    return sizes
