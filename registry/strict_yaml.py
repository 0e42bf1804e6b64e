"""Reads YAML that people write: plain data alone, no key twice, no surprises, every error with its line.

PyYAML takes the last of two equal keys without a word. Job files, gate sets and federation files are read
here, so that a setting is never lost because another one of its name stands further down.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

UNREADABLE = (ValueError, LookupError, ArithmeticError)  # of a value, such as the 31st of June
SAID_BETTER = {
    "found character '\\t' that cannot start any token": "a tab; indent with spaces",
    "but found another document": "another document begins; a file holds one",
}


class YamlError(ValueError):
    """A text is not YAML, or has a key twice; the text says in which line."""


def load_yaml(text: str) -> Any:
    """The plain data in a YAML text; None for an empty one.

    Raises:
        YamlError: it is not YAML, or has a key twice.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        raise YamlError(_described(error)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(
            f"line {line}: the character {chr(int(error.character))!r} may not be there"
        ) from error
    except RecursionError as error:
        raise YamlError("values are inside one another too deeply to be read") from error


def _described(error: yaml.MarkedYAMLError) -> str:
    """What is wrong, behind where it is; where it began, if that is another line."""
    if isinstance(error, _TwiceError):
        return str(error.problem)
    problem = SAID_BETTER.get(str(error.problem), str(error.problem))
    mark, begun = error.problem_mark or error.context_mark, error.context_mark
    where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    if mark is None or begun is None or begun.line == mark.line or problem != error.problem:
        return f"{where}{problem}"
    return f"{where}{problem} ({error.context} that begins in line {begun.line + 1})"


_SURPRISING = {
    "bool": (re.compile(r"yes|no|on|off", re.IGNORECASE), "true or false"),
    "int": (re.compile(r"[-+]?0[0-7_]+|.*:.*"), "another number"),  # 010 is 8, 12:30 is 750
    "float": (re.compile(r".*:.*"), "another number"),
}


def _refuse_surprising(node: yaml.Node) -> None:
    """Refuse an unquoted scalar that YAML 1.1 takes for another value than it looks like.

    Raises:
        ConstructorError: it is one, such as `no` (false), `010` (8) or `12:30` (750).
    """
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if not isinstance(node, yaml.ScalarNode) or node.style or kind not in _SURPRISING:
        return
    pattern, taken = _SURPRISING[kind]
    if pattern.fullmatch(node.value):
        problem = f"`{node.value}` is {taken} to YAML; put text in quotes, or write the value itself"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


class _TwiceError(yaml.MarkedYAMLError):
    """A key stands twice in one mapping."""


class _Loader(yaml.SafeLoader):
    """Refuses a key twice, and says of a value that cannot be made in which line it stands."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._checked = set[int]()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Puts what `<<` brings in into a mapping, whose own keys are each there once as it is written."""
        before: dict[Hashable, yaml.Node] = {}
        for key, _ in [] if id(node) in self._checked else node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            name = self.construct_object(key)
            if name in before:
                lines = sorted({before[name].start_mark.line + 1, key.start_mark.line + 1})
                where = f"lines {lines[0]} and {lines[1]}" if len(lines) > 1 else f"line {lines[0]}"
                problem = f"{where}: the key {key.value!r} is there twice; keep one of them"
                raise _TwiceError(None, None, problem, key.start_mark)
            before[name] = key
        self._checked.add(id(node))  # what is merged into it may be there twice: its own overrides it
        super().flatten_mapping(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node; refused where people mean another than YAML makes of it."""
        _refuse_surprising(node)
        try:
            return super().construct_object(node, deep)
        except UNREADABLE as error:
            written = getattr(node, "value", "")
            raise yaml.constructor.ConstructorError(
                None, None, f"{written!r} cannot be read ({error}); text stands in quotes", node.start_mark
            ) from error
