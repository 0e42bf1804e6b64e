"""Compare the commands, options and arguments of the tree with `surface.yaml`.

`python -m tests.contract.surface` prints the differences; its exit code is 1 where there are any.
"""

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Self

import yaml

LIST = Path(__file__).with_name("surface.yaml")
NAMES = ("train", "data", "registry", "outcomes", "serve", "diagnose", "node")
OPTION = re.compile(r"^(?:-\w, ?)?(--[a-z][a-z-]*)")
COMMAND = re.compile(r"^([a-z][a-z-]*)(?:  |$)")
SECTION = re.compile(r"^(?:╭─ )?(Commands|Options|Arguments|Examples|Exit codes)\b")

Ask = Callable[..., tuple[int, str, str]]
"""Calls a console script: `ask("registry", "list", "--help")` gives exit code, output and errors."""


def _indented(line: str) -> int:
    """Count the blanks that a line of a help begins with, within its box."""
    inner = line.lstrip("│")
    return len(inner) - len(inner.lstrip())


@dataclass(frozen=True)
class Help:
    """What the help of one command names."""

    parameters: frozenset[str]
    commands: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a help text, with or without boxes."""
        usage = re.search(r"Usage: (.*?)(?:\n\s*\n|$)", text, re.DOTALL)
        if usage is None:
            raise ValueError(f"no usage line in {text[:200]!r}")
        arguments = re.findall(r"\b[A-Z][A-Z_]*(?:\.\w+)*", usage[1])
        parameters = {each for each in arguments if each not in {"OPTIONS", "COMMAND", "ARGS"}}
        commands, section = [], ""
        for line in text.splitlines():
            if named := SECTION.match(line.strip()):
                section = named[1]
            inner = line.strip("│* ")
            if section == "Options" and (option := OPTION.match(inner)):
                parameters.add(option[1])
            if section == "Commands" and (command := COMMAND.match(inner)) and _indented(line) <= 2:
                commands.append(command[1])
        return cls(frozenset(parameters), tuple(commands))


@dataclass(frozen=True)
class Listed:
    """What the list says of one command.

    Attributes:
        kept: the options and arguments that its help names.
        removed: those that its help may name.
    """

    kept: frozenset[str]
    removed: frozenset[str]

    def differences(self, name: str, tree: Mapping[str, Help]) -> Iterator[str]:
        """Compare with the help of this command."""
        found = tree.get(name)
        if found is None:
            yield f"{name}: the list keeps this command, and there is none"
            return
        for each in sorted(self.kept - found.parameters):
            yield f"{name}: the list keeps {each}, and the help does not name it"
        for each in sorted(found.parameters - self.kept - self.removed):
            yield f"{name}: the list lacks {each}"


def read_list() -> tuple[dict[str, Listed], tuple[str, ...]]:
    """Read the list: what each kept command takes, and the commands that are removed."""
    content = yaml.safe_load(LIST.read_text())
    removed = tuple(content.pop("removed"))
    kept = {
        name: Listed(frozenset(given["kept"]), frozenset(given.get("removed", ())))
        for name, given in content.items()
    }
    return kept, removed


def read_tree(ask: Ask, hidden: Collection[str] = ()) -> dict[str, Help]:
    """Read the help of every command that another one's help names, and of those `hidden` that exist."""
    found: dict[str, Help] = {}
    queue = [*NAMES, *hidden]
    while queue:
        name = queue.pop(0)
        if name in found:
            continue
        code, out, _ = ask(*name.split(), "--help")
        if code == 0:
            found[name] = Help.parse(out)
            queue += [f"{name} {each}" for each in found[name].commands]
    return found


def unlisted(tree: Collection[str]) -> Iterator[str]:
    """Name the commands of the tree that the list lacks."""
    kept, removed = read_list()
    for name in tree:
        if name not in kept and not any(f"{name} ".startswith(f"{each} ") for each in removed):
            yield f"{name}: the list lacks this command"


def call(name: str, *arguments: str) -> tuple[int, str, str]:
    """Call a console script in this process."""
    from dermfed import commands

    out, err = StringIO(), StringIO()
    given = sys.argv
    sys.argv = [f"dermfed-{name}", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            getattr(commands, name)()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = given
    return code, out.getvalue(), err.getvalue()


def main() -> int:
    """Print the differences."""
    os.environ["COLUMNS"] = "200"
    kept, _ = read_list()
    tree = read_tree(call, kept)
    found = [line for name, listed in kept.items() for line in listed.differences(name, tree)]
    found += unlisted(tree)
    print("\n".join(found) or "The list and the tree are the same.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
