"""Code in the documentation: a block is of its language, our commands take what they are typed with."""

import ast
import json
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import typer
import yaml

from dermfed.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
READERS = {
    "yaml": lambda block: list(yaml.safe_load_all(block)),
    "json": lambda block: read_json(block.strip()),
    "toml": tomllib.loads,
    "python": ast.parse,
}
USAGE_ERROR = typer.BadParameter.__base__  # typer hands on this one alone
STARTS = re.compile(r"(?:dermfed-(\w+)|python training/run\.py)\s")


def read_json(text):
    """One value, or several below one another."""
    while text:
        _, end = json.JSONDecoder().raw_decode(text)
        text = text[end:].lstrip()


def blocks(*languages):
    """Every fenced block in these languages: page and first line, language, and what it holds."""
    for page in PAGES:
        text = page.read_text()
        for found in FENCED.finditer(text):
            if found[1] in languages:
                line = text.count("\n", 0, found.start()) + 1
                yield pytest.param(
                    found[1], found[2], id=f"{page.relative_to(ROOT).as_posix()}:{line}-{found[1]}"
                )


def commands_of(block):
    """The commands of ours in a block of a shell, each as words."""
    for line in re.sub(r"\\\n\s*", "", block).splitlines():
        if not STARTS.match(f"{line.strip()} "):
            continue
        for command in re.split(r";|\|\||\||>", line.split(" #")[0]):
            words = shlex.split(command)
            if words and STARTS.match(f"{' '.join(words)} "):
                yield words


def refused(words):
    """What our command says to be wrong with the options that it is typed with; nothing where all is well."""
    name, *rest = words if words[0] != "python" else ("dermfed-train", *words[2:])
    module = import_module(COMMANDS[name.removeprefix("dermfed-")])
    if name == "dermfed-train" and rest[:1] == ["encoders"]:
        return ""  # an app of its own, which takes one file
    if name == "dermfed-train" and rest[:1] == ["init"]:
        module, rest = import_module("clients.new_job"), rest[1:]
    command = typer.main.get_command(module.app)
    while getattr(command, "commands", None):
        if rest[0] not in command.commands:
            return f"there is no `{rest[0]}`"
        command, rest = command.commands[rest[0]], rest[1:]
    context = command.context_class(command)
    try:
        _, left, _ = command.make_parser(context).parse_args(list(rest))
    except USAGE_ERROR as error:
        return str(error)
    return f"nothing takes {left}" if left else ""


@pytest.mark.parametrize(("language", "block"), [*blocks(*READERS)])
def test_a_block_is_of_its_language(language, block):
    READERS[language](block)


@pytest.mark.parametrize(("language", "block"), [*blocks("", "sh", "bash")])
def test_our_commands_take_what_they_are_typed_with(language, block):
    found = {shlex.join(words): refused(words) for words in commands_of(block)}
    assert not {typed: said for typed, said in found.items() if said}


@pytest.mark.parametrize(
    "typed",
    [
        "dermfed-data chek manifest.csv",
        "dermfed-train job.yaml --resum",
        "dermfed-train init manifest.csv --ask malignancy",
        "dermfed-serve --port",
        "dermfed-registry gates shows demo",
        "dermfed-data describe one.csv two.csv",
        "python training/run.py job.yaml --folder runs",
    ],
)
def test_a_wrong_command_would_be_seen(typed):
    (words,) = commands_of(f"{typed}\n")
    assert refused(words)
