"""Pictures grouped into cases: of each lesion its pictures, their kinds, and the other known facts.

A lesion that two clients hold is a case at each of them. What its pictures' rows say of it must agree; a cell
that is empty on some of them says nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.data.cell_values import UnreadCells, proposal
from clients.data.errors import ManifestError
from clients.data.manifest import IMAGE_KIND, Row, number_lesions
from clients.data.output import listing
from clients.data.prepared import PictureTable
from registry.bundle.cases import EMPTY, UNSAID, CaseInput, CategoryFact, NumberFact, read_kind
from training.data.dataset import Cases

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


def group_cases(rows: Sequence[Row], table: PictureTable, case: CaseInput) -> CaseGroups:
    """Group pictures into cases.

    Args:
        rows: of the manifests, one per picture.
        table: of the same pictures.
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
            facts[number, fact] = known.min() if len(known) else np.nan  # whatever the order of rows
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
            names=None if table.names is None else case_names(table.names, slotted),
            cases=Cases(pictures, of_kind, facts),
        ),
        beyond_slots=sum(map(len, members)) - sum(map(len, slotted)),
        pictures=sum(map(len, slotted)),
    )


def case_problems(rows: Sequence[Row], case: CaseInput) -> tuple[list[str], UnreadCells]:
    """What keeps the pictures of a manifest from being cases: contradictions, and what cannot be read.

    Args:
        rows: of the manifest, one per picture.
        case: what a case has.
    """
    _, context, unread = scan_columns(rows, case)
    members: dict[int, list[int]] = {}
    for picture, lesion in enumerate(number_lesions(rows).tolist()):
        members.setdefault(lesion, []).append(picture)
    labels = [row.label for row in rows]
    return contradictions(rows, labels, context, [*members.values()], case), unread


def read_columns(rows: Sequence[Row], case: CaseInput) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The number of each picture's kind `(pictures,)`, and the facts of its row `(pictures, facts)`.

    Raises:
        ManifestError: what cannot be read, with the pictures that say so.
    """
    kinds, context, unread = scan_columns(rows, case)
    if unread:
        raise ManifestError(
            f"{len(unread.lines)} values cannot be of a case:\n{listing(unread.lines)}\n"
            f"leave the cells empty, or map them where the table is imported: {proposal(unread.codes)}"
        )
    return kinds, context


def scan_columns(
    rows: Sequence[Row], case: CaseInput
) -> tuple[NDArray[np.int64], NDArray[np.float32], UnreadCells]:
    """As `read_columns`, with the cells that cannot be read."""
    unread = UnreadCells()
    kinds = np.full(len(rows), UNSAID, dtype=np.int64)
    context = np.full((len(rows), len(case.facts)), np.nan, dtype=np.float32)
    for number, row in enumerate(rows):
        try:
            kind = read_kind(row.value(IMAGE_KIND))
        except ValueError as error:
            unread.add(IMAGE_KIND, row.value(IMAGE_KIND), str(error), row.image)
        else:
            kinds[number] = 1 + case.kinds.index(kind) if kind in case.kinds else UNSAID
        for place, fact in enumerate(case.facts):
            try:
                context[number, place] = fact.read(row.value(fact.name))
            except ValueError as error:
                unread.add(fact.name, row.value(fact.name), str(error), row.image)
    return kinds, context, unread


def in_slots(pictures: Sequence[int], kinds: NDArray[np.int64], case: CaseInput) -> list[int]:
    """The pictures of a case that its slots hold: one of each kind first, in their order, then others."""
    of_kinds = [*range(1, 1 + len(case.kinds)), UNSAID]
    first = [next((p for p in pictures if kinds[p] == kind), None) for kind in of_kinds]
    leading = [picture for picture in first if picture is not None]
    return [*leading, *(picture for picture in pictures if picture not in leading)][: case.slots]


def contradictions(
    rows: Sequence[Row],
    labels: Sequence[str],
    context: NDArray[np.float32],
    members: Sequence[Sequence[int]],
    case: CaseInput,
) -> list[str]:
    """A line for each thing that pictures of one case say differently, with both values.

    Args:
        rows: of the manifests, one per picture.
        labels: of each picture, empty where there is none.
        context: the facts of each picture, `(pictures, facts)`.
        members: the pictures of each case.
        case: what a case has.
    """
    problems = []
    for pictures in members:
        if len(pictures) == 1:
            continue
        name = f"lesion {rows[pictures[0]].lesion_id}"
        said = {"label": {labels[picture] for picture in pictures}}
        for row in (rows[picture] for picture in pictures):  # tones of two scales do not contradict
            said.setdefault(f"skin_tone ({row.skin_tone_scale})", set()).add(row.skin_tone)
        for column, values in said.items():
            if len(values - {""}) > 1:
                problems.append(f"{name}: {column} {' and '.join(sorted(values - {''}))}")
        for place, fact in enumerate(case.facts):
            known = context[pictures, place][~np.isnan(context[pictures, place])]
            if len(known) and differ(known, fact):
                low, high = fact.write(float(known.min())), fact.write(float(known.max()))
                problems.append(f"{name}: {fact.name} {low} and {high}")
    return problems


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
    # What a job's label map puts into one class is one label, and what it drops or withholds is none.
    classes = list(zip(table.lesions.tolist(), table.labels.tolist(), strict=True))
    spelt = {key: row.label for key, row in zip(classes, rows, strict=True)}
    labels = [spelt[lesion, number] if number >= 0 else "" for lesion, number in classes]
    problems = contradictions(rows, labels, context, members, case)
    for pictures in members:
        by_group = {int(table.subgroups[number]): rows[number] for number in pictures}
        if len(by_group.keys() - {-1}) > 1:
            images = " and ".join(sorted(row.image for group, row in by_group.items() if group >= 0))
            problems.append(f"lesion {rows[pictures[0]].lesion_id}: {images} are in different subgroups")
    if problems:
        raise ManifestError(
            f"{len(problems)} times pictures of one lesion contradict each other:\n{listing(problems)}\n"
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


def case_names(names: NDArray[np.int64], slotted: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """What each case and its patient are known by, `(cases, 2)`: the case by one of its pictures.

    So counts of lesions are held against counts of pictures: they differ by those who have more of a lesion.
    """
    return np.array(
        [(names[pictures, 0].min(), names[pictures[0], 1]) for pictures in slotted], dtype=np.int64
    ).reshape(-1, 2)
