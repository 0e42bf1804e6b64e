"""Reads YAML that people write: plain data alone, no key twice, and every error with its line.

PyYAML takes the last of two equal keys without a word. Job files, gate sets and federation files are read
here, so that a setting is never lost because another one of its name stands further down.
"""

from collections.abc import Hashable
from typing import Any

import yaml

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
        return yaml.load(text, _StrictLoader)
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


class _StrictLoader(yaml.SafeLoader):
    """Plain data alone, and no key twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping as it is written: what `<<` brings in comes later, and may be overridden."""
        node = super().compose_mapping_node(anchor)
        before: dict[Hashable, yaml.Node] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            value = self.construct_object(key)
            if value in before:
                lines = sorted({before[value].start_mark.line + 1, key.start_mark.line + 1})
                where = f"lines {lines[0]} and {lines[1]}" if len(lines) > 1 else f"line {lines[0]}"
                raise _TwiceError(
                    None,
                    None,
                    f"{where}: the key {key.value!r} is there twice; keep one of them",
                    key.start_mark,
                )
            before[value] = key
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node; one that cannot be made, such as the 31st of June, is an error of its line."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, ArithmeticError) as error:
            written = getattr(node, "value", "")
            raise yaml.constructor.ConstructorError(
                None, None, f"{written!r} cannot be read ({error}); text stands in quotes", node.start_mark
            ) from error
