"""Reads YAML that people write: plain data alone, no key twice, and every error with its line.

PyYAML takes the last of two equal keys without a word. Job files, gate sets and federation files are read
here, so that a setting is never lost because another one of its name stands further down.
"""

from collections.abc import Hashable
from contextlib import suppress
from typing import Any

import yaml

DEEPEST = 100  # collections inside one another
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
    with suppress(yaml.YAMLError, *UNREADABLE):  # is read again, for what is wrong and where
        if _is_flat(text):
            return _load(text, yaml.CSafeLoader)
    try:
        return _load(text, _ExplainingLoader)
    except yaml.MarkedYAMLError as error:
        raise YamlError(_told(error)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(
            f"line {line}: the character {chr(int(error.character))!r} may not be there"
        ) from error
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise YamlError("values are inside one another too deeply to be read") from error


def _told(error: yaml.MarkedYAMLError) -> str:
    """What is wrong, behind where it is; where it began, if that is another line."""
    if isinstance(error, _TwiceError):
        return str(error.problem)
    problem = SAID_BETTER.get(str(error.problem), str(error.problem))
    mark, begun = error.problem_mark or error.context_mark, error.context_mark
    where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    if mark is None or begun is None or begun.line == mark.line or problem != error.problem:
        return f"{where}{problem}"
    return f"{where}{problem} ({error.context} that begins in line {begun.line + 1})"


class _TwiceError(yaml.MarkedYAMLError):
    """A key stands twice in one mapping."""


def _is_flat(text: str) -> bool:
    """Whether libyaml, some four times as fast and less clear about what is wrong, may read it.

    It builds what is nested by recursion of its own, which nothing stops.
    """
    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            return False
    return True


def _load(text: str, kind: type[yaml.SafeLoader] | type[yaml.CSafeLoader]) -> Any:
    loader = kind(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_twice(node, loader)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_twice(root: yaml.Node, loader: yaml.SafeLoader | yaml.CSafeLoader) -> None:
    """Refuses a mapping with a key twice as it is written: what `<<` brings in may be overridden.

    Raises:
        _TwiceError: naming the lines.
    """
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or isinstance(node, yaml.ScalarNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
            continue
        before: dict[Hashable, yaml.Node] = {}
        for key, value in node.value:
            waiting += [key, value]
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            name = loader.construct_object(key)
            if name in before:
                lines = sorted({before[name].start_mark.line + 1, key.start_mark.line + 1})
                where = f"lines {lines[0]} and {lines[1]}" if len(lines) > 1 else f"line {lines[0]}"
                told = f"{where}: the key {key.value!r} is there twice; keep one of them"
                raise _TwiceError(None, None, told, key.start_mark)
            before[name] = key


class _ExplainingLoader(yaml.SafeLoader):
    """Says of a value that cannot be made, such as the 31st of June, in which line it stands."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node."""
        try:
            return super().construct_object(node, deep)
        except UNREADABLE as error:
            written = getattr(node, "value", "")
            raise yaml.constructor.ConstructorError(
                None, None, f"{written!r} cannot be read ({error}); text stands in quotes", node.start_mark
            ) from error
