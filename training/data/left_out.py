"""Cases without a part of what they have: what is that part worth, and to whom?"""

from dataclasses import replace

import numpy as np

from registry.bundle.cases import EMPTY, CaseInput
from training.data.dataset import Examples
from training.data.patterns import packed


def parts_of(case: CaseInput) -> tuple[str, ...]:
    """What can be left out of a case: pictures of each kind, where there are several, and each fact."""
    return (*(case.kinds if len(case.kinds) > 1 else ()), *case.fact_names)


def without(examples: Examples, case: CaseInput, part: str) -> Examples:
    """The cases without pictures of one kind, or without one fact.

    Cases that have no other picture are left out.

    Args:
        examples: cases.
        case: what a case has.
        part: one of `parts_of`.
    """
    cases = examples.cases
    assert cases is not None, "only cases have parts"
    if part in case.fact_names:
        context = cases.context.copy()
        context[:, case.fact_names.index(part)] = np.nan
        return replace(examples, cases=replace(cases, context=context))
    kinds = np.where(cases.kinds == 1 + case.kinds.index(part), EMPTY, cases.kinds)
    left = (kinds != EMPTY).any(axis=1)
    shown = examples.where(left)
    return replace(shown, cases=packed(replace(cases, kinds=kinds).where(left)))
