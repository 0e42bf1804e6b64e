"""`dermfed-registry fetch`: the bundle of a version as a folder, as it was added."""

from pathlib import Path
from typing import Annotated

import typer

from registry.bundle.folder import MANIFEST_FILE, MODEL_FILE
from registry.cli.arguments import AsJson, Model, Number
from registry.cli.open import open_registry
from registry.cli.output import answer, as_data
from registry.rendering.table import lines_of

EXAMPLES = ("demo 5 --out ./version-5",)


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
