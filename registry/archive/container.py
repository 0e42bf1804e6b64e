"""A release as one file: its index `release.json`, its events, and the zip of stored entries around them.

The archive file of a release: a reproducible zip of stored (not compressed) entries.

Entries have one time, one mode and one order, so the same release gives the same file. A file is read
only if it was written so. That leaves nothing to attack a reader with: names come from a short list, so
none leads out of a folder; nothing is unpacked to a disk, so links mean nothing, and are refused all
the same; nothing is compressed, so a file never holds more than its own size.

Events as an archive tells them: what was done to a release and when, and neither by whom nor where.

An event in the registry holds a user's name and a machine's, and its reason may name people. An archive
goes to others. So what is exported of an event is a list of what may be told, not the event without some of
it: the hash of the whole event is left out too, since whoever knows all else of it can find a name by trying
(`docs/decisions/048-exports-name-nobody.md`).

`release.json`, the index of an archive: its release, every file in it, and the events that made it.

Every file beside it is named by its digest, so the digest of this text stands for the whole file.
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
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from registry.bundle.folder import flush_folder
from registry.bundle.frozen import Frozen
from registry.bundle.manifest import Digest
from registry.database.tables import canonical_json, event_hash
from registry.errors import ArchiveError, ArchiveRefused
from registry.gates.gate_set import GATES
from registry.names import INDEX_FILE

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
_EVENT_TIME: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$"
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


_MAX_BYTES: Mapping[str, int] = {
    INDEX_FILE: MAX_TEXT_BYTES,
    "manifests": MAX_TEXT_BYTES,
    "models": MAX_ONNX_BYTES,
    "signatures": MAX_TEXT_BYTES,
}
_NAME = re.compile(
    rf"({re.escape(INDEX_FILE)})|(manifests)/[0-9a-f]{{64}}\.json|(models)/[0-9a-f]{{64}}\.onnx"
    r"|(signatures)/[0-9a-f]{64}",
    flags=re.ASCII,
)
_MAX_ENTRIES = 10_000  # entries
_MODE = stat.S_IFREG | 0o644
_UNIX = 3  # wherever this runs
_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip can tell
_ZIP64 = b"\x01\x00"  # how the one extra field starts that large files need
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
    entries = archive.infolist()
    if len(entries) > _MAX_ENTRIES:
        raise ArchiveRefused(f"{path} holds {len(entries):,} files; a release holds at most {_MAX_ENTRIES:,}")
    sizes: dict[str, int] = {}
    for entry in entries:
        if (wrong := _defect(entry, sizes)) is not None:
            raise ArchiveRefused(
                f"{path} holds {entry.orig_filename!r}, {wrong}; take the file that `export` wrote, as it is"
            )
        sizes[entry.filename] = entry.file_size
    if next(iter(sizes), None) != INDEX_FILE:
        raise ArchiveRefused(f"{path} does not begin with {INDEX_FILE}; name a file of `export`")
    if archive.comment or sum(sizes.values()) > length:
        raise ArchiveRefused(
            f"{path} has {length:,} bytes and claims {sum(sizes.values()):,}, or has a comment; take the "
            "file that `export` wrote, as it is"
        )
    return sizes


def _defect(entry: zipfile.ZipInfo, seen: Mapping[str, int]) -> str | None:
    """Why an entry is not as we write them; None where it is."""
    known = _NAME.fullmatch(entry.orig_filename)
    if known is None or entry.filename != entry.orig_filename:
        return "which is no name of a release's file"
    if entry.filename in seen:
        return "twice"
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        return f"compressed from {entry.file_size:,} bytes to {entry.compress_size:,}: nothing in it may be"
    if entry.date_time != _TIME or entry.create_system != _UNIX:
        return "with a time or system of its own"
    if entry.flag_bits or entry.comment or (entry.extra and not entry.extra.startswith(_ZIP64)):
        return "with flags, a comment or extra fields"
    if entry.external_attr >> 16 != _MODE:
        return f"of mode {entry.external_attr >> 16:o}: links, folders and programs have no place in it"
    limit = _MAX_BYTES[str(known[known.lastindex or 0])]
    if entry.file_size > limit:
        return f"of {entry.file_size:,} bytes: at most {limit:,} are allowed"
    return None
