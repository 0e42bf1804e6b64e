"""Where a label came from: columns of the manifest, by which an outcome can be taken back again.

| column | what it says |
| --- | --- |
| `label_source` | how the label is known: histopathology, dermatologist, follow-up; empty where nobody said |
| `label_date` | when that was |
| `label_from` | `outcome` where the picture has a label for an outcome alone, and had none before |
| `label_answer` | the id of the diagnosis whose outcome it is |
| `label_written` | the label that was written then; another one since is somebody's own |
| `label_before` | what stood there before: label, source and date, with `|` between |
"""

from dataclasses import dataclass, replace

from clients.data.manifests.manifest import LABEL_FROM, OUTCOME, Row
from clients.data.outcomes.tables import STRENGTH, KnownOutcome

SOURCE, DATE, ANSWER, WRITTEN = "label_source", "label_date", "label_answer", "label_written"
BEFORE = "label_before"
COLUMNS = (SOURCE, DATE, LABEL_FROM, ANSWER, WRITTEN, BEFORE)
_BETWEEN = "|"


@dataclass(frozen=True)
class Known:
    """A label and how it is known; empty where it is not."""

    label: str
    source: str = ""
    date: str = ""

    @property
    def strength(self) -> int:
        """Of its source; 0 of one that nobody said, or that is none of ours."""
        return STRENGTH.get(self.source, 0)


def changed_by_hand(row: Row) -> bool:
    """Whether somebody has changed the label that an outcome gave."""
    return bool(row.value(ANSWER)) and row.label != row.value(WRITTEN)


def now(row: Row) -> Known:
    """The label as it stands; of one changed by hand nobody said how it is known."""
    if changed_by_hand(row):
        return Known(row.label)
    return Known(row.label, row.value(SOURCE), row.value(DATE))


def before_outcomes(row: Row) -> Known:
    """The label as it was before any outcome, or as somebody has changed it since."""
    if not row.value(ANSWER) or changed_by_hand(row):
        return now(row)
    if not row.value(BEFORE):
        return Known("")
    label, *how = row.value(BEFORE).rsplit(_BETWEEN, 2)  # a label may hold one itself
    return Known(label, *how)


def without_outcome(row: Row, known: Known) -> Row:
    """The row with a label that is no outcome's."""
    cells = {**dict.fromkeys(COLUMNS, ""), SOURCE: known.source, DATE: known.date}
    return replace(row, label=known.label, extra={**row.extra, **cells})


def with_outcome(row: Row, outcome: KnownOutcome, before: Known) -> Row:
    """The row with the label of an outcome.

    Args:
        row: of the manifest.
        outcome: whose label it gets.
        before: what is put back if the outcome is taken back.
    """
    confirms = before.label == outcome.label and before.strength > STRENGTH[outcome.source]
    known = before if confirms else Known(outcome.label, outcome.source, outcome.date)
    cells = {
        SOURCE: known.source,
        DATE: known.date,
        LABEL_FROM: "" if before.label else OUTCOME,
        ANSWER: outcome.answer,
        WRITTEN: outcome.label,
        BEFORE: _BETWEEN.join((before.label, before.source, before.date)) if before.label else "",
    }
    return replace(row, label=outcome.label, extra={**row.extra, **cells})
