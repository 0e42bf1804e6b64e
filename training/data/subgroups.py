"""The settings of a job's `data.subgroups`: by skin tone, declared on one scale or several, or by a column.

A tone is never converted: the user says which values of which scale make a group, and all other tones are
undeclared.
"""

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Annotated, Any, Final

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from registry.bundle.labels import GLOBAL, UNDECLARED
from registry.bundle.metrics.patient import ALL
from registry.bundle.metrics.summary import UNKNOWN
from registry.bundle.skin_tone import SCALES, allowed_tones, read_scale, read_tone
from training.config import FrozenConfig

TAKEN: Final = (GLOBAL, UNDECLARED, ALL)
"""What figures call the model for everybody, the pictures of no subgroup, and all of them."""

EXAMPLE: Final = "groups: {dark: {fitzpatrick: [5, 6], milk10k: [0, 1, 2]}}"


def _as_text(value: Any) -> Any:
    """A tone as text: YAML reads `5` as a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


ToneValue = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | int)]
"""A value of a skin tone scale; a number stands for its text."""


ScaleName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(SCALES)})]
"""The name of a skin tone scale, checked by `read_scale`."""


class ToneGroups(FrozenConfig):
    """Subgroups by declared skin tone: for each group, which values of which scales."""

    @model_validator(mode="before")
    @classmethod
    def _by_tone_alone(cls, value: Any) -> Any:
        if isinstance(value, dict) and "column" in value:
            raise ValueError("subgroups are by skin tone (`groups`) or by a `column`; remove one of the two")
        return value

    @property
    def tones(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """The values of each group, as they were written, by its name and their scale."""
        raise NotImplementedError

    @property
    def claimed(self) -> tuple[tuple[str, str], ...]:
        """Every scale and tone that a group names, as the scale spells it, in the order of groups."""
        return tuple(
            (scale, read_tone(value, scale))
            for by_scale in self.tones.values()
            for scale, values in by_scale.items()
            for value in values
        )


class ToneSubgroups(ToneGroups):
    """Subgroups by declared skin tone: values of one scale to group names."""

    scale: ScaleName
    groups: Mapping[str, tuple[ToneValue, ...]]

    @property
    def tones(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """The values of each group, by its name and the one scale."""
        return {name: {read_scale(self.scale): values} for name, values in self.groups.items()}

    @field_validator("groups", mode="before")
    @classmethod
    def _no_scales_inside(cls, groups: Any) -> Any:
        inside = _names_of(groups, dict)
        if inside:
            raise ValueError(
                f"group {inside[0]} names scales of its own, which does not go with `scale`; remove `scale`, "
                f"and write every group with its scales: {EXAMPLE}"
            )
        return groups

    @field_validator("scale")
    @classmethod
    def _known_scale(cls, scale: str) -> str:
        _refuse_unknown_scale(scale)
        return scale

    @field_validator("groups")
    @classmethod
    def _groups_of_tones(
        cls, groups: Mapping[str, tuple[str, ...]], info: ValidationInfo
    ) -> Mapping[str, tuple[str, ...]]:
        if "scale" in info.data:
            scale = read_scale(info.data["scale"])
            _refuse_unfit({name: {scale: values} for name, values in groups.items()})
        return groups


class ToneSubgroupsOverScales(ToneGroups):
    """Subgroups by declared skin tone: for each group, the values of every scale that make it."""

    groups: Mapping[str, Mapping[ScaleName, tuple[ToneValue, ...]]]

    @property
    def tones(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """The values of each group, by its name and their scale."""
        return self.groups

    @field_validator("groups", mode="before")
    @classmethod
    def _scales_inside(cls, groups: Any) -> Any:
        plain = _names_of(groups, list | tuple)
        if plain:
            raise ValueError(
                f"group {plain[0]} is a plain list, which does not say of which scale its values are; "
                f"write `{plain[0]}: {{fitzpatrick: [...]}}`, or name the one scale of all groups beside "
                f"them, `scale: fitzpatrick`; scales are {', '.join(SCALES)}"
            )
        return groups

    @field_validator("groups")
    @classmethod
    def _groups_of_tones(
        cls, groups: Mapping[str, Mapping[str, tuple[str, ...]]]
    ) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        spelt: dict[str, dict[str, tuple[str, ...]]] = {}
        for name, by_scale in groups.items():
            for scale, values in by_scale.items():
                _refuse_unknown_scale(scale, name)
                if read_scale(scale) in spelt.setdefault(name, {}):
                    raise ValueError(
                        f"group {name} names the scale {read_scale(scale)} twice; once is enough"
                    )
                spelt[name][read_scale(scale)] = values
            spelt.setdefault(name, {})
        _refuse_unfit(spelt)
        return {
            name: {
                scale: tuple(read_tone(value, scale) for value in values) for scale, values in each.items()
            }
            for name, each in spelt.items()
        }


class ColumnSubgroups(FrozenConfig):
    """Subgroups by any other column of the manifest: reported, never routed."""

    column: str


def _meant(value: Any) -> str | None:
    """Which way of naming subgroups a user meant, by the keys that are there; None where it is no mapping."""
    if isinstance(value, ToneSubgroups):
        return _ONE_SCALE
    if isinstance(value, ToneSubgroupsOverScales):
        return _SCALES
    if isinstance(value, ColumnSubgroups):
        return _COLUMN
    if not isinstance(value, dict):
        return None
    keys = [str(key) for key in value]
    if _any_close(keys, "column") and not _any_close(keys, "groups"):
        return _COLUMN
    beside = [key for key in keys if key != "groups"]
    plain = bool(_names_of(value.get("groups"), list | tuple))
    return _ONE_SCALE if _any_close(beside, "scale") or (beside and plain) else _SCALES


def _any_close(keys: list[str], name: str) -> bool:
    return bool(difflib.get_close_matches(name, keys, n=1))


# Tags as no key of a job is written, so that places in messages can leave them out.
_ONE_SCALE, _SCALES, _COLUMN = "tones[one scale]", "tones[scales]", "column[...]"

Subgroups = Annotated[
    Annotated[ToneSubgroups, Tag(_ONE_SCALE)]
    | Annotated[ToneSubgroupsOverScales, Tag(_SCALES)]
    | Annotated[ColumnSubgroups, Tag(_COLUMN)],
    Discriminator(
        _meant,
        custom_error_type="subgroups",
        custom_error_message=(
            f"write subgroups by skin tone, `{{{EXAMPLE}}}` or "
            "`{scale: fitzpatrick, groups: {dark: [5, 6]}}`, or by a column, `{column: clinic}`"
        ),
    ),
]
"""The `subgroups` of a job."""


def _names_of(groups: Any, kind: Any) -> list[str]:
    """The groups whose value is of a kind."""
    return (
        [str(name) for name, each in groups.items() if isinstance(each, kind)]
        if isinstance(groups, dict)
        else []
    )


def _refuse_unknown_scale(scale: str, group: str | None = None) -> None:
    try:
        read_scale(scale)
    except ValueError as error:
        where = "" if group is None else f"group {group}: "
        raise ValueError(f"{where}{error}") from error


def _refuse_unfit(tones: Mapping[str, Mapping[str, tuple[str, ...]]]) -> None:
    """Refuse groups without values, values that are not on their scale, and values of two groups."""
    if not tones:
        raise ValueError(f"there is no group; name some, e.g. {EXAMPLE}, or remove `subgroups`")
    owners: dict[tuple[str, str], str] = {}
    for name, by_scale in tones.items():
        if name in TAKEN:
            raise ValueError(
                f"a group may not be called {name}, which figures call something else; rename it"
            )
        if not by_scale:
            raise ValueError(f"group {name} is empty; name its values, e.g. {EXAMPLE}, or remove it")
        for scale, values in by_scale.items():
            if not values:
                raise ValueError(
                    f"group {name} names no value of the scale {scale}; name some of "
                    f"{allowed_tones(scale)}, or remove it"
                )
            twice = [value for value, count in Counter(values).items() if count > 1]
            if twice:
                raise ValueError(f"group {name} names {scale} {', '.join(twice)} twice; once is enough")
            for value in values:
                tone = _tone(value, scale, name)
                owner = owners.setdefault((scale, tone), name)
                if owner != name:
                    raise ValueError(
                        f"skin tone {tone} (scale {scale}) is in two groups, {owner} and {name}; each value "
                        "belongs to one: remove it from the other"
                    )


def _tone(value: str, scale: str, group: str) -> str:
    try:
        return read_tone(value, scale)
    except ValueError as error:
        raise ValueError(
            f"group {group}: skin tone {value!r} is not on the scale {scale}; allowed: "
            f"{allowed_tones(scale)}; correct it, or name the scale that it is on"
        ) from error


class IntersectionConfig(FrozenConfig):
    """One column.

    Attributes:
        column: of the manifest; its cells are the values, and an empty one is unknown.
        bands: whole numbers, rising, that cut a column of numbers: [40, 60] gives "under 40", "40 to 59" and
            "60 and over". A cell that is no number is unknown.
    """

    column: str = Field(min_length=1)
    bands: tuple[int, ...] = ()

    @field_validator("bands")
    @classmethod
    def _rising(cls, bands: tuple[int, ...]) -> tuple[int, ...]:
        if any(low >= high for low, high in pairwise(bands)):
            raise ValueError(f"bands rise, each number once; these are {', '.join(map(str, bands))}")
        return bands

    @property
    def values(self) -> tuple[str, ...]:
        """The values as far as they are known before any picture is: those of bands, and none without."""
        if not self.bands:
            return ()
        between = (
            str(low) if high == low + 1 else f"{low} to {high - 1}" for low, high in pairwise(self.bands)
        )
        return (f"under {self.bands[0]}", *between, f"{self.bands[-1]} and over", UNKNOWN)

    def value(self, cell: str) -> str:
        """The value that a cell of the manifest represents."""
        if not self.bands:
            return cell or UNKNOWN
        try:
            number = float(cell)
        except ValueError:
            return UNKNOWN
        if not isfinite(number):
            return UNKNOWN
        return self.values[sum(number >= band for band in self.bands)]


def each_column_once(intersections: Sequence[IntersectionConfig]) -> None:
    """Refuse a column that is named twice.

    Raises:
        ValueError: names it.
    """
    columns = [each.column for each in intersections]
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise ValueError(f"the column {', '.join(twice)} is there more than once; name each once")
