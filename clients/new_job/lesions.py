"""Whether each picture is diagnosed by itself or a whole lesion, and what is known of a lesion."""

from collections import Counter
from dataclasses import dataclass

from clients.data.case_groups import case_problems
from clients.data.errors import ManifestError
from clients.data.manifests.manifest import IMAGE_KIND, number_lesions
from clients.new_job.manifests import Manifests
from registry.bundle.cases import KINDS, KNOWN, UNKNOWN, Fact, Kind, read_kind
from training.data.settings import CasesConfig

SLOTS = 4  # at most, unless a person writes more


@dataclass(frozen=True)
class Lesions:
    """The lesions of the manifests.

    Attributes:
        lesions: how many.
        several: how many have more than one picture.
        cases: what each has; None where they cannot be cases.
        problems: what keeps them from being cases: what cannot be read, and contradictions.
        unread: facts that are there and cannot be read, each with an example.
    """

    lesions: int
    several: int
    cases: CasesConfig | None
    problems: tuple[str, ...]
    unread: tuple[str, ...] = ()

    def require(self) -> CasesConfig:
        """What each lesion has.

        Raises:
            ManifestError: they cannot be cases.
        """
        if self.cases is not None:
            return self.cases
        if not self.several:
            raise ManifestError(
                "no lesion has several pictures; fill the column `lesion_id`, or take --unit picture"
            )
        raise ManifestError(
            f"lesions cannot be cases: {len(self.problems)} problems, the first is {self.problems[0]}; "
            "`dermfed-data check --cases` lists all of them; mend the manifest, or take --unit picture"
        )


def lesions_of(manifests: Manifests) -> Lesions:
    """What the manifests say of lesions: kinds of picture, facts that can be read, and contradictions."""
    rows = manifests.rows
    sizes = Counter(number_lesions(rows).tolist()).values()
    several = sum(size > 1 for size in sizes)
    if not several:
        return Lesions(len(sizes), 0, None, ())
    facts, unread = [], []
    for name, fact in KNOWN.items():
        if all(row.value(name).lower() in UNKNOWN for row in rows):
            continue
        wrong = _unreadable(fact, manifests)
        facts += [] if wrong else [name]
        unread += wrong[:1]
    cases = CasesConfig(slots=min(SLOTS, max(sizes)), kinds=_kinds(manifests), facts=tuple(facts))
    contradicting, wrong_cells = case_problems(rows, cases.input)
    problems = (*wrong_cells.lines, *contradicting)
    return Lesions(len(sizes), several, None if problems else cases, problems, tuple(unread))


def _unreadable(fact: Fact, manifests: Manifests) -> list[str]:
    """What is wrong with the cells of one fact, once each."""
    wrong = []
    for text in sorted({row.value(fact.name) for row in manifests.rows}):
        try:
            fact.read(text)
        except ValueError as error:
            wrong.append(str(error))
    return wrong


def _kinds(manifests: Manifests) -> tuple[Kind, ...]:
    """The kinds of picture that occur; one that cannot be read is a problem of the manifest, not a kind."""
    found = set()
    for text in {row.value(IMAGE_KIND) for row in manifests.rows}:
        try:
            found.add(read_kind(text))
        except ValueError:
            continue
    return tuple(kind for kind in KINDS if kind in found)
