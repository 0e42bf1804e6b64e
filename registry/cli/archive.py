"""`dermfed-registry export` and `import`: a release as one file, for hospitals without a network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from registry.archive.import_release import Imported

from registry.bundle.plain_text import shown
from registry.cli.arguments import AsJson, Model
from registry.cli.open import Key, open_registry, open_signing
from registry.cli.output import answer, as_data
from registry.cli.sign import Trusted
from registry.records import PRODUCTION
from registry.rendering.records import event_lines, version_table
from registry.signing.trust import trust_in

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
            version_table(imported.versions, states),
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
