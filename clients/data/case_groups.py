"""Pictures grouped into cases: of each lesion its pictures, their kinds, and what is known beside them.

A lesion that two clients hold is a case at each of them. What its pictures' rows say of it must agree; a cell
that is empty on some of them says nothing.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.errors import ManifestError
from clients.data.manifests.manifest import IMAGE_KIND, Row
from clients.data.table import PictureTable
from clients.data.wording import listing
from registry.bundle.cases.case_input import EMPTY, UNSAID, CaseInput
from registry.bundle.cases.facts import CategoryFact, NumberFact
from registry.bundle.cases.kinds import read_kind
from training.data.cases import Cases

SAME_AGE = 1.0  # two numbers of one lesion that differ by no more say the same


@dataclass(frozen=True)
class CaseGroups:
    """The cases of a table of pictures.

    Attributes:
        table: one entry per case.
        beyond_slots: how many pictures are in no slot of their case.
        pictures: how many are.
    """

    table: PictureTable
    beyond_slots: int
    pictures: int


def group_cases(
    rows: Sequence[Row], table: PictureTable, contents: NDArray[np.uint8], case: CaseInput
) -> CaseGroups:
    """Group pictures into cases.

    Args:
        rows: of the manifests, one per picture.
        table: of the same pictures.
        contents: SHA-256 of each picture's bytes, `(pictures, 32)`.
        case: what a case has.

    Raises:
        ManifestError: a kind or a fact that cannot be read, or pictures of one lesion that contradict each
            other; all are listed.
    """
    kinds, context = read_columns(rows, case)
    keys = np.stack([table.lesions, table.clients, table.splits], axis=1)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))  # cases in the order of their first pictures
    members: list[list[int]] = [[] for _ in first]
    for picture, number in enumerate(order[inverse.reshape(-1)]):
        members[number].append(picture)

    refuse_contradictions(rows, table, context, members, case)
    slotted = [in_slots(pictures, kinds, case) for pictures in members]
    pictures = np.full((len(members), case.slots), -1, dtype=np.int64)
    of_kind = np.full((len(members), case.slots), EMPTY, dtype=np.int64)
    facts = np.full((len(members), len(case.facts)), np.nan, dtype=np.float32)
    leading = np.array([chosen[0] for chosen in slotted], dtype=np.int64)
    for number, (chosen, all_of) in enumerate(zip(slotted, members, strict=True)):
        pictures[number, : len(chosen)] = table.rows[chosen]
        of_kind[number, : len(chosen)] = kinds[chosen]
        for fact in range(len(case.facts)):
            known = context[all_of, fact][~np.isnan(context[all_of, fact])]
            facts[number, fact] = known[0] if len(known) else np.nan
    known_of = known_column(members)
    return CaseGroups(
        PictureTable(
            rows=table.rows[leading],
            labels=known_of(table.labels),
            subgroups=known_of(table.subgroups),
            lesions=table.lesions[leading],
            clients=table.clients[leading],
            splits=table.splits[leading],
            traits=None if table.traits is None else table.traits[leading],
            names=None if table.names is None else case_names(table.names, contents, slotted),
            cases=Cases(pictures, of_kind, facts),
        ),
        beyond_slots=sum(map(len, members)) - sum(map(len, slotted)),
        pictures=sum(map(len, slotted)),
    )


def read_columns(rows: Sequence[Row], case: CaseInput) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The number of each picture's kind `(pictures,)`, and the facts of its row `(pictures, facts)`.

    Raises:
        ManifestError: what cannot be read, with the pictures that say so.
    """
    problems: list[str] = []
    kinds = np.full(len(rows), UNSAID, dtype=np.int64)
    context = np.full((len(rows), len(case.facts)), np.nan, dtype=np.float32)
    for number, row in enumerate(rows):
        try:
            kind = read_kind(row.value(IMAGE_KIND))
        except ValueError as error:
            problems.append(f"{row.image}: {error}")
            continue
        if kind in case.kinds:
            kinds[number] = 1 + case.kinds.index(kind)
        for place, fact in enumerate(case.facts):
            try:
                context[number, place] = fact.read(row.value(fact.name))
            except ValueError as error:
                problems.append(f"{row.image}: {error}")
    if problems:
        raise ManifestError(
            f"{len(problems)} pictures say what cannot be of a case:\n{listing(problems)}\n"
            "mend the manifest, or leave the cell empty"
        )
    return kinds, context


def in_slots(pictures: Sequence[int], kinds: NDArray[np.int64], case: CaseInput) -> list[int]:
    """The pictures of a case that its slots hold: one of each kind first, in their order, then others."""
    of_kinds = [*range(1, 1 + len(case.kinds)), UNSAID]
    first = [next((p for p in pictures if kinds[p] == kind), None) for kind in of_kinds]
    leading = [picture for picture in first if picture is not None]
    return [*leading, *(picture for picture in pictures if picture not in leading)][: case.slots]


def refuse_contradictions(
    rows: Sequence[Row],
    table: PictureTable,
    context: NDArray[np.float32],
    members: Sequence[Sequence[int]],
    case: CaseInput,
) -> None:
    """Refuse cases whose pictures say different things of them.

    Raises:
        ManifestError: lists them, each with both values.
    """
    problems = []
    for pictures in members:
        if len(pictures) == 1:
            continue
        name = f"lesion {rows[pictures[0]].lesion_id}"
        columns = [("label", table.labels), ("skin_tone", table.subgroups)]
        for column, values in columns:
            known = [picture for picture in pictures if values[picture] >= 0]
            if len({int(values[picture]) for picture in known}) > 1:
                said = sorted({rows[picture].value(column) for picture in known})
                problems.append(f"{name}: {column} {' and '.join(said)}")
        for place, fact in enumerate(case.facts):
            known_facts = context[pictures, place][~np.isnan(context[pictures, place])]
            if len(known_facts) and differ(known_facts, fact):
                low, high = fact.write(float(known_facts.min())), fact.write(float(known_facts.max()))
                problems.append(f"{name}: {fact.name} {low} and {high}")
    if problems:
        raise ManifestError(
            f"{len(problems)} lesions have pictures whose rows contradict each other:\n{listing(problems)}\n"
            "mend the manifest; an empty cell contradicts nothing"
        )


def differ(values: NDArray[np.float32], fact: NumberFact | CategoryFact) -> bool:
    """Whether these values of one fact cannot be of one lesion."""
    return bool(np.ptp(values) > (SAME_AGE if isinstance(fact, NumberFact) else 0))


def known_column(members: Sequence[Sequence[int]]) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """What turns a column of pictures, -1 where nothing is known, into one of cases."""

    def of(column: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array([column[pictures].max() for pictures in map(list, members)], dtype=np.int64)

    return of


def case_names(
    names: NDArray[np.int64], contents: NDArray[np.uint8], slotted: Sequence[Sequence[int]]
) -> NDArray[np.int64]:
    """Digests of each case and of its patient, `(cases, 2)`; a case with another picture is another one."""
    found = np.empty((len(slotted), 2), dtype=np.int64)
    for number, pictures in enumerate(slotted):
        digest = hashlib.sha256(
            b"".join(sorted(contents[picture].tobytes() for picture in pictures))
        ).digest()
        found[number] = int.from_bytes(digest[:8], "big", signed=True), names[pictures[0], 1]
    return found
