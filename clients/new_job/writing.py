"""The job file's text, with comments, from `job.yaml.j2`."""

from functools import cache
from os.path import relpath
from pathlib import Path
from shlex import quote
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from clients.data.taxonomy import describe
from clients.new_job.answers import Answers
from clients.new_job.machines import SENSITIVITY, Work
from clients.new_job.manifests import Manifests
from clients.new_job.tones import ENOUGH_PATIENTS, FEWEST_PATIENTS
from registry.bundle.text import on_one_line

SEED = 0


def job_text(manifests: Manifests, answers: Answers, work: Work, out: Path, name: str) -> str:
    """The text of a job file.

    Args:
        manifests: what they hold.
        answers: to the five questions.
        work: what suits the machine.
        out: where the file will be, from whose folder paths start.
        name: of the job.
    """
    folder = out.absolute().parent
    places = [Path(relpath(path.absolute(), folder)).as_posix() for path in manifests.paths]
    labels, parties, clients = answers.labels, answers.parties, answers.parties.clients
    classes = sorted({of for of in labels.classes.values() if of is not None})
    calibrate = dict(work.calibrate)
    if not labels.both_kinds:
        calibrate.pop(SENSITIVITY, None)
    told: dict[str, Any] = {
        "manifests": on_one_line(" ".join(quote(str(path)) for path in manifests.paths)),
        "file": on_one_line(quote(str(out))),
        "name": name,
        "seed": SEED,
        "min_count": FEWEST_PATIENTS,
        "manifest": places[0] if len(places) == 1 else places,
        "where": {clients.column: list(parties.values)} if parties.without else {},
        "without": parties.without,
        "label_map": labels.label_map,
        "counts": labels.counts,
        "unknown": labels.unknown,
        "of_unknown_kind": [on_one_line(code) for code in classes if describe(code).malignancy == "unknown"],
        "cases": answers.cases.model_dump(mode="json") if answers.cases else None,
        "subgroups": answers.subgroups.model_dump(mode="json") if answers.subgroups else None,
        "tones": answers.tones,
        "enough": ENOUGH_PATIENTS,
        "clients": clients.model_dump(mode="json", exclude_none=True),
        "values": {on_one_line(value): count for value, count in parties.values.items()},
        "has_splits": any(row.split for row in manifests.rows),
        "split": work.split.model_dump(mode="json"),
        "work": work,
        "intersections": intersections(answers),
        "calibrate": calibrate,
    }
    return _environment().get_template("job.yaml.j2").render(told)


def intersections(answers: Answers) -> list[dict[str, Any]]:
    """The facts of a case by which metrics are also divided."""
    facts = answers.cases.facts if answers.cases and answers.subgroups else ()
    of: dict[str, dict[str, Any]] = {"age": {"column": "age", "bands": [40, 65]}, "sex": {"column": "sex"}}
    return [of[name] for name in facts if isinstance(name, str) and name in of]


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


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # YAML, whose values go through `flow`
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"flow": flow, "block": block}
    return environment
