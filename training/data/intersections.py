"""The columns of a manifest whose intersections with subgroups are judged, such as sex and age."""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from pydantic import Field, field_validator

from registry.bundle.metrics.summary import UNKNOWN
from training.config import FrozenConfig


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
        """The value that a cell of the manifest stands for."""
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
