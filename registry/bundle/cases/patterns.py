"""Patterns: what a case has of the pictures and facts that a model takes.

How sure a model may be depends on what it was given, so that temperature and thresholds are of a pattern. Two
pictures of one kind are one pattern with one, and facts count as one thing: none is given, some are, or all.
Which ones some are does not matter: calibration draws them.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from registry.bundle.cases.case_input import UNSAID, CaseInput
from registry.bundle.cases.kinds import KINDS, UNKNOWN_KIND, Kind
from registry.bundle.frozen import Frozen

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
        kinds = " and ".join(list(self.kinds))
        return {
            "none": f"{kinds} pictures without facts",
            "some": f"{kinds} pictures with some facts",
            "all": f"{kinds} pictures with all facts",
        }[self.facts]

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
    return Pattern.model_validate({"kinds": names, "facts": facts_given(~np.isnan(context))})


def facts_given(known: NDArray[np.bool_]) -> Facts:
    """How many of the facts `(facts,)` are known; none where the model takes none."""
    if not known.any():
        return "none"
    return "all" if known.all() else "some"


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
