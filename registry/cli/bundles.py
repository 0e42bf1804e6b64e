"""`dermfed-registry card`, `fetch`, `sign`, `export` and `import`: showing versions, and passing them on."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE, read_bundle
from registry.bundle.manifest import BundleManifest
from registry.bundle.text import shown
from registry.cli.common import (
    AsJson,
    Key,
    Model,
    Number,
    Numbers,
    answer,
    as_data,
    open_registry,
    open_signing,
)
from registry.environment import key_password
from registry.errors import InvalidName
from registry.names import check_name
from registry.records import PRODUCTION, moment
from registry.signing.attestation import trust_in
from registry.signing.envelope import TRUSTED_KEYS
from registry.views.card import Entry, release_card
from registry.views.card_page import card_page
from registry.views.records import event_lines, version_table
from registry.views.tables import columns, lines_of

if TYPE_CHECKING:
    from registry.archive.import_release import Imported
    from registry.records import Version
    from registry.registry import Registry

CARD_EXAMPLES = (
    "demo > card.html",
    "demo --alias staging --out card.html",
    "demo --version 3 --json",
    "./bundles/global --out card.html",
)


def card(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="The model's name, or a bundle's folder such as ./bundles/global."
        ),
    ],
    number: Annotated[
        int | None, typer.Option("--version", metavar="N", help="Of this version alone.")
    ] = None,
    alias: Annotated[
        str | None,
        typer.Option(metavar="ALIAS", help=f"Of the release of this alias; {PRODUCTION} by default."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the model card: what a model is for, how it serves each subgroup, and what is unknown.

    A page that needs nothing else, or JSON. Of a release, or of a bundle that is in no registry yet: what
    cannot be a model's name is a folder, so write ./global for the folder global.
    """
    if number is not None and alias is not None:
        raise typer.BadParameter("give --version or --alias, not both")
    if not _is_folder(model):
        with open_registry(context) as registry:
            shown = registered_card(registry, model, number, alias)
    elif number is not None or alias is not None:
        raise typer.BadParameter(f"{model} is a folder; --version and --alias are of models in the registry")
    else:
        shown = release_card([Entry.of_bundle(read_bundle(Path(model)))])
    text = json.dumps(shown, indent=2) if as_json else card_page(shown)
    if out is None:
        typer.echo(text)
    else:
        out.write_text(f"{text}\n", encoding="utf-8")


def registered_card(
    registry: "Registry", model: str, number: int | None, alias: str | None
) -> dict[str, Any]:
    """The card of one version, or of the release that an alias points to.

    Raises:
        NotFound: there is no such model, version or alias.
        StoreError: a manifest is missing or was altered.
    """
    withdrawn = {one.number: one for one in registry.withdrawals(model)}
    alarms = [one for one in registry.alarms(model) if one.closed is None]

    def entry(version: "Version") -> Entry:
        own = [str(one) for one in alarms if one.version == version.number]
        return Entry.of(version, registry.manifest(version), withdrawn.get(version.number), own)

    if number is not None:
        return release_card([entry(registry.version(model, number))])
    alias = alias or PRODUCTION
    release = registry.require_release(model, alias)
    found, canary = registry.let_through(model, alias), registry.canaries(model).get(alias)
    return release_card(
        [entry(version) for version in release.versions],
        release=release,
        alias=alias,
        let_through="" if found is None else found.sentence,
        canary="" if canary is None else f"Beside it a canary answers {canary.title}: {canary.versions_told}",
    )


def _is_folder(model: str) -> bool:
    """Whether this can be no model's name, and so is a folder."""
    try:
        check_name("model", model)
    except InvalidName:
        return True
    return False


FETCH_EXAMPLES = ("demo 5 --out ./version-5",)


def fetch(
    context: typer.Context,
    model: Model,
    number: Number,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder that is not there yet.")],
    as_json: AsJson = False,
) -> None:
    """Write the bundle of a version into a folder, byte for byte as it was added.

    Both files are checked against their digests before. The same bundle again changes nothing. One that was
    withdrawn is written too, to find out what was wrong with it, and said to be.
    """
    with open_registry(context) as registry:
        version = registry.version(model, number)
        bundle = registry.fetch(model, number, out)
        withdrawn = next((str(one) for one in registry.withdrawals(model) if one.number == number), None)
    found = {
        **as_data(version),
        "folder": str(out),
        "files": {MANIFEST_FILE: bundle.digest, MODEL_FILE: bundle.manifest.file.sha256},
        "withdrawn": withdrawn,
    }
    lines = [
        f"version {number} of {model} ({version.subgroup.name}) is in {out}",
        *(f"  {name}  {digest}" for name, digest in found["files"].items()),
        *([] if withdrawn is None else [f"  {withdrawn}"]),
    ]
    answer(found, lines_of(lines), as_json)


EXAMPLES = (
    "demo 1 2 3 4 --key release.key",
    "demo 5 --key release.key --certificate release.pem --json",
)

Trusted = Annotated[
    list[Path] | None,
    typer.Option(
        "--trust",
        metavar="FILE",
        envvar=TRUSTED_KEYS,
        help="Public keys or certificates in PEM whose signatures count; may be given several times.",
    ),
]


def sign(
    context: typer.Context,
    model: Model,
    numbers: Numbers,
    key: Annotated[Path, typer.Option(metavar="FILE", help="The private key, of an elliptic curve, in PEM.")],
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its certificate in PEM, to go with the signature.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Vouch for versions with a private key.

    The signature is over the digests of both files of each version; it lies in the store, and history tells
    of it. What the key has signed before keeps its signature. A key's password is read from
    DERMFED_KEY_PASSWORD. Make a key with `openssl ecparam -name prime256v1 -genkey -noout -out release.key`,
    and what others trust with `openssl pkey -in release.key -pubout -out release.pub`.
    """
    from registry.signing.keys import read_signer

    signer = read_signer(key, certificate, key_password())
    with open_registry(context) as registry:
        signatures = registry.sign(model, numbers, signer)
    rows = [[one.model, str(one.number), moment(one.created), one.identity, one.object] for one in signatures]
    answer(as_data(signatures), columns(("model", "version", "signed", "by", "object"), rows), as_json)


EXPORT_EXAMPLES = ("demo --out release.dermfed", "demo --alias staging --out release.dermfed --json")
IMPORT_EXAMPLES = (
    "release.dermfed",
    "release.dermfed --to staging --trust vendor.pub",
    "release.dermfed --to staging --to production --reason 'from the vendor, by courier' --json",
)


def export_(
    context: typer.Context,
    model: Model,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write to this file.")],
    alias: Annotated[
        str, typer.Option(metavar="ALIAS", help="The alias that points to the release.")
    ] = PRODUCTION,
    with_reasons: Annotated[
        bool,
        typer.Option("--with-reasons", help="Tell reasons too; they are free text and may name people."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the release of an alias into one file: its bundles, signatures, gate report and history.

    History goes without the names of users and machines.

    The same release gives the same bytes. The digest that is printed stands for all that is in the file:
    tell it to whoever imports, by another way than the file goes.
    """
    with open_registry(context) as registry:
        exported = registry.export_release(model, alias, out, with_reasons=with_reasons)
    text = (
        f"{shown(str(exported.path))}: release {exported.release} of {model} ({alias}), versions "
        f"{', '.join(map(str, exported.versions))}, {exported.bytes:,} bytes\n{exported.digest}"
    )
    answer(as_data(exported), text, as_json)


def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `export` wrote.")],
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="ALIAS", help="Promote it to this alias; may be given again."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why it is promoted; history keeps it.")
    ] = None,
    trust: Trusted = None,
    key: Key = None,
    allow_unsigned: Annotated[
        bool,
        typer.Option("--allow-unsigned", help="Take versions that nobody has signed whom --trust names."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add the release in a file, checked byte by byte; without --to nothing is promoted.

    A bundle that is there keeps its version. With --trust each version needs a valid signature of somebody
    named there, unless --allow-unsigned; without it no signature is kept. With --to the release goes through
    the gates; if one refuses, the versions are added all the same.
    """
    with open_signing(context, key) as registry:
        imported = registry.import_release(
            file, to=to or (), reason=reason, trust=trust_in(trust), allow_unsigned=allow_unsigned
        )
    answer(as_data(imported), import_page(imported), as_json)


def import_page(imported: "Imported") -> str:
    """What came of an import: the versions, the signatures and what was promoted."""
    states = ["added" if version in imported.new else "was there" for version in imported.versions]
    return "\n".join(
        [
            version_table(imported.versions, state=states),
            *(
                shown(f"signature of version {one.number}: kept, of {one.identity}")
                for one in imported.signatures
            ),
            *(shown(f"left out: {one}") for one in imported.left_out),
            *(shown(f"note: {one}") for one in imported.warnings),
            *(event_lines(event) for event in imported.promoted),
            imported.digest,
        ]
    )


def readable(manifest: BundleManifest) -> dict[str, Any]:
    """The manifest in JSON without histograms, packed matrices and fields that this model has no use for."""
    packed: dict[str, Any] = {"reference": True, "out_of_distribution": {"means": True, "whitening": True}}
    record = manifest.model_dump(mode="json", exclude=packed)
    unused = {name for name in ("working_point", "attestation") if record[name] is None}
    if manifest.case is None:
        unused |= {"case", "patterns"}
    return {name: value for name, value in record.items() if name not in unused}
