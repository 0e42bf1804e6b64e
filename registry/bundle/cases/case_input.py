"""What a model takes of a case, and a case as the numbers that it sees.

A model has a number of slots for pictures. `kinds` `(slots,)` int64 says what is in each: -1 nothing, 0 a
picture of unknown kind, from 1 on the kinds that the model was trained on, in their order. `context`
`(facts,)` float32 has a number for each fact, see `registry.bundle.cases.facts`; NaN where it is not known.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from registry.bundle.cases.facts import Fact
from registry.bundle.cases.kinds import Kind
from registry.bundle.frozen import Frozen

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
        for what, names in (("kind", self.kinds), ("fact", self.fact_names)):
            if twice := sorted({name for name in names if list(names).count(name) > 1}):
                raise ValueError(f"{what} {', '.join(twice)} is there twice; name each once")
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
                raise ValueError(
                    (
                        "this model was not trained on {kind} pictures; it knows {known}. Leave the kind out "
                        "to have it judged anyway"
                    ).format(kind=kind, known=", ".join(self.kinds) or "no kinds")
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
            raise ValueError(
                "this model does not take {facts}; it takes {known}. Leave the others out".format(
                    facts=", ".join(unknown), known=", ".join(self.fact_names) or "no facts"
                )
            )
        numbers = [fact.read(facts.get(fact.name, "")) for fact in self.facts]
        return np.array(numbers, dtype=np.float32)
