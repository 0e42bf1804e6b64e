"""The report's section on limits: what its numbers cannot show, in sentences."""

from personalization.report.data import ReportData
from personalization.report.measures import compared
from personalization.report.numerals import listed, pictures
from registry.bundle.labels import UNDECLARED
from registry.bundle.metrics.classification import FEWEST_FOR_AUPRC
from training.privacy.dp.updates import privacy_text

FEW = 30
"""Subgroups with fewer test pictures are named among the limits; their figures are shown all the same."""


def limits(data: ReportData) -> tuple[str, ...]:
    """The sentences that hold for every report, then those that hold for this one."""
    blocks = data.counts[list(data.counts)[-1]]
    groups = compared(blocks)
    sentences = [
        "The figures are of this run's test split. They are no clinical validation: another hospital, camera "
        "or population can give others.",
        "Subgroups hold different people with different diseases. A spread mixes how well a model serves a "
        "subgroup with how hard its cases are; the spread at one mix of diseases takes out the second only "
        "as far as the classes tell.",
    ]
    sentences.append(
        "Intervals are of 95 %, computed from the sums that hospitals told, and allow for several pictures "
        "of a lesion; most are wider than they need be. They do not contain what training again would "
        "change. What noise adds to a distance, such as a spread or a calibration error, is taken off its "
        "lower end. "
        "A spread is never below 0, so its interval says how large it may be, not whether there is one. The "
        "worst subgroup is picked after looking, so its distance from the others is overstated where "
        f"subgroups are small. AUPRC is told of diseases with at least {FEWEST_FOR_AUPRC} test pictures."
    )
    if any(block.lesions is None for block in blocks.values()):
        sentences.append(
            "Intervals take every picture for a lesion of its own: the counts do not tell lesions."
        )
    sentences.extend(privacy_text(data.summary.get("privacy", {})))
    if data.smallest_cell > 1:
        sentences.append(
            f"Scores of fewer than {data.smallest_cell} patients of a subgroup at one client are counted "
            "together, so that AUROC, AUPRC, calibration error and curves of small subgroups are coarse. "
            "Accuracies, and what thresholds come to, are counted exactly."
        )
    few = [f"{name} ({int(block.point.n)})" for name, block in groups.items() if int(block.point.n) < FEW]
    if few:
        sentences.append(
            f"Fewer than {FEW} test pictures: {listed(few)}. Their figures can be far off, and their "
            "calibration error is overstated."
        )
    if groups and UNDECLARED in blocks and int(blocks[UNDECLARED].point.n):
        sentences.append(
            f"{pictures(int(blocks[UNDECLARED].point.n))} of undeclared subgroup count in every total and in "
            "no comparison of subgroups."
        )
    if data.fine_tuning is not None:
        sentences.append(
            "Epochs are chosen on the validation split, and the price of fairness is read off there: on new "
            "pictures accuracies are lower than those chosen, and spreads are wider."
        )
    without = [model.subgroup for model in data.calibration if not model.conformal.guaranteed]
    if without:
        sentences.append(
            f"Too few calibration pictures to promise a coverage: {listed(without)}. Prediction sets there "
            "hold every class."
        )
    if data.calibration:
        sentences.append(
            "A promised coverage holds on average over calibration splits, for pictures drawn like these and "
            "one picture per lesion; on one test split it is met within the width of its interval."
        )
    return tuple(sentences)
