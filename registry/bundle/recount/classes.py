"""Figures of all pictures from those of the classes, by the sums of the confusion matrix.

Of a class with n pictures the recall tells how many were answered rightly, the specificity how many others
were answered with the class. So the diagonal, the rows' sums and the columns' sums of the matrix are known,
and no figure of right and wrong answers depends on more. A matrix with these sums stands for it (`_filled`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import Confusion
from registry.bundle.manifest.labels import Label, malignant_classes
from registry.bundle.metrics import classification, malignancy
from registry.bundle.metrics.estimate import ANSWERS
from registry.bundle.metrics.ratio import mean_defined
from registry.bundle.metrics.summary import FIGURES
from registry.bundle.recount.possible import check_possible
from registry.bundle.recount.problem import LOOSE, Findings, Row, rows

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
            figure = partial(getattr(malignancy, name), malignant=malignant)
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
