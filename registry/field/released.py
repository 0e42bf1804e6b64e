"""Figures of the field for whoever does not hold the database: Prometheus, pages, reports.

They are of outcomes as they stood when the last group of ten patients was whole
(`registry.outcomes.settled`), so that the figures of two days differ by ten patients or by none; and of a
subgroup with fewer than ten malignant or ten benign lesions it is told how many outcomes it has, and
nothing of what they were. Whoever was told may so know what ten patients had together; where all ten had
the same, that is told of each.

What is no figure of outcomes is not held back: how many were answered, and that a promise is broken.
"""

from dataclasses import dataclass

from registry.bundle.metrics.limits import Limits
from registry.field.corrected import FieldFigures, field_figures
from registry.field.seen import by_subgroup, coverage_of, seen
from registry.outcomes.counts import field_counts
from registry.outcomes.settled import TOGETHER
from registry.outcomes.store import OutcomeStore


@dataclass(frozen=True)
class ReleasedFigures:
    """What may be told of one version and one subgroup.

    Attributes:
        version: its number.
        subgroup: whom it answered.
        answered: how many, as of now.
        outcomes: how many are settled.
        figures: of the settled ones; None where too few are malignant or too few benign, or where the version
            has no working point.
        coverage: how often the prediction set held what it was; None with the figures.
    """

    version: int
    subgroup: str
    answered: int
    outcomes: int
    figures: FieldFigures | None
    coverage: Limits | None = None

    @property
    def sensitivity(self) -> Limits | None:
        """Corrected, at the working point."""
        return None if self.figures is None else self.figures.sensitivity

    @property
    def specificity(self) -> Limits | None:
        """Corrected, at the working point."""
        return None if self.figures is None else self.figures.specificity


def released_figures(store: OutcomeStore, model: str) -> list[ReleasedFigures]:
    """What may be told of a model, by version and subgroup.

    Raises:
        DatabaseError: the outcomes cannot be read.
    """
    counts = field_counts(store, model, only_settled=True)
    found = []
    for version, subgroup, those in by_subgroup(counts):
        of = seen(those)
        outcomes, malignant = len(of.malignant), int(of.malignant.sum())
        enough = min(malignant, outcomes - malignant) >= TOGETHER and of.has_working_point
        answered = int(of.answered.sum())
        figures = field_figures(of.strata) if enough else None
        covered = coverage_of(of.in_set) if enough else None
        found.append(ReleasedFigures(version, subgroup, answered, outcomes, figures, covered))
    return found
