"""Facts about a case that a model may take beside its pictures, each of which may be missing.

A fact is a number within bounds or one of several values. In arrays it is a float: the number in its unit,
or the index of the value; NaN where it is not known. Age, sex and site have a vocabulary here; a job may name
other columns of its manifests with their bounds or values.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from registry.bundle.frozen import Frozen
from registry.bundle.nearest import nearest

UNKNOWN: Final = frozenset({"", "unknown", "na", "n/a", "nan", "none", "null"})
"""How "not known" is spelt."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]


class NumberFact(Frozen):
    """A number, such as age in years.

    Attributes:
        name: the fact's name.
        unit: what it is counted in.
        low, high: the bounds, both allowed.
    """

    kind: Literal["number"] = "number"
    name: Name
    unit: str = ""
    low: float
    high: float

    @model_validator(mode="after")
    def _bounds_that_rise(self) -> "NumberFact":
        if not self.low < self.high:
            raise ValueError(f"fact {self.name} has the bounds {self.low:g} to {self.high:g}; they rise")
        return self

    def read(self, text: str) -> float:
        """The number that a text stands for; NaN where it is not known.

        Raises:
            ValueError: it is no number, or out of bounds.
        """
        if text.strip().lower() in UNKNOWN:
            return math.nan
        try:
            number = float(text)
        except ValueError:
            raise ValueError(
                f"{self.name} {text.strip()!r} is no number; it is {self._allowed}, or empty"
            ) from None
        if not self.low <= number <= self.high:
            raise ValueError(f"{self.name} {text.strip()} is out of bounds; it is {self._allowed}, or empty")
        return number

    @property
    def _allowed(self) -> str:
        low, high = f"{self.low:g}", f"{self.high:g}"
        if self.unit:
            return f"a number from {low} to {high} {self.unit}"
        return f"a number from {low} to {high}"

    def write(self, value: float) -> str | None:
        """The text of a number; None for NaN."""
        return None if math.isnan(value) else f"{value:g}"


class CategoryFact(Frozen):
    """One of several values, such as the sex.

    Attributes:
        name: the fact's name.
        values: what it may be, in the order of their indices.
    """

    kind: Literal["category"] = "category"
    name: Name
    values: tuple[str, ...] = Field(min_length=2, max_length=50)

    @model_validator(mode="after")
    def _each_value_once(self) -> "CategoryFact":
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"fact {self.name} names a value twice: {', '.join(self.values)}")
        return self

    def read(self, text: str) -> float:
        """The index of the value that a text stands for; NaN where it is not known.

        Raises:
            ValueError: it is none of the values.
        """
        word = text.strip()
        if word.lower() in UNKNOWN:
            return math.nan
        word = word if word in self.values else canonical(self.name, word)
        if word not in self.values:
            raise ValueError(
                f"{self.name} {text.strip()!r} is none that is known; {nearest(word, list(self.values))}, or "
                "empty"
            )
        return float(self.values.index(word))

    def write(self, value: float) -> str | None:
        """The value of an index; None for NaN."""
        return None if math.isnan(value) else self.values[int(value)]


Fact = Annotated[NumberFact | CategoryFact, Field(discriminator="kind")]

AGE: Final = NumberFact(name="age", unit="years", low=0, high=120)
SEX: Final = CategoryFact(name="sex", values=("female", "male"))
SITE: Final = CategoryFact(
    name="site",
    values=(
        "head_neck",
        "trunk",
        "upper_extremity",
        "lower_extremity",
        "hand",
        "foot",
        "palms_soles",
        "oral_genital",
    ),
)
"""Where on the body: the list of the ISIC archive, with hands and feet as MILK10k has them."""

KNOWN: Final[Mapping[str, NumberFact | CategoryFact]] = {fact.name: fact for fact in (AGE, SEX, SITE)}
"""The facts that have a vocabulary of their own."""

_SITES = {
    "head_neck": (
        "head/neck",
        "head neck",
        "head_neck_face",
        "head",
        "neck",
        "face",
        "scalp",
        "ear",
        "nose",
        "lip",
    ),
    "trunk": (
        "torso",
        "anterior torso",
        "posterior torso",
        "lateral torso",
        "back",
        "abdomen",
        "chest",
        "buttocks",
    ),
    "upper_extremity": ("upper extremity", "upper limbs", "arm", "forearm"),
    "lower_extremity": ("lower extremity", "lower limbs", "leg", "thigh"),
    "hand": ("hands",),
    "foot": ("feet",),
    "palms_soles": ("palms/soles", "acral"),
    "oral_genital": ("oral/genital", "genital", "genital areas"),
}
_OTHER_SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "sex": {"f": "female", "m": "male", "woman": "female", "man": "male"},
    "site": {spelling: site for site, spellings in _SITES.items() for spelling in spellings},
}


def canonical(name: str, word: str) -> str:
    """The vocabulary's spelling of a value of the fact `name`; as it was where there is none."""
    lower = word.lower()
    known = KNOWN.get(name)
    if isinstance(known, CategoryFact) and lower in known.values:
        return lower
    return _OTHER_SPELLINGS.get(name, {}).get(lower, word)
