"""Figures of all pictures from those of the classes, by the sums of the confusion matrix.

Of a class with n pictures the recall tells how many were answered rightly, the specificity how many others
were answered with the class. So the diagonal, the rows' sums and the columns' sums of the matrix are known,
and no figure of right and wrong answers depends on more. A matrix with these sums stands for it (`_filled`).

Figures from the reference histograms: accuracy and calibration exactly, others within what they leave.

Confidence over all and over right answers is counted whole: accuracy, ECE, MCE and AURC follow. The scores of
a class are not told apart by truth; its AUROC lies between what the lowest and the highest of them give. What
thresholds do follows up to the runs of neighbours that a threshold cuts through (`metrics.md`): at most two
of each part, of wrong answers and of right ones, each in one bin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.counts import Confusion, Counts, ScoreHistograms
from registry.bundle.labels import Label, malignant_classes
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics import calibration, classification, selective
from registry.bundle.metrics.estimate import ANSWERS
from registry.bundle.metrics.intervals import mean_defined
from registry.bundle.metrics.summary import FIGURES
from registry.bundle.recount.possible import LOOSE, ROUNDING, Findings, Row, check_possible, rows, said

OF = "the figures of its classes"


@dataclass(frozen=True)
class Answers:
    """The sums of a confusion matrix, `(classes,)` each.

    Attributes:
        pictures: of each class.
        right: those answered with their class.
        given: how often each class was the answer; of absent classes, together, in the first of them.
    """

    pictures: NDArray[np.int64]
    right: NDArray[np.int64]
    given: NDArray[np.int64]

    @property
    def matrix(self) -> Confusion:
        """A matrix with these sums; the wrong answers are where they are of two classes, else anywhere."""
        return Confusion(_filled(self.right, self.pictures - self.right, self.given - self.right))


def answers_by_class(found: object, labels: Sequence[Label], findings: Findings) -> Answers | None:
    """The sums that the figures of the classes tell; None where they do not, or contradict each other."""
    told = dict(rows("metrics.by_class", found))
    if not told:
        return None
    codes = [label.code for label in labels]
    if sorted(told) != sorted(codes):
        findings.refuse("metrics.by_class", ", ".join(told), f"the labels are {', '.join(codes)}")
        return None
    before = len(findings.problems)
    for row in told.values():
        check_possible(row, len(codes), findings)
    counts = [told[code].whole("n") for code in codes]
    if len(findings.problems) > before or None in counts:
        return None
    pictures = np.array(counts, dtype=np.int64)
    right = [_times(told[code], "recall", int(n), findings) for code, n in zip(codes, pictures, strict=True)]
    others = int(pictures.sum()) - pictures
    cleared = [
        _times(told[code], "specificity", int(of) if n else 0, findings)
        for code, n, of in zip(codes, pictures, others, strict=True)
    ]
    if len(findings.problems) > before or any(
        n and (a is None or (of and b is None))
        for n, of, a, b in zip(pictures, others, right, cleared, strict=True)
    ):
        return None
    hits = np.array([each or 0 for each in right], dtype=np.int64)
    alarms = np.array(
        [of - (each or 0) if n and of else 0 for n, of, each in zip(pictures, others, cleared, strict=True)]
    )
    return _whole_of(pictures, hits, hits + alarms, findings)


def _times(row: Row, name: str, n: int, findings: Findings) -> int | None:
    """How many of n pictures a share of a class is, which is a whole number."""
    share = row.number(name)
    if share is None:
        return None
    if not n:
        findings.refuse(row.at(name), share, "it is of no picture, and then undefined (null)")
        return None
    if abs(share * n - round(share * n)) > LOOSE * n:
        findings.refuse(
            row.at(name), share, f"it is a share of {n} pictures, and {share * n:.4g} of them is not whole"
        )
    return round(share * n)


def _whole_of(
    pictures: NDArray[np.int64], right: NDArray[np.int64], given: NDArray[np.int64], findings: Findings
) -> Answers | None:
    """The sums, if some pictures have them."""
    n, told = int(pictures.sum()), int(given.sum())
    absent = np.flatnonzero(pictures == 0)
    if told > n or (told < n and not len(absent)):
        findings.refuse(
            "metrics.by_class", f"{told} answers in all", f"each of the {n} pictures has one answer"
        )
        return None
    if len(absent):
        given = given.copy()
        given[absent[0]] = n - told
    wrong, false = pictures - right, given - right
    if (wrong + false > wrong.sum()).any():
        findings.refuse(
            "metrics.by_class",
            f"{int(wrong.sum())} wrong answers",
            "recall and specificity of the classes need more of them: no pictures have these",
        )
        return None
    return Answers(pictures, right, given)


def _filled(
    right: NDArray[np.int64], wrong: NDArray[np.int64], false: NDArray[np.int64]
) -> NDArray[np.int64]:
    """A matrix with this diagonal and these sums of rows and columns beside it.

    Wrong answers go from every class to the first and from the first to every class; what is left goes round
    through the second and third. Entries may be negative: figures depend on the sums alone.
    """
    matrix = np.diag(right)
    matrix[1:, 0], matrix[0, 1:] = wrong[1:], false[1:]
    if len(right) > 2:
        left = int(wrong[0] + false[0] - wrong.sum())
        matrix[0, 1] += left
        matrix[2, 0] += left
        matrix[2, 1] -= left
    return matrix


def check_all(row: Row, answers: Answers, found: object, labels: Sequence[Label], findings: Findings) -> None:
    """Compares the figures of all pictures with those of the classes."""
    malignant = malignant_classes(labels)
    n, of_malignant = int(answers.pictures.sum()), int(answers.pictures[malignant].sum())
    for name, gives in (("n", n), ("n_malignant", of_malignant), ("n_other", n - of_malignant)):
        findings.same(row.at(name), row.whole(name), gives, OF)
    matrix = answers.matrix
    for name in ANSWERS:
        findings.same(row.at(name), row.number(name), float(FIGURES[name](matrix)), OF)  # type: ignore[arg-type]
    told = dict(rows("metrics.by_class", found))
    _each_class(told, matrix, labels, findings)
    for name in ("auroc", "auprc"):
        each = np.array([_or_nan(told[label.code].number(name)) for label in labels])
        findings.same(row.at(name), row.number(name), float(mean_defined(each)), OF)
    _check_malignant(row, answers, malignant, findings)


def _each_class(told: dict[str, Row], matrix: Confusion, labels: Sequence[Label], findings: Findings) -> None:
    figures = {
        "recall": classification.recalls(matrix),
        "precision": classification.precisions(matrix),
        "f1": classification.f1_scores(matrix),
        "specificity": classification.specificities(matrix),
    }
    for k, label in enumerate(labels):
        row = told[label.code]
        for name, values in figures.items():
            findings.same(
                row.at(name), row.number(name), float(values[k]), "recall and specificity of the classes"
            )


def _check_malignant(row: Row, answers: Answers, malignant: NDArray[np.bool_], findings: Findings) -> None:
    """Sensitivity and specificity for malignancy: exact of two classes, else as the sums leave."""
    if malignant.all() or not malignant.any():
        for name in ("malignant_sensitivity", "malignant_specificity"):
            findings.same(row.at(name), row.number(name), None, "labels that are not of both kinds")
        return
    if len(malignant) == 2:
        for name in ("malignant_sensitivity", "malignant_specificity"):
            figure = partial(getattr(classification, name), malignant=malignant)
            findings.same(row.at(name), row.number(name), float(figure(answers.matrix)), OF)
        return
    found = row.times("malignant_sensitivity", int(answers.pictures[malignant].sum()))
    cleared = row.times("malignant_specificity", int(answers.pictures[~malignant].sum()))
    if found is not None and found < (least := int(answers.right[malignant].sum())):
        findings.refuse(
            row.at("malignant_sensitivity"),
            row.number("malignant_sensitivity"),
            f"{least} malignant pictures were answered with their own class, and are found",
        )
    if cleared is not None and cleared < (least := int(answers.right[~malignant].sum())):
        findings.refuse(
            row.at("malignant_specificity"),
            row.number("malignant_specificity"),
            f"{least} other pictures were answered with their own class, and are not called malignant",
        )
    if found is None or cleared is None:
        return
    called = found + int(answers.pictures[~malignant].sum()) - cleared
    present = answers.pictures > 0
    least = int(answers.given[malignant & present].sum())
    beside = int(answers.given[~present].sum()) if (malignant & ~present).any() else 0
    most = least + beside
    if not least <= called <= most:
        gives = f"{least}" if least == most else f"{least} to {most}"
        findings.refuse(
            row.at("malignant_sensitivity"),
            row.number("malignant_sensitivity"),
            f"with the specificity {called} pictures were called malignant, and {OF} give {gives}",
        )


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


HISTOGRAMS = "the reference histograms"
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
        findings.same(row.at("accuracy"), row.number("accuracy"), right / n if n else None, HISTOGRAMS)
        counts = _of_confidence(given)
        for name, figure in _EXACT.items():
            findings.same(row.at(name), row.number(name), float(figure(counts)), HISTOGRAMS)
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
            f"with the specificity {suspicious} pictures reach the working point, and {HISTOGRAMS} give "
            f"{told} (up to {slack} more or fewer)",
        )


def _at_or_above(row: NDArray[np.int64], start: int, given: ScoreHistograms) -> tuple[int, int]:
    """Pictures from a bin on, and by how many runs may hide that they are more or fewer."""
    if given.smallest_cell == 1 or start == 0 or start >= len(row):
        return int(row[start:].sum()), 0
    return int(row[start:].sum()), int(np.sort(row)[::-1][: 2 * given.parts].sum())


def _within(row: Row, name: str, found: int, least: int, most: int, findings: Findings) -> None:
    if not least <= found <= most:
        gives = f"{least}" if least == most else f"{max(least, 0)} to {most}"
        findings.refuse(row.at(name), row.number(name), f"that is {found}, and {HISTOGRAMS} give {gives}")


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
        findings.same(row.at(name), value, None, HISTOGRAMS)
    elif not low - ROUNDING <= value <= high + ROUNDING:
        findings.refuse(
            row.at(name),
            value,
            f"{HISTOGRAMS} leave {said(low)} to {said(high)} for {positives} pictures of the kind",
        )


def _area(total: NDArray[np.int64], positives: int, *, from_top: bool) -> float:
    ordered = total[::-1] if from_top else total
    above = np.clip(positives - (np.cumsum(ordered) - ordered), 0, ordered)
    of_kind = above[::-1] if from_top else above
    halves = np.stack([total - of_kind, of_kind])
    none = np.zeros((1, 1), dtype=np.int64)
    return float(classification.malignancy_auroc(Counts(none, halves[np.newaxis], halves, halves)))
