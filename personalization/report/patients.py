"""What counts for a patient before and after each stage: is what is malignant found, and at what price.

Rows go by subgroup, so that what a stage did to one stands in neighbouring lines. A stage that changed no
answer, as calibration does not, has no line.
"""

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

from personalization.report.data import ReportData
from personalization.report.measures import (
    ALL,
    BY_KEY,
    Cell,
    Estimate,
    Malignant,
    Measure,
    Row,
    Table,
    cell,
    estimate,
    present,
    sides,
    texts,
    total,
    whole,
    with_all,
)
from registry.bundle.counts.counting import Block
from registry.bundle.labels import kinds_of, malignant_classes
from registry.bundle.metrics import selective
from registry.bundle.metrics.patient import ALL as ALL_IN_SUMMARY
from registry.bundle.metrics.patient import (
    FIGURES,
    NO_MALIGNANT,
    NO_OTHER,
    OF_A_KIND,
    TOO_FEW,
)

Stages = Mapping[str, Mapping[str, Block]]
"""Per stage, the test counts of every subgroup."""


def patient_table(data: ReportData) -> Table:
    """The figures that count for a patient, of every subgroup after every stage that changed an answer."""
    malignant = malignant_classes(data.labels)
    stages = changed(data.counts)
    measures = [BY_KEY[key] for key in FIGURES]
    names = dict.fromkeys(name for blocks in stages.values() for name in present(blocks))
    rows = []
    for name in (*names, ALL) if len(names) > 1 else names:
        before: Estimate | None = None
        for stage, blocks in stages.items():
            block = total(blocks) if name == ALL else present(blocks).get(name)
            if block is None:
                continue
            found = {measure: estimate(measure.key, block, malignant) for measure in measures}
            worse = before is not None and _is_lost(data.summary, name, before, found[measures[0]])
            before = found[measures[0]]
            cells = [
                figure_cell(measure, found[measure], block, malignant, alert=worse and measure == measures[0])
                for measure in measures
            ]
            rows.append(
                Row(f"{name}: {stage}", (*cells, pictures_of(block, malignant)), is_total=name == ALL)
            )
    return Table(
        "What counts for a patient, after each stage, on the test split with 95 % intervals",
        ("subgroup: stage", *(measure.title for measure in measures), "pictures"),
        tuple(rows),
    )


def kinds_table(data: ReportData) -> Table | None:
    """Sensitivity and triage by kind of malignancy after the last stage; None where there is one kind.

    A target over all malignant lesions is met by the kind that is common.
    """
    blocks = present(list(data.counts.values())[-1])
    groups = with_all(blocks) if len(blocks) > 1 else blocks
    kinds = kinds_of(data.labels)
    if len(kinds) < 2 or any(block.kinds is None for block in groups.values()):
        return None
    found = {name: by_kind(block, kinds) for name, block in groups.items()}
    rows = tuple(
        Row(
            f"{name}: {kind}",
            (Cell(whole(row["n"])), *(cell(Estimate.in_summary(row, key), "percent") for key in OF_A_KIND))
            if row is not None
            else texts(TOO_FEW, *("–" for _ in OF_A_KIND)),
            is_total=name == ALL,
        )
        for name, of_kinds in found.items()
        for kind, row in of_kinds.items()
    )
    title = "Malignant pictures by kind, on the test split with 95 % intervals"
    return Table(title, ("subgroup: kind", "pictures", *OF_A_KIND.values()), rows)


def by_kind(block: Block, kinds: Sequence[str]) -> dict[str, Mapping[str, Any] | None]:
    """What counts of each kind of malignancy; None of one without pictures, and nothing of a single kind."""
    if block.kinds is None or len(kinds) < 2:
        return {}
    found = selective.by_kind(block.kinds, kinds)
    return {kind: found.get(kind) for kind in kinds}


def changed(stages: Stages) -> dict[str, Mapping[str, Block]]:
    """The stages whose answers are not those of the stage before, picture for picture in sum."""
    found: dict[str, Mapping[str, Block]] = {}
    before: Mapping[str, Block] | None = None
    for stage, blocks in stages.items():
        if before is None or not _same_answers(before, blocks):
            found[stage] = blocks
        before = blocks
    return found


def pictures_of(block: Block, malignant: Malignant) -> Cell:
    """How many pictures, and how many of them malignant where classes are of both kinds."""
    of_malignant, others = sides(block, malignant)
    both = malignant.any() and not malignant.all()
    return Cell(
        whole(int(block.point.n)), f"{whole(of_malignant)} malignant, {whole(others)} other" if both else ""
    )


def figure_cell(
    measure: Measure, found: Estimate, block: Block, malignant: Malignant, *, alert: bool = False
) -> Cell:
    """A figure with its interval; where there is none, in words why, if the pictures say it."""
    if found.value is None:
        return Cell(why_absent(measure.key, block, malignant))
    shown = cell(found, "percent" if measure.percent else "ratio")
    return Cell(shown.text, shown.note, alert)


def why_absent(key: str, block: Block, malignant: Malignant) -> str:
    """Why a figure is not defined of these pictures; a dash where it is not for want of a side."""
    of_malignant, others = sides(block, malignant)
    if malignant.all() or not malignant.any():
        return "–"
    if not of_malignant and key in ("malignant_sensitivity", "malignancy_auroc"):
        return NO_MALIGNANT
    if not others and key in ("malignant_specificity", "malignancy_auroc"):
        return NO_OTHER
    return "–"


def _same_answers(before: Mapping[str, Block], after: Mapping[str, Block]) -> bool:
    return before.keys() == after.keys() and all(
        before[name].point.confusion.tolist() == after[name].point.confusion.tolist() for name in before
    )


def _is_lost(summary: Mapping[str, Any], name: str, before: Estimate, now: Estimate) -> bool:
    """Whether the run found that a stage lowered a subgroup's sensitivity from this to that."""
    if before.value is None or now.value is None:
        return False
    subgroup = ALL_IN_SUMMARY if name == ALL else name
    return any(
        one["kind"] == "lost_sensitivity"
        and one["subgroup"] == subgroup
        and isclose(one["value"], now.value)
        and isclose(one["limit"], before.value)
        for one in summary.get("findings", ())
    )
