"""`dermfed-registry` on integrity: verify, head, audit, gc; signatures, and archives of releases."""

import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import BadParameter

from registry.attestation import trust_in
from registry.bundle.text import shown
from registry.cli.common import Call, Model, Numbers, Out, Reason, argument, as_data, command, flag, option
from registry.envelope import TRUSTED_KEYS
from registry.environment import key_password
from registry.errors import InvalidName
from registry.records import PRODUCTION, moment
from registry.views.records import event_lines, version_table
from registry.views.tables import columns, lines_of

if TYPE_CHECKING:
    from registry.stored_bundles import Collected

_Trusted = Annotated[
    list[Path] | None,
    option(
        "FILE",
        "Public keys or certificates in PEM whose signatures count; may be given several times.",
        "--trust",
        envvar=TRUSTED_KEYS,
    ),
]


@command(
    "verify",
    "",
    "--trust board.pub --trust vendor.pem",
    "--head march.json",
    "--head 120:sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "--json",
)
def verify(
    call: Call,
    trust: _Trusted = None,
    heads: Annotated[
        list[str] | None,
        option(
            "N:HASH|FILE",
            "A head that was kept elsewhere, as `head` prints or writes it; may be given several times.",
            "--head",
        ),
    ] = None,
) -> None:
    """Check the database and every file in the store.

    Also that history and aliases agree, and that signatures are of the versions they are kept for. With
    --trust also whose they are: forged signatures are reported, and those with untrusted keys. With --head
    also that the chain of events is still the one that this head was of.
    Exit code 1 if anything is wrong; nothing is changed.
    """
    from registry.audit import KeptHead

    kept = [KeptHead.read(one) for one in heads or ()]
    with call.registry() as registry:
        problems = registry.verify(trust_in(trust))
        compared = registry.compare_heads(kept)
        versions = registry.version_count()
    problems += tuple(one.issue for one in compared if one.issue is not None)
    same = [f"the head of {one.head.events} events: as it was kept" for one in compared if one.issue is None]
    found = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}" if problems else "nothing wrong"
    lines = [*(f"{one.about}: {one.text}" for one in problems), *same, f"{versions} versions, {found}"]
    data = {"problems": as_data(problems)}
    if compared:
        data["heads"] = [{**as_data(one.head), "same": one.issue is None} for one in compared]
    call.answer(data, lines_of(lines), refused=bool(problems))


@command("head", "", "--out march.json")
def head(
    call: Call,
    out: Annotated[Path | None, option("FILE", "Write it to this file, which must not exist.")] = None,
) -> None:
    """Print the head of the chain of events, N:HASH: how many there are, and the hash of the last.

    Keep it where no one can change it who may change the database, on paper or in a file: `verify --head`
    shows later whether the chain is still the same up to there.
    """
    if out is not None and out.exists():
        raise BadParameter(f"{out} exists already; a head that was kept is not overwritten")
    with call.registry() as registry:
        kept = registry.head()
    text = str(kept)
    if out is not None:
        with out.open("x", encoding="utf-8") as opened:
            opened.write(f"{kept.model_dump_json(indent=2, exclude_none=True)}\n")
        text += f"\nkept in {out}"
    call.answer(kept.model_dump(mode="json", exclude_none=True), text)


@command("audit", "--out audit.jsonl", "--model demo > demo.jsonl", json=False)
def audit(
    call: Call,
    model: Annotated[
        str | None, option("MODEL", "Of this model alone; its events then do not follow each other.")
    ] = None,
    out: Out = None,
) -> None:
    """Export the chain of events, one event a line, in JSON, to be checked without dermfed.

    Each line contains all that was recorded, the hash of the event before, and its own. Keep the last
    hash where no one can change it who may change the database: it shows later that nothing was changed or
    removed.
    """
    from registry.audit import event_line

    with call.registry() as registry:
        events = registry.audit(model)
    text = b"".join(event_line(facts) for facts in events)
    if out is None:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    out.write_bytes(text)
    last = f", the last of hash {events[-1]['hash']}" if events else ""
    typer.echo(f"{len(events)} events in {shown(str(out))}{last}")


@command("gc", "--dry-run", "", "--older-than 7d --json", signs=True)
def gc(
    call: Call,
    dry_run: Annotated[bool, flag("List them and remove nothing.", "--dry-run")] = False,
    older_than: Annotated[str, option("AGE", "Spare what is younger, such as 90m, 24h or 7d.")] = "24h",
) -> None:
    """Remove objects from the store that no version, signature or event refers to.

    Also what killed processes left half-written. A process that adds puts its objects first, so what is
    younger than a day is spared. History records how many objects and bytes were removed. A store that is
    another registry's is refused.
    """
    age = _age(older_than)
    with call.registry() as registry:
        collection = registry.collect(older_than=age, dry_run=dry_run)
    call.answer({**as_data(collection), "bytes": collection.bytes}, _collected(collection))


def _age(text: str) -> timedelta:
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    if (parts := re.fullmatch(r"([0-9]{1,6})([smhd])", text)) is None:
        raise InvalidName(
            f"--older-than {text!r} is no age; give a whole number and a unit (s, m, h or d), such as 24h"
        )
    return timedelta(**{units[parts[2]]: int(parts[1])})


def _collected(collection: "Collected") -> str:
    if not collection.files:
        return "nothing to remove"
    done = "removed" if collection.removed else "would be removed; nothing was"
    rows = [
        [file.name, f"{file.size:,}", moment(file.written), "object" if file.digest else "unfinished"]
        for file in collection.files
    ]
    count = len(collection.files)
    total = f"{count:,} file{'s' if count > 1 else ''}, {collection.bytes:,} bytes: {done}"
    return f"{columns(('file', 'bytes', 'written', 'what'), rows)}\n{total}"


@command(
    "sign",
    "demo 1 2 3 4 --key release.key",
    "demo 5 --key release.key --certificate release.pem --json",
)
def sign(
    call: Call,
    model: Model,
    numbers: Numbers,
    key: Annotated[Path, option("FILE", "The private key, of an elliptic curve, in PEM.")],
    certificate: Annotated[
        Path | None, option("FILE", "Its certificate in PEM, to go with the signature.")
    ] = None,
) -> None:
    """Sign versions with a private key.

    The signature is over the digests of both files of each version; it is kept in the store and recorded in
    history. What the key has signed before keeps its signature. A key's password is read from
    DERMFED_KEY_PASSWORD. Make a key with `openssl ecparam -name prime256v1 -genkey -noout -out release.key`,
    and what others trust with `openssl pkey -in release.key -pubout -out release.pub`.
    """
    from registry.signing_keys import read_signer

    signer = read_signer(key, certificate, key_password())
    with call.registry() as registry:
        signatures = registry.sign(model, numbers, signer)
    rows = [[one.model, str(one.number), moment(one.created), one.identity, one.object] for one in signatures]
    call.answer(as_data(signatures), columns(("model", "version", "signed", "by", "object"), rows))


@command("export", "demo --out release.dermfed", "demo --alias staging --out release.dermfed --json")
def export(
    call: Call,
    model: Model,
    out: Annotated[Path, option("FILE", "Write to this file.")],
    alias: Annotated[str, option("ALIAS", "The alias that points to the release.")] = PRODUCTION,
    with_reasons: Annotated[
        bool, flag("Include reasons; they are free text and may name people.", "--with-reasons")
    ] = False,
) -> None:
    """Write the release of an alias into one file: its bundles, signatures, gate report and history.

    History goes without the names of users and machines.

    The same release gives the same bytes. The digest that is printed covers all that is in the file: send it
    to the recipient by another way than the file.
    """
    with call.registry() as registry:
        exported = registry.export_release(model, alias, out, with_reasons=with_reasons)
    text = (
        f"{shown(str(exported.path))}: release {exported.release} of {model} ({alias}), versions "
        f"{', '.join(map(str, exported.versions))}, {exported.bytes:,} bytes\n{exported.digest}"
    )
    call.answer(as_data(exported), text)


@command(
    "import",
    "release.dermfed",
    "release.dermfed --to staging --trust vendor.pub",
    "release.dermfed --to staging --to production --reason 'from the vendor, by courier' --json",
    signs=True,
)
def import_(
    call: Call,
    file: Annotated[Path, argument("FILE", "A file that `export` wrote.")],
    to: Annotated[
        list[str] | None, option("ALIAS", "Promote it to this alias; may be given again.", "--to")
    ] = None,
    reason: Reason = None,
    trust: _Trusted = None,
    allow_unsigned: Annotated[
        bool, flag("Take versions without a signature that --trust names.", "--allow-unsigned")
    ] = False,
) -> None:
    """Add the release in a file, checked byte by byte; without --to nothing is promoted.

    A bundle that is there keeps its version. With --trust each version needs a valid signature by a key
    named there, unless --allow-unsigned; without it no signature is kept. With --to the release goes through
    the gates; if one refuses, the versions are added all the same.
    """
    with call.registry() as registry:
        done = registry.import_release(
            file, to=to or (), reason=reason, trust=trust_in(trust), allow_unsigned=allow_unsigned
        )
    lines = [
        version_table(
            done.versions, state=["added" if one in done.new else "was there" for one in done.versions]
        ),
        *(shown(f"signature of version {one.number}: kept, of {one.identity}") for one in done.signatures),
        *(shown(f"left out: {one}") for one in done.left_out),
        *(shown(f"note: {one}") for one in done.warnings),
        *(event_lines(event) for event in done.promoted),
        done.digest,
    ]
    call.answer(as_data(done), "\n".join(lines))
