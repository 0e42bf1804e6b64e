"""Texts that carry more than their letters stay whole in every copy, also in `asdict` and another process."""

import ast
import copy
import pickle
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from clients.data.output import Note

ROOMS = ("clients", "dermfed", "personalization", "registry", "serving", "training")
ROOT = Path(__file__).parents[1]

# What copies of these are made with is what `__new__` takes, which by default is the bare value alone.
BARE = {"bool", "bytes", "complex", "float", "frozenset", "int", "str", "tuple"}

SAMPLES = {
    "Note": Note("export.csv: column 'Bild' is read", "a column is read"),
}


class Broken(str):
    """The control: made of two texts, and copied with one."""

    __slots__ = ("plain",)

    def __new__(cls, text: str, plain: str):
        made = super().__new__(cls, text)
        made.plain = plain
        return made


@dataclass(frozen=True)
class Report:
    """Something that `asdict` copies."""

    notes: tuple[str, ...]


WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "asdict": lambda text: asdict(Report((text,)))["notes"][0],
    **{
        f"pickle {protocol}": lambda text, protocol=protocol: pickle.loads(pickle.dumps(text, protocol))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


def made_of_more(source: str) -> set[str]:
    """The classes that extend a bare value and are made in a way of their own."""
    return {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and BARE & {base.id for base in node.bases if isinstance(base, ast.Name)}
        and any(isinstance(one, ast.FunctionDef) and one.name == "__new__" for one in node.body)
    }


def held(text: Any) -> dict[str, Any]:
    """What a text carries besides its letters."""
    slots = {name: getattr(text, name) for name in getattr(type(text), "__slots__", ())}
    return {**slots, **getattr(text, "__dict__", {})}


def test_every_such_class_is_tried_here():
    found = {
        name
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if "def __new__" in (source := path.read_text())
        for name in made_of_more(source)
    }
    assert found == set(SAMPLES)
    assert made_of_more(Path(__file__).read_text()) == {"Broken"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SAMPLES)
def test_a_copy_is_whole(name, way):
    sample = SAMPLES[name]
    copied = WAYS[way](sample)
    assert type(copied) is type(sample)
    assert copied == sample
    assert held(copied) == held(sample) != {}


@pytest.mark.parametrize("way", WAYS)
def test_the_control_is_not_copied(way):
    with pytest.raises(TypeError):
        WAYS[way](Broken("a", "b"))
