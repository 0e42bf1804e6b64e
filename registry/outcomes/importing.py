"""Imports a file of outcomes: some lines in each transaction, so that a kill loses and doubles nothing."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from registry.outcomes.csv_file import Line, OutcomesFileError
from registry.outcomes.giving import ANYBODY, Refusal, Taken
from registry.outcomes.outcome import Outcome, OutcomeRefused
from registry.outcomes.store import OutcomeStore

TOGETHER = 1000
"""Lines of one transaction."""


@dataclass
class Imported:
    """What became of the lines of a file.

    Attributes:
        taken: how many of each kind.
        refused: how many were not taken.
    """

    taken: Counter[Taken] = field(default_factory=Counter)
    refused: int = 0

    @property
    def lines(self) -> int:
        """How many lines there were, the first one left out."""
        return self.taken.total() + self.refused


def import_outcomes(
    store: OutcomeStore,
    lines: Iterable[Line],
    refused: Callable[[Line, OutcomeRefused], None],
    together: Callable[[Imported], None] = lambda so_far: None,
) -> Imported:
    """Takes the outcomes of lines; to import the same ones again changes nothing.

    Args:
        store: where to.
        lines: of the file.
        refused: called for each line that is not taken, in their order.
        together: called after each transaction.

    Raises:
        DatabaseError: the database cannot be written; what was imported before stays.
        OutcomesFileError: the file cannot be read further; likewise.
    """
    found = Imported()
    for part in _parts(iter(lines)):
        given = [(line, line.read) for line in part if isinstance(line.read, Outcome)]
        told = iter(store.give([outcome for _, outcome in given], ANYBODY))
        for line in part:
            became = next(told) if isinstance(line.read, Outcome) else line.read
            if isinstance(became, Refusal):
                became = became.why
            if isinstance(became, OutcomeRefused):
                found.refused += 1
                refused(line, became)
            else:
                found.taken[became] += 1
        together(found)
    return found


def _parts(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Lists of lines; those before one that cannot be read are a list of their own, which comes first."""
    while True:
        part: list[Line] = []
        try:
            for line in islice(lines, TOGETHER):
                part.append(line)  # noqa: PERF402 - what came before one that cannot be read is kept
        except OutcomesFileError:
            yield part
            raise
        if not part:
            return
        yield part
