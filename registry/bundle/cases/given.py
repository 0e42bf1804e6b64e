"""What is given of one lesion beside its pixels, checked against what a model takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.cases.case_input import EMPTY, UNSAID, CaseInput
from registry.bundle.cases.kinds import UNKNOWN_KIND, Kind
from registry.bundle.cases.patterns import Pattern, pattern_of


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class GivenCase:
    """A case without its pixels, as the numbers that a model of cases takes.

    Attributes:
        case: what the model takes.
        kinds: of the pictures, `(pictures,)` int64; see `registry.bundle.cases.case_input`.
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
        """The kind of each picture, `unknown` where nobody said it."""
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
        kinds: of the pictures, in their order; None where nobody said it.
        facts: texts by the facts' names.

    Raises:
        ValueError: saying what of it the model does not take.
    """
    if case is not None:
        numbers = case.kind_numbers(kinds)
        return GivenCase(case, numbers[numbers != EMPTY], case.context_numbers(facts))
    if len(kinds) == 1 and kinds[0] is None and not facts:
        return None
    named = [kind or UNKNOWN_KIND for kind in kinds]
    raise ValueError(
        (
            "this model takes one picture, of no kind in particular, and no facts; it was given {kinds} "
            "pictures and {facts}. Give one picture alone, without its kind, or ask a model that takes cases"
        ).format(kinds=", ".join(named), facts=", ".join(sorted(facts)) or "no facts")
    )
