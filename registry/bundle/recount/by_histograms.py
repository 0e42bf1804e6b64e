"""Figures from the reference histograms: accuracy and calibration exactly, others within what they leave.

Confidence over all and over right answers is counted whole: accuracy, ECE, MCE and AURC follow. The scores of
a class are not told apart by truth; its AUROC lies between what the lowest and the highest of them give. What
thresholds do follows up to the runs of neighbours that a threshold cuts through (`metrics.md`): at most two
of each part, of wrong answers and of right ones, each in one bin.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.counts.reference_histograms import ScoreHistograms
from registry.bundle.manifest.labels import Label
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.metrics import calibration, classification, selective
from registry.bundle.recount.problem import ROUNDING, Findings, Row, rows, said

OF = "the reference histograms"
_EXACT = {"ece": calibration.ece, "mce": calibration.mce, "aurc": selective.aurc}


def check_sums(place: str, given: ScoreHistograms, n: int | None, findings: Findings) -> bool:
    """Checks that histograms are of n pictures and of no negative number; whether they are."""
    before = len(findings.problems)
    named = {"confidence": given.confidence, "malignancy": given.malignancy, "right": given.right}
    named |= {f"scores.{k}": row for k, row in enumerate(given.scores)}
    named["distances"] = getattr(given, "distances", None)
    for name, row in named.items():
        if row is None:
            continue
        if min(row, default=0) < 0:
            findings.refuse(f"{place}.{name}", min(row), "a count is 0 or more")
        elif n is not None and name != "right" and sum(row) != n:
            findings.refuse(f"{place}.{name}", f"{sum(row)} pictures", f"the figures beside it are of {n}")
    if given.right is not None:
        more = np.flatnonzero(np.array(given.right) > np.array(given.confidence))
        if len(more):
            k = int(more[0])
            findings.refuse(
                f"{place}.right.{k}", given.right[k], f"{given.confidence[k]} answers have this confidence"
            )
    return len(findings.problems) == before


def check_row(row: Row, given: ScoreHistograms, findings: Findings) -> None:
    """Compares a row of figures with its histograms, which `check_sums` has found whole."""
    if given.right is not None:
        n, right = sum(given.confidence), sum(given.right)
        findings.same(row.at("accuracy"), row.number("accuracy"), right / n if n else None, OF)
        counts = _of_confidence(given)
        for name, figure in _EXACT.items():
            findings.same(row.at(name), row.number(name), float(figure(counts)), OF)
    positives = row.whole("n_malignant")
    if given.malignancy is not None and positives is not None:
        _within_areas(row, "malignancy_auroc", given.malignancy, positives, findings)


def check_classes(found: object, given: ScoreHistograms, labels: Sequence[Label], findings: Findings) -> None:
    """Holds the AUROC of each class within what the histogram of its scores leaves."""
    told = dict(rows("metrics.by_class", found))
    for label, scores in zip(labels, given.scores, strict=True):
        row = told.get(label.code)
        n = row.whole("n") if row else None
        if row is not None and n is not None:
            _within_areas(row, "auroc", scores, n, findings)


def check_decided(row: Row, given: ScoreHistograms, manifest: BundleManifest, findings: Findings) -> None:
    """Compares what thresholds do, where one set of them holds for all pictures."""
    if manifest.patterns:
        return  # each has thresholds of its own, and histograms are of all together
    n = sum(given.confidence)
    confidence, malignancy = np.array(given.confidence), given.malignancy
    found = row.times("reported", n)
    told, slack = _at_or_above(confidence, manifest.reports_from, given)
    if found is not None:
        # A working point holds some back that are sure: fewer are reported then.
        least = 0 if manifest.working_point is not None else told - slack
        _within(row, "reported", found, least, told + slack, findings)
    if given.right is not None and found is not None:
        wrong = confidence - np.array(given.right)
        told, slack = _at_or_above(wrong, manifest.reports_from, given)
        risk = row.times("reported_risk", found)
        if risk is not None:
            least = 0 if manifest.working_point is not None else told - slack
            _within(row, "reported_risk", risk, least, told + slack, findings)
    sizes = [_at_or_above(np.array(one), manifest.conformal.threshold_bin, given) for one in given.scores]
    if (size := row.times("set_size", n)) is not None:
        about, slack = sum(one for one, _ in sizes), sum(one for _, one in sizes)
        _within(row, "set_size", size, about - slack, about + slack, findings)
    if manifest.conformal.threshold_bin == 0:
        findings.same(row.at("coverage"), row.number("coverage"), 1.0, "full prediction sets")
    if malignancy is not None and manifest.suspicious_from is not None:
        _check_suspicious(row, np.array(malignancy), manifest.suspicious_from, given, findings)


def _check_suspicious(
    row: Row, malignancy: NDArray[np.int64], start: int, given: ScoreHistograms, findings: Findings
) -> None:
    n_malignant, n_other = row.whole("n_malignant"), row.whole("n_other")
    caught = row.times("sensitivity_at_threshold", n_malignant)
    cleared = row.times("specificity_at_threshold", n_other)
    if not n_malignant:
        caught = 0
    if not n_other:
        cleared = 0
    if caught is None or cleared is None or n_other is None:
        return
    told, slack = _at_or_above(malignancy, start, given)
    suspicious = caught + n_other - cleared
    if not told - slack <= suspicious <= told + slack:
        findings.refuse(
            row.at("sensitivity_at_threshold"),
            row.number("sensitivity_at_threshold"),
            f"with the specificity {suspicious} pictures reach the working point, and {OF} give {told} "
            f"(up to {slack} more or fewer)",
        )


def _at_or_above(row: NDArray[np.int64], start: int, given: ScoreHistograms) -> tuple[int, int]:
    """Pictures from a bin on, and by how many runs may hide that they are more or fewer."""
    if given.smallest_cell == 1 or start == 0 or start >= len(row):
        return int(row[start:].sum()), 0
    return int(row[start:].sum()), int(np.sort(row)[::-1][: 2 * given.parts].sum())


def _within(row: Row, name: str, found: int, least: int, most: int, findings: Findings) -> None:
    if not least <= found <= most:
        gives = f"{least}" if least == most else f"{max(least, 0)} to {most}"
        findings.refuse(row.at(name), row.number(name), f"that is {found}, and {OF} give {gives}")


def _of_confidence(given: ScoreHistograms) -> Counts:
    right = np.array(given.right, dtype=np.int64)
    wrong = np.array(given.confidence, dtype=np.int64) - right
    confusion = np.array([[right.sum(), wrong.sum()], [0, 0]], dtype=np.int64)
    nothing = np.zeros((2, len(right)), dtype=np.int64)
    return Counts(confusion, nothing[np.newaxis], nothing, np.stack([wrong, right]))


def _within_areas(row: Row, name: str, scores: tuple[int, ...], positives: int, findings: Findings) -> None:
    """Holds an AUROC between that of the lowest scores and that of the highest."""
    value, total = row.number(name), np.array(scores, dtype=np.int64)
    if value is None or positives > total.sum():
        return
    low, high = (_area(total, positives, from_top=side) for side in (False, True))
    if np.isnan(low):
        findings.same(row.at(name), value, None, OF)
    elif not low - ROUNDING <= value <= high + ROUNDING:
        findings.refuse(
            row.at(name),
            value,
            f"{OF} leave {said(low)} to {said(high)} for {positives} pictures of the kind",
        )


def _area(total: NDArray[np.int64], positives: int, *, from_top: bool) -> float:
    ordered = total[::-1] if from_top else total
    above = np.clip(positives - (np.cumsum(ordered) - ordered), 0, ordered)
    of_kind = above[::-1] if from_top else above
    halves = np.stack([total - of_kind, of_kind])
    none = np.zeros((1, 1), dtype=np.int64)
    return float(classification.malignancy_auroc(Counts(none, halves[np.newaxis], halves, halves)))
