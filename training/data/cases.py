"""Cases of which only a part is shown: how sure a model is depends on what it is given.

Which facts stay where some do, and under which pattern a case is judged where there are several, follows from
the digest of the case: it is the same whenever it is asked.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from registry.bundle.cases import EMPTY, UNKNOWN_KIND, UNSAID, CaseInput, Pattern
from training.data.dataset import Cases, Examples


def under(examples: Examples, case: CaseInput, patterns: Sequence[Pattern]) -> Examples:
    """The cases that have what one of the patterns shows, each with what is shown under one that it has.

    Pictures of kinds that a pattern does not name are left out, and facts as it says: none, some drawn ones,
    or all that are known. Of a picture of unknown kind every case has one: one of its own is drawn, and what
    kind it is, is not said.

    Args:
        examples: cases.
        case: what a case has.
        patterns: of which one is drawn for each case.
    """
    assert examples.cases is not None, "only cases have patterns"
    shown = [wanted(pattern, case) for pattern in patterns]
    fits = np.stack([has(examples.cases, pattern, case) for pattern in patterns], axis=1)
    some: NDArray[np.bool_] = np.array(fits.any(axis=1), dtype=np.bool_)
    examples, fits = examples.where(some), fits[some]
    cases = examples.cases
    assert cases is not None
    digests = [hashlib.sha256(int(name).to_bytes(8, "big", signed=True)).digest() for name in names(examples)]
    chosen = np.array(
        [
            np.flatnonzero(row)[int.from_bytes(digest[:8], "big") % int(row.sum())]
            for row, digest in zip(fits, digests, strict=True)
        ],
        dtype=np.int64,
    )
    kinds, context = cases.kinds.copy(), cases.context.copy()
    for place, pattern in enumerate(patterns):
        rows = np.flatnonzero(chosen == place)
        if pattern.kinds == (UNKNOWN_KIND,):
            kinds[rows] = unsaid(kinds[rows], [digests[row] for row in rows])
        else:
            kinds[rows] = np.where(np.isin(kinds[rows], list(shown[place])), kinds[rows], EMPTY)
        if pattern.facts != "all":
            context[rows] = np.where(
                kept_facts(pattern, [digests[row] for row in rows], context[rows]), context[rows], np.nan
            )
    return replace(examples, cases=packed(Cases(cases.pictures, kinds, context)))


def names(examples: Examples) -> NDArray[np.int64]:
    """By what each case is known again, `(n,)`."""
    return examples.identities[:, 0]


def wanted(pattern: Pattern, case: CaseInput) -> frozenset[int]:
    """The numbers of the kinds that a pattern shows."""
    numbers: dict[str, int] = {kind: 1 + place for place, kind in enumerate(case.kinds)}
    numbers[UNKNOWN_KIND] = UNSAID
    return frozenset(numbers[kind] for kind in pattern.kinds)


def has(cases: Cases, pattern: Pattern, case: CaseInput) -> NDArray[np.bool_]:
    """Which cases `(n,)` have a picture of each kind that a pattern shows."""
    found = np.ones(len(cases), dtype=np.bool_)
    if pattern.kinds != (UNKNOWN_KIND,):
        for number in wanted(pattern, case):
            found &= (cases.kinds == number).any(axis=1)
    return found


def unsaid(kinds: NDArray[np.int64], digests: Sequence[bytes]) -> NDArray[np.int64]:
    """The kinds `(n, slots)` of cases of which one drawn picture is shown, and not said what it is."""
    left = np.full_like(kinds, EMPTY)
    for row, digest in enumerate(digests):
        filled = np.flatnonzero(kinds[row] != EMPTY)
        left[row, filled[int.from_bytes(digest[16:24], "big") % len(filled)]] = UNSAID
    return left


def kept_facts(pattern: Pattern, digests: Sequence[bytes], context: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which facts `(n, facts)` stay: none, or some: each with probability 1/2, never none and never all."""
    facts = context.shape[1]
    kept = np.zeros(context.shape, dtype=np.bool_)
    if pattern.facts == "none" or facts < 2:
        return kept
    for row, digest in enumerate(digests):
        number = int.from_bytes(digest[8:16], "big") % (2**facts - 2) + 1
        kept[row] = [bool(number >> place & 1) for place in range(facts)]
    return kept


def packed(cases: Cases) -> Cases:
    """The same cases with filled slots first, and no slot that is empty in all of them."""
    order = np.argsort(~cases.present, axis=1, kind="stable")
    kinds = np.take_along_axis(cases.kinds, order, axis=1)
    pictures = np.where(kinds == EMPTY, -1, np.take_along_axis(cases.pictures, order, axis=1))
    slots = max(int((kinds != EMPTY).sum(axis=1).max(initial=1)), 1)
    return Cases(pictures[:, :slots], kinds[:, :slots], cases.context)


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
