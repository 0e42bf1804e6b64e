"""The job file's text, with comments, from `job.yaml.j2`."""

from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from registry.bundle.text import on_one_line


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
