"""Signatures of versions: making, storing and verifying them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, insert, select

from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, writing
from registry.database.queries import version_id, versions_by_number
from registry.database.tables import SignatureRow, VersionRow
from registry.envelope import bundle_files, read_envelope, read_statement
from registry.errors import SignatureRefused, StoreError
from registry.records import Version
from registry.store import Store
from registry.stored_bundles import check_stored, restore_collected, stored_manifest

if TYPE_CHECKING:
    from registry.signing_keys import CheckedSignature, Signer, Trust


@dataclass(frozen=True)
class Signature:
    """One stored signature of a version; whose it claims to be is unverified.

    Attributes:
        model, number: the version.
        object: the digest of the signature's bytes, which are in the store.
        identity: who signed: sha256 of the public key, or the subject of the certificate.
        created: when.
    """

    model: str
    number: int
    object: str
    identity: str
    created: datetime


def signatures_of(connection: Connection, model: str | None = None) -> tuple[Signature, ...]:
    """Every signature, of a model's versions or of all, by version and then the oldest first."""
    query = select(
        VersionRow.model,
        VersionRow.number,
        SignatureRow.object,
        SignatureRow.identity,
        SignatureRow.created,
    ).join(VersionRow, VersionRow.id == SignatureRow.version_id)
    if model is not None:
        query = query.where(VersionRow.model == model)
    found = [Signature(*row) for row in connection.execute(query)]
    return tuple(sorted(found, key=lambda one: (one.model, one.number, one.created, one.object)))


def signatures_of_version(connection: Connection, version: Version) -> tuple[Signature, ...]:
    """Every signature of a version, the oldest first."""
    return tuple(one for one in signatures_of(connection, version.model) if one.number == version.number)


def insert_signatures(connection: Connection, signatures: Sequence[Signature]) -> None:
    """Inserts signatures of existing versions."""
    for one in signatures:
        version = version_id(connection, one.model, one.number)
        connection.execute(
            insert(SignatureRow).values(
                version_id=version, object=one.object, identity=one.identity, created=one.created
            )
        )


def sign_versions(
    engine: Engine, store: Store, context: AuditContext, model: str, numbers: Sequence[int], signer: "Signer"
) -> tuple[Signature, ...]:
    """Signs these versions, and returns the signature of each; versions signed before keep theirs.

    Raises:
        NotFound: there is no such model or version.
        StoreError: a file of a version is missing or altered, or the store cannot be written.
    """
    from registry.signing_keys import sign_files, trust_in_signer

    made: dict[int, Signature] = {}
    new: list[Signature] = []
    contents: dict[str, bytes] = {}
    with reading(engine) as connection:
        versions = versions_by_number(connection, model, list(dict.fromkeys(numbers)))
        known = {one.number: signatures_of_version(connection, one) for one in versions}
    for version in versions:
        manifest = check_stored(store, version)  # nobody signs what was altered
        files = bundle_files(version.digest, manifest.file.sha256)
        for one in known[version.number]:
            found = _checked(store, one, files, trust_in_signer(signer))
            if found.verdict == "valid" and one.identity == signer.identity:
                made[version.number] = one
        if version.number not in made:
            created = datetime.now(UTC)
            content = sign_files(model, files, signer)
            digest = store.put(content)
            contents[digest] = content
            made[version.number] = Signature(model, version.number, digest, signer.identity, created)
            new.append(made[version.number])
    if new:
        with writing(engine) as connection:
            restore_collected(store, contents)
            insert_signatures(connection, new)
            details = {
                "signatures": [
                    {"number": one.number, "object": one.object, "identity": one.identity} for one in new
                ]
            }
            insert_event(
                connection, "signed", model, context, versions=[one.number for one in new], details=details
            )
    return tuple(made[version.number] for version in versions)


def check_version(
    engine: Engine, store: Store, version: Version, trust: "Trust"
) -> tuple[tuple[Signature, "CheckedSignature"], ...]:
    """Verifies each signature of a version.

    Raises:
        StoreError: the version's manifest is missing or altered.
    """
    files = bundle_files(version.digest, stored_manifest(store, version).file.sha256)
    with reading(engine) as connection:
        signatures = signatures_of_version(connection, version)
    return tuple((one, _checked(store, one, files, trust)) for one in signatures)


def require_signature(engine: Engine, store: Store, version: Version, trust: "Trust") -> str:
    """The identity of a trusted signer of the version, whose signature is valid.

    Raises:
        SignatureRefused: none of them has.
        StoreError: the version's manifest is missing or altered.
    """
    checked = check_version(engine, store, version, trust)
    for _, one in checked:
        if one.verdict == "valid" and one.identity is not None:
            return one.identity
    said = "; ".join(f"{one.verdict}: {one.why}" for _, one in checked) or "it has no signature"
    raise SignatureRefused(
        f"version {version.number} of {version.model} ({version.subgroup.name}) is signed by nobody who is "
        f"trusted ({said}); sign it with `dermfed-registry sign {version.model} {version.number} "
        "--key FILE`, or trust the key that signed it"
    )


def signature_issues(
    connection: Connection, store: Store, trust: "Trust | None"
) -> Iterator[tuple[str, str]]:
    """Finds what is wrong with stored signatures: which, and what; without `trust` no signer is unknown."""
    for one in signatures_of(connection):
        about = f"signature {one.object} of version {one.number} of {one.model}"
        (version,) = versions_by_number(connection, one.model, [one.number])
        try:
            files = bundle_files(version.digest, stored_manifest(store, version).file.sha256)
        except StoreError:
            continue  # it is reported for the version itself
        if (issue := _signature_issue(store, one, files, trust)) is not None:
            yield about, issue


def _checked(store: Store, one: Signature, files: Mapping[str, str], trust: "Trust") -> "CheckedSignature":
    from registry.signing_keys import CheckedSignature, check_signature

    try:
        return check_signature(store.get(one.object), files, trust, one.created)
    except StoreError as error:
        return CheckedSignature("forged", None, str(error))


def _signature_issue(
    store: Store, one: Signature, files: Mapping[str, str], trust: "Trust | None"
) -> str | None:
    try:
        content = store.get(one.object)
    except StoreError as error:
        return f"{error}; restore a copy of the store"
    forged = "find out who put it there before the version is used"
    if trust is None:
        try:
            over = read_statement(read_envelope(content).payload)
        except ValueError as error:
            return f"forged: {error}; {forged}"
        return None if over == files else f"forged: it is over other files; {forged}"
    checked = _checked(store, one, files, trust)
    if checked.verdict == "unknown":
        return (
            f"unknown: {checked.why} (kept as of {one.identity}); add what it was signed with to --trust, if "
            "you know whose it is"
        )
    if checked.verdict == "forged":
        return f"forged: {checked.why}; {forged}"
    if one.identity not in checked.names:
        return f"forged: the database says {one.identity}, and it is of {checked.identity}; {forged}"
    return None
