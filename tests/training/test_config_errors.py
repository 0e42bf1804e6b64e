"""What is said of a wrong job names keys of the job, and nothing of how we check it."""

import re
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, Field, ValidationError

from clients.federation.federation_file import Federation
from registry.bundle.plugins import PartTable
from training.config import FrozenConfig, describe
from training.jobs.job import Job

WRONG = [3, 2.5, "no such thing", [], [3], [[]], [{"a": 1}], {}, {"a": 1}, {"a": [3]}, {"a": {"b": {"c": 1}}}]


def models(annotation: Any, seen: dict[type[BaseModel], None]) -> None:
    """Every model of settings that a type leads to, those of others' parts included."""
    if isinstance(annotation, PartTable):
        for part in annotation.members.values():
            models(part, seen)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in seen:
            seen[annotation] = None
            for field in annotation.model_fields.values():
                for each in (field.annotation, *field.metadata):
                    models(each, seen)
    else:
        for each in (*get_args(annotation), *getattr(annotation, "__metadata__", ())):
            models(each, seen)


def has_union(annotation: Any) -> bool:
    """Whether a type is one of several things, or holds such a one; none at all is no alternative."""
    if get_origin(annotation) in (Union, types.UnionType):
        return len([each for each in get_args(annotation) if each is not type(None)]) > 1 or any(
            has_union(each) for each in get_args(annotation)
        )
    return any(has_union(each) for each in get_args(annotation))


def reached() -> dict[type[BaseModel], None]:
    found: dict[type[BaseModel], None] = {}
    for root in (Job, Federation):
        models(root, found)
    return found


MODELS = reached()
UNIONS = [
    (model, name)
    for model in MODELS
    for name, field in model.model_fields.items()
    if has_union(field.annotation)
]


def steps(value: Any) -> Iterator[str]:
    """Every key and number in a value."""
    inner = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for step, each in inner:
        yield str(step)
        yield from steps(each)


def problems(model: type[BaseModel], raw: Any) -> list[str]:
    try:
        model.model_validate(raw)
    except ValidationError as error:
        return describe(error, raw)
    return []


def test_the_unions_of_a_job_are_found():
    names = {name for _, name in UNIONS}
    assert names >= {"manifest", "where", "label_map", "subgroups", "facts", "sampling"}
    assert len(MODELS) > 80


@pytest.mark.parametrize(("model", "name"), UNIONS, ids=lambda each: getattr(each, "__name__", str(each)))
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_whatever_stands_where_one_of_several_things_may_is_told_by_its_place(model, name, value):
    raw = {name: value}
    for line in problems(model, raw):
        place, _, message = line.strip().partition(": ")
        fields = {field for each in MODELS for field in each.model_fields}
        assert set(place.split(".")) <= {*steps(raw), *fields, "job"}, line
        if place.split(".")[0] == name:
            assert not re.search(r"\b[A-Z]\w+(Config|Subgroups\w*|Fact)\b|function-|\w\[", line), line
            assert message


def test_every_union_has_a_value_that_is_refused():
    told = {(model, name) for model, name in UNIONS for value in WRONG if problems(model, {name: value})}
    assert told == set(UNIONS)


class Curve(FrozenConfig):
    kind: Literal["curve"] = "curve"
    bend: int


class Line(FrozenConfig):
    kind: Literal["line"] = "line"
    slope: float


class Note(FrozenConfig):
    url: str


class Drawing(FrozenConfig):
    note: Note | None = None
    either: Curve | Line | None = None
    told: Annotated[Curve | Line, Field(discriminator="kind")] | None = None
    many: tuple[str | tuple[int, ...], ...] = ()
    deep: Mapping[str, Literal["a"] | Mapping[str, int] | tuple[Curve | str, ...]] = {}
    size: float | Literal["auto"] = "auto"


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        ({"either": {"bend": "x"}}, ["either.bend: Input should be a valid integer, unable to parse"]),
        ({"either": {"slope": "x"}}, ["either.slope: Input should be a valid number, unable to parse"]),
        ({"either": {"kind": "curve"}}, ["either.bend: Field required"]),
        ({"either": {"kind": "line"}}, ["either.slope: Field required"]),
        ({"note": {}}, ["note.url: Field required"]),
        ({"either": 3}, ["either: Input should be a mapping; found 3"]),
        ({"told": {"kind": "line", "slope": "x"}}, ["told.slope: Input should be a valid number"]),
        ({"told": {"kind": "line"}}, ["told.slope: Field required"]),
        ({"many": ["a", 3]}, ["many.1: Input should be a valid string or a list; found 3"]),
        ({"many": ["a", ["b", 3]]}, ["many.1.0: Input should be a valid integer, unable to parse"]),
        ({"deep": {"str": "b"}}, ["deep.str: Input should be 'a'; found 'b'"]),
        ({"deep": {"Line": {"c": "d"}}}, ["deep.Line.c: Input should be a valid integer"]),
        ({"deep": {"k": [{"bend": "x"}]}}, ["deep.k.0.bend: Input should be a valid integer"]),
        ({"deep": {"k": [3]}}, ["deep.k.0: Input should be a mapping or a valid string; found 3"]),
        ({"deep": {"k": 3}}, ["deep.k: Input should be 'a' or a mapping or a list; found 3"]),
        ({"size": "big"}, ["size: Input should be a valid number or 'auto'; found 'big'"]),
        (
            {"either": {"bend": "x"}, "many": [3]},
            [
                "either.bend: Input should be a valid integer",
                "many.0: Input should be a valid string or a list",
            ],
        ),
    ],
)
def test_of_several_alternatives_the_one_that_was_meant_is_told(raw, lines):
    told = problems(Drawing, raw)
    assert len(told) == len(lines), told
    assert [line.strip().startswith(start) for line, start in zip(told, lines, strict=True)] == [True] * len(
        lines
    ), told
