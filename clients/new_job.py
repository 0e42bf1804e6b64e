"""`dermfed-train init`: from a manifest of one's own to a commented job, by five questions.

The job file's text, with comments, from `job.yaml.j2`.
"""

import json
import re
import sys
from collections.abc import Mapping
from os.path import relpath
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import ValidationError

from clients import new_job_questions as questions
from clients.data.errors import ClientDataError
from clients.data.output import write_atomically
from registry.bundle.text import on_one_line, printable
from training.config import describe


def job_text(values: dict[str, Any]) -> str:
    """The text of a job file from the values that its template names."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # YAML, whose values go through `flow`
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"flow": flow, "block": block}
    return environment.get_template("job.yaml.j2").render(values)


class _OneLine(yaml.SafeDumper):
    """Writes a text that has more than one line, or what a terminal obeys, with escapes on one."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if on_one_line(text) == text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_OneLine.add_representer(str, _text)


def flow(value: Any) -> str:
    """A value as YAML in one line, whatever its texts hold."""
    text: str = yaml.dump(
        plain(value),
        Dumper=_OneLine,
        default_flow_style=True,
        sort_keys=False,
        allow_unicode=True,
        width=float("inf"),
    )
    return text.removesuffix("\n").removesuffix("\n...")


def block(value: Any) -> str:
    """A list of stages as YAML in lines, as they stand under `stages`."""
    text: str = yaml.safe_dump(
        plain(value), default_flow_style=None, sort_keys=False, allow_unicode=True, width=float("inf")
    )
    return "\n".join(f"  {line}" for line in text.splitlines())


def plain(value: Any) -> Any:
    """Mappings and sequences as `yaml` writes them."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


SEED = 0
REFUSED = 1
EXAMPLES = """Examples:

\b
  dermfed-train init manifest.csv
  dermfed-train init manifest.csv --yes --on processor --out job.yaml
  dermfed-train init north.csv south.csv --asks malignancy --map wart=benign
  dermfed-train init manifest.csv --clients column:clinic --subgroups column:sex
"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def init(
    manifests: Annotated[list[Path], typer.Argument(metavar="MANIFEST.csv...", help="Your manifests.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The job file to write.")] = Path("job.yaml"),
    name: Annotated[str | None, typer.Option(help="The job's name; by default after the manifest.")] = None,
    asks: Annotated[
        str | None, typer.Option(metavar="malignancy|diagnoses", help="What is asked of the model.")
    ] = None,
    mapped: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="LABEL=CLASS", help="What a label counts as; null leaves its pictures out."
        ),
    ] = None,
    clients: Annotated[
        str | None, typer.Option(metavar="files|column:NAME|parts:N", help="Who the clients are.")
    ] = None,
    subgroups: Annotated[
        str | None,
        typer.Option(metavar="SCALE|column:NAME|none", help="Of which subgroups figures are told apart."),
    ] = None,
    unit: Annotated[str | None, typer.Option(metavar="picture|lesion", help="What is diagnosed.")] = None,
    on: Annotated[str | None, typer.Option(metavar="try-out|processor|gpu", help="Where it runs.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing, and take what is proposed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")] = False,
) -> None:
    """Write a commented job for your own manifests, from five questions that the manifests mostly answer.

    Asks in a terminal; elsewhere, and with --yes, it takes what is proposed. No picture is opened, and
    nothing is trained: --check says who would hold what, and what stands in the way. Exit codes: 0 done,
    1 refused (the file is there already), 2 wrong use or bad input.
    """
    if out.exists() and not force:
        there = f"{on_one_line(str(out))} is there already"
        print(f"{there}; add --force to replace it, or name another with --out", file=sys.stderr)
        raise typer.Exit(REFUSED)
    options = {"asks": asks, "clients": clients, "subgroups": subgroups, "unit": unit, "on": on}
    proposals = yes or as_json or not sys.stdin.isatty()
    if proposals and not yes and None in options.values():
        print("no terminal to ask in: what is not given is taken as proposed", file=sys.stderr)
    taken: dict[str, str] = {}  # each answer, and what it means
    ask = _asker(options, taken, proposals=proposals)
    read = questions.read_manifests(manifests)
    settled = [
        questions.ask_labels(read, questions.read_given(mapped or []), ask),
        questions.ask_clients(read, ask),
        questions.ask_subgroups(read, ask),
        questions.ask_unit(read, ask),
        questions.ask_machine(ask),
    ]
    values = {name: value for each in settled for name, value in each.values.items()}
    out.absolute().parent.mkdir(parents=True, exist_ok=True)  # paths in the job start there
    text = job_text({**values, **_about(read, values, out, name or _name_of(manifests[0]))})
    _check(text)
    try:
        with write_atomically(out.absolute()) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ClientDataError(f"cannot write {out}: {error}; name another file with --out") from error
    order = (0, 2, 3, 1, 4)  # labels and subgroups before clients
    warnings = [warning for place in order for warning in settled[place].warnings]
    if as_json:
        answer = {"job": str(out), "answers": list(taken), "classes": values["classes"], "warnings": warnings}
        print(json.dumps(answer, indent=2))
        return
    file = on_one_line(str(out))
    print(f"{file}:")
    for answered, meaning in taken.items():
        print(f"  {on_one_line(answered):<24} {on_one_line(meaning)}".rstrip())
    for warning in warnings:
        print(f"! {printable(warning)}")
    print(f"next: dermfed-train --check {file}, then dermfed-train {file}")


def _about(read: questions.Manifests, values: Mapping[str, Any], out: Path, name: str) -> dict[str, Any]:
    """What a job's template names besides what the answers make of it."""
    folder = out.absolute().parent
    places = [Path(relpath(path.absolute(), folder)).as_posix() for path in read.paths]
    facts = values["cases"]["facts"] if values["cases"] and values["subgroups"] else []
    bands = {"age": {"column": "age", "bands": [40, 65]}, "sex": {"column": "sex"}}
    calibrate = dict(values["calibrate"])
    if not values["both_kinds"]:
        calibrate.pop(questions.SENSITIVITY, None)
    return {
        "manifests": on_one_line(" ".join(quote(str(path)) for path in read.paths)),
        "file": on_one_line(quote(str(out))),
        "name": name,
        "seed": SEED,
        "manifest": places[0] if len(places) == 1 else places,
        "has_splits": any(row.split for row in read.rows),
        "min_count": questions.FEWEST_PATIENTS,
        "enough": questions.ENOUGH_PATIENTS,
        "intersections": [bands[fact] for fact in facts if fact in bands],
        "calibrate": calibrate,
    }


def _asker(options: Mapping[str, str | None], taken: dict[str, str], *, proposals: bool) -> questions.Ask:
    """What answers questions: the options, then the proposals, or else the person at the terminal."""

    def ask(question: questions.Question) -> str:
        answer = options.get(question.name)
        if answer is None:
            answer = question.proposal if proposals else _prompt(question)
        if question.name in options:
            taken[f"--{question.name} {answer}"] = question.choices.get(answer, "")
        return answer

    return ask


def _prompt(question: questions.Question) -> str:
    """Ask at the terminal; the questions go to standard error."""
    typer.echo(f"\n{printable(question.text)}", err=True)
    for fact in question.facts:
        typer.echo(f"  {on_one_line(fact)}", err=True)
    for choice, meaning in question.choices.items():
        typer.echo(f"  {on_one_line(choice):<14} {on_one_line(meaning)}", err=True)
    answer: str = typer.prompt(f"--{question.name}", default=question.proposal or None, err=True)
    return answer.strip()


def _name_of(manifest: Path) -> str:
    """A name for a job: the manifest's, or its folder's if every manifest is called so."""
    path = manifest.absolute()
    word = path.parent.name if path.stem == "manifest" else path.stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", word).strip("-._") or "job"


def _check(text: str) -> None:
    """Read the job as `--check` would, but for its pictures.

    Raises:
        JobError: the job would be refused.
    """
    from training.errors import JobError
    from training.jobs.job import Job  # torch, which takes seconds

    plain = yaml.safe_load(text)
    try:
        Job.model_validate(plain)
    except ValidationError as error:
        raise JobError("these answers make no job:\n" + "\n".join(describe(error, plain))) from error
