"""Cases: the kinds of picture and the facts that a model may take of a lesion, and patterns of what is given.

A fact is a number within bounds or one of several values, and each may be missing. In arrays it is a float:
the number in its unit, or the index of the value; NaN where it is not known. Age, sex and site have a
vocabulary here; a job may name other columns of its manifests with their bounds or values.

A model has a number of slots for pictures. `kinds` `(slots,)` int64 says what is in each: -1 nothing, 0 a
picture of unknown kind, from 1 on the kinds that the model was trained on, in their order. `context`
`(facts,)` float32 has a number for each fact.

How sure a model may be depends on what it was given, so that temperature and thresholds are of a `Pattern`.
Two pictures of one kind are one pattern with one, and facts count as one thing: none is given, some are, or
all. Which ones some are does not matter: calibration draws them.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from registry.bundle.frozen import Frozen
from registry.bundle.text import nearest

Kind = Literal["close-up", "dermoscopic", "overview"]

KINDS: Final[tuple[Kind, ...]] = ("close-up", "dermoscopic", "overview")
"""A close-up shows the lesion by itself, a dermoscopic picture its structure, an overview where it is."""

UNKNOWN_KIND: Final = "unknown"
"""A picture of which nobody said what kind it is."""

_OTHER_SPELLINGS: dict[str, Kind] = {
    "clinical": "close-up",
    "clinical: close-up": "close-up",
    "close up": "close-up",
    "closeup": "close-up",
    "close_up": "close-up",
    "macroscopic": "close-up",
    "dermoscopy": "dermoscopic",
    "dermatoscopic": "dermoscopic",
    "derm": "dermoscopic",
    "clinical: overview": "overview",
}


def read_kind(text: str) -> Kind | None:
    """The kind of a picture as this module spells it; None where nothing or `unknown` is said.

    Raises:
        ValueError: no such kind.
    """
    word = text.strip().lower()
    if word in ("", UNKNOWN_KIND):
        return None
    if word in (spellings := {kind: kind for kind in KINDS} | _OTHER_SPELLINGS):
        return spellings[word]
    raise ValueError(f"there is no kind of picture {text.strip()!r}; {nearest(word, list(KINDS))}, or empty")


UNKNOWN: Final = frozenset({"", "unknown", "na", "n/a", "nan", "none", "null"})
"""How "not known" is spelt."""


def refuse_repeated(what: str, names: Sequence[str]) -> None:
    """Refuses names of which one is there twice.

    Raises:
        ValueError: naming those that are.
    """
    if twice := sorted({name for name in names if list(names).count(name) > 1}):
        raise ValueError(f"{what} {', '.join(twice)} is there twice; name each once")


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
        """The number that a text represents; NaN where it is not known.

        Raises:
            ValueError: it is no number, or out of bounds.
        """
        if text.strip().lower() in UNKNOWN:
            return math.nan
        if self.unit == "years" and (said := _DICOM_AGE.fullmatch(text.strip())):
            text = f"{int(said[1]) / _IN_A_YEAR[said[2]]:.3f}"
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
        return f"a number from {self.low:g} to {self.high:g} {self.unit}".rstrip()

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
        refuse_repeated(f"value of {self.name}:", self.values)
        return self

    def read(self, text: str) -> float:
        """The index of the value that a text represents; NaN where it is not known.

        Raises:
            ValueError: it is none of the values.
        """
        word = text.strip()
        word = word if word in self.values else canonical(self.name, word)
        if word.lower() in UNKNOWN or (self.name == "sex" and word.lower() in {*_OTHER_SEX} - {*self.values}):
            return math.nan
        if word not in self.values:
            raise ValueError(
                f"{self.name} {text.strip()!r} is none that is known; {nearest(word, list(self.values))}, or "
                "empty"
            )
        return float(self.values.index(word))

    def write(self, value: float) -> str | None:
        """The value of an index; None for NaN."""
        return None if math.isnan(value) else self.values[int(value)]


# An age as DICOM has it (PS3.5, 6.2: AS), `018M`: days, weeks, months or years.
_DICOM_AGE: Final = re.compile(r"(\d{3})([DWMY])")
_IN_A_YEAR: Final = {"D": 365.25, "W": 365.25 / 7, "M": 12.0, "Y": 1.0}
_OTHER_SEX: Final = ("o", "other")  # as DICOM has it: models know two, and are told nothing


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
_OTHER_FACT_SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "sex": {"f": "female", "m": "male", "woman": "female", "man": "male"},
    "site": {spelling: site for site, spellings in _SITES.items() for spelling in spellings},
}


def canonical(name: str, word: str) -> str:
    """The vocabulary's spelling of a value of the fact `name`; as it was where there is none."""
    lower = word.lower()
    known = KNOWN.get(name)
    if isinstance(known, CategoryFact) and lower in known.values:
        return lower
    return _OTHER_FACT_SPELLINGS.get(name, {}).get(lower, word)


EMPTY: Final = -1
"""The kind of a slot without a picture."""

UNSAID: Final = 0
"""The kind of a picture of which nobody said what it is."""


class CaseInput(Frozen):
    """Which pictures and facts a model takes.

    Attributes:
        slots: how many pictures a case may have.
        kinds: those that the model was trained on.
        facts: what it takes besides.
    """

    slots: int = Field(ge=1, le=8)
    kinds: tuple[Kind, ...] = ()
    facts: tuple[Fact, ...] = ()

    @model_validator(mode="after")
    def _each_once(self) -> "CaseInput":
        refuse_repeated("kind", self.kinds)
        refuse_repeated("fact", self.fact_names)
        return self

    @property
    def fact_names(self) -> tuple[str, ...]:
        """The facts' names, in order."""
        return tuple(fact.name for fact in self.facts)

    def kind_numbers(self, kinds: Sequence[Kind | None]) -> NDArray[np.int64]:
        """The numbers of these pictures' kinds `(slots,)`, empty slots last; None is an unknown kind.

        Raises:
            ValueError: more pictures than slots, none, or a kind that the model was not trained on.
        """
        if not 1 <= len(kinds) <= self.slots:
            raise ValueError(
                f"{len(kinds)} pictures were given; this model takes 1 to {self.slots} of a lesion"
            )
        for kind in kinds:
            if kind is not None and kind not in self.kinds:
                known = ", ".join(self.kinds) or "no kinds"
                raise ValueError(
                    f"this model was not trained on {kind} pictures; it knows {known}. Leave the kind out to "
                    "have it judged anyway"
                )
        numbers = np.full(self.slots, EMPTY, dtype=np.int64)
        for place, kind in enumerate(kinds):
            numbers[place] = UNSAID if kind is None else 1 + self.kinds.index(kind)
        return numbers

    def context_numbers(self, facts: Mapping[str, str]) -> NDArray[np.float32]:
        """The numbers of these facts `(facts,)`, NaN where one is not given.

        Args:
            facts: texts by the facts' names.

        Raises:
            ValueError: a fact that the model does not take, or a value that it does not know.
        """
        if unknown := sorted(set(facts) - set(self.fact_names)):
            known = ", ".join(self.fact_names) or "no facts"
            raise ValueError(
                f"this model does not take {', '.join(unknown)}; it takes {known}. Leave the others out"
            )
        numbers = [fact.read(facts.get(fact.name, "")) for fact in self.facts]
        return np.array(numbers, dtype=np.float32)


Facts = Literal["none", "some", "all"]
FACTS: Final[tuple[Facts, ...]] = ("none", "some", "all")
CONTEXT: Final = "context"
SOME_CONTEXT: Final = "some context"
"""In a pattern's name, all facts and some of them."""


class Pattern(Frozen):
    """What is given.

    Attributes:
        kinds: of the pictures, each once, in the order of `KINDS`; `unknown` before them.
        facts: how many of the facts.
    """

    kinds: tuple[Kind | Literal["unknown"], ...] = Field(min_length=1)
    facts: Facts = "none"

    @model_validator(mode="before")
    @classmethod
    def _in_order(cls, given: object) -> object:
        if isinstance(given, dict) and isinstance(given.get("kinds"), list | tuple):
            order = (UNKNOWN_KIND, *KINDS)
            kinds = dict.fromkeys(given["kinds"])
            known = [kind for kind in order if kind in kinds]
            return {**given, "kinds": (*known, *(kind for kind in kinds if kind not in order))}
        return given

    @property
    def name(self) -> str:
        """As figures call it: `close-up+dermoscopic+context`."""
        beside = {"none": (), "some": (SOME_CONTEXT,), "all": (CONTEXT,)}[self.facts]
        return "+".join((*self.kinds, *beside))

    @property
    def as_text(self) -> str:
        """As a sentence calls it: `close-up and dermoscopic pictures with all facts`."""
        kinds = " and ".join(self.kinds)
        given = {"none": "without facts", "some": "with some facts", "all": "with all facts"}
        return f"{kinds} pictures {given[self.facts]}"

    def within(self, case: CaseInput) -> bool:
        """Whether a model that takes this can be given the pattern."""
        known = all(kind == UNKNOWN_KIND or kind in case.kinds for kind in self.kinds)
        return known and len(self.kinds) <= case.slots and (self.facts == "none" or bool(case.facts))


def read_pattern(name: str) -> Pattern:
    """The pattern of a name, `close-up+dermoscopic+context`.

    Raises:
        ValueError: saying what is no kind.
    """
    *pictures, last = [part.strip() for part in name.split("+")]
    facts = {SOME_CONTEXT: "some", CONTEXT: "all"}.get(last, "none")
    kinds = pictures if facts != "none" else [*pictures, last]
    known = (UNKNOWN_KIND, *KINDS)
    if not kinds or any(kind not in known for kind in kinds):
        raise ValueError(
            f"{name!r} is no pattern; join kinds of pictures ({', '.join(known)}) by +, and add {CONTEXT} or "
            f"`{SOME_CONTEXT}` for all facts or some: close-up+dermoscopic+{CONTEXT}"
        )
    return Pattern.model_validate({"kinds": kinds, "facts": facts})


def pattern_of(kinds: NDArray[np.int64], context: NDArray[np.float32], case: CaseInput) -> Pattern:
    """The pattern of a case's numbers, `(slots,)` and `(facts,)`; see `CaseInput`."""
    present = sorted({int(number) for number in kinds if number >= 0})
    names = [UNKNOWN_KIND if number == UNSAID else case.kinds[number - 1] for number in present]
    known = ~np.isnan(context)
    facts = "all" if known.all() else "some"
    return Pattern.model_validate({"kinds": names, "facts": facts if known.any() else "none"})


def number_of_patterns(case: CaseInput) -> int:
    """How many patterns there are, counted as `pattern_number` does."""
    return (1 << (1 + len(case.kinds))) * len(FACTS)


def pattern_number(pattern: Pattern, case: CaseInput) -> int:
    """The number of a pattern among all of a model: a bit for each kind, unknown first, times the facts'."""
    names: Sequence[str] = (UNKNOWN_KIND, *case.kinds)
    bits = sum(1 << names.index(kind) for kind in pattern.kinds)
    return bits + (1 << len(names)) * FACTS.index(pattern.facts)


def usual_patterns(case: CaseInput) -> tuple[Pattern, ...]:
    """One picture of unknown kind, and every set of the model's kinds that its slots hold.

    Each without facts, with some and with all.
    """
    sets: Iterable[tuple[str, ...]] = (
        tuple(kind for place, kind in enumerate(case.kinds) if bits >> place & 1)
        for bits in range(1, 2 ** len(case.kinds))
    )
    kinds = [(UNKNOWN_KIND,), *(chosen for chosen in sets if len(chosen) <= case.slots)]
    facts = {0: FACTS[:1], 1: ("none", "all")}.get(len(case.facts), FACTS)
    return tuple(
        Pattern.model_validate({"kinds": chosen, "facts": given}) for chosen in kinds for given in facts
    )


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class GivenCase:
    """A case without its pixels, as the numbers that a model of cases takes.

    Attributes:
        case: what the model takes.
        kinds: of the pictures, `(pictures,)` int64; see `registry.bundle.cases`.
        context: the facts, `(facts,)` float32; NaN where one is not known.
    """

    case: CaseInput
    kinds: NDArray[np.int64]
    context: NDArray[np.float32] = field(repr=False)  # of a patient, and in no log

    @property
    def pattern(self) -> Pattern:
        """What is given, as calibration tells cases apart."""
        return pattern_of(self.kinds, self.context, self.case)

    @property
    def pictures(self) -> tuple[str, ...]:
        """The kind of each picture, `unknown` if not declared."""
        return tuple(UNKNOWN_KIND if one == UNSAID else self.case.kinds[one - 1] for one in self.kinds)

    @property
    def facts(self) -> dict[str, str]:
        """The facts that are known, as they were understood."""
        written = {
            fact.name: fact.write(float(value))
            for fact, value in zip(self.case.facts, self.context, strict=True)
        }
        return {name: text for name, text in written.items() if text is not None}

    def to_json(self, *, promised: bool) -> dict[str, Any]:
        """What was used, as JSON of the service's interface; `promised` is whether a coverage is for it."""
        return {
            "pictures": list(self.pictures),
            "facts": self.facts,
            "pattern": self.pattern.name,
            "promised": promised,
        }


def read_given(
    case: CaseInput | None, kinds: Sequence[Kind | None], facts: Mapping[str, str]
) -> GivenCase | None:
    """What is given, as the numbers that a model takes; None for a model of single pictures.

    Args:
        case: what the model takes; None for a model of single pictures.
        kinds: of the pictures, in their order; None if not declared.
        facts: texts by the facts' names.

    Raises:
        ValueError: saying what of it the model does not take.
    """
    if case is not None:
        numbers = case.kind_numbers(kinds)
        return GivenCase(case, numbers[numbers != EMPTY], case.context_numbers(facts))
    if len(kinds) == 1 and kinds[0] is None and not facts:
        return None
    named = ", ".join(kind or UNKNOWN_KIND for kind in kinds)
    raise ValueError(
        f"this model takes one picture, of no kind in particular, and no facts; it was given {named} "
        f"pictures and {', '.join(sorted(facts)) or 'no facts'}. Give one picture alone, without its kind, "
        "or ask a model that takes cases"
    )
