"""What several outcomes of one lesion say together: the strongest confirmation, or that they contradict."""

from collections.abc import Sequence
from dataclasses import dataclass

from clients.data.outcomes.tables import STRENGTH, KnownOutcome


@dataclass(frozen=True)
class Verdict:
    """What a lesion is, by its outcomes.

    Attributes:
        outcome: the one that counts; None where all were taken back, the strongest contradict each other, or
            what they say is no label of the manifest.
        contradicts: the different labels of the strongest outcomes, where they do.
    """

    outcome: KnownOutcome | None
    contradicts: tuple[str, ...] = ()


def verdict(outcomes: Sequence[KnownOutcome]) -> Verdict:
    """The verdict of the outcomes of one lesion, in whatever order.

    Of outcomes of one strength with one label the latest counts.
    """
    given = [one for one in outcomes if one.label]
    if not given:
        return Verdict(None)
    most = max(STRENGTH[one.source] for one in given)
    strongest = [one for one in given if STRENGTH[one.source] == most]
    labels = sorted({one.label for one in strongest})
    if len(labels) > 1:
        return Verdict(None, tuple(labels))
    usable = [one for one in strongest if one.usable]
    return Verdict(max(usable, key=lambda one: (one.date, one.source, one.answer), default=None))
