"""All figures of a manifest, recounted.

The rules of a manifest: limits that no calibration lesions could show.

Intervals that are narrower than any pictures make them.

How alike pictures of a lesion are is not told, and only widens an interval. With every picture a lesion of
its own it is the narrowest: an interval that does not hold that one was not made by these counts.

Fairness: what it is of the accuracies of the subgroups, and of their intervals.

Subgroups and all pictures: each picture is of one row of `by_subgroup`, and the rows add up to all.

Of shares, how many pictures are so adds up. Where one row is of all pictures, it says what all pictures say.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.counts import ScoreHistograms
from registry.bundle.labels import UNDECLARED, malignant_classes
from registry.bundle.manifest import BundleManifest, PatternCalibration
from registry.bundle.metrics import fairness
from registry.bundle.metrics.estimate import limits_of
from registry.bundle.metrics.fairness import limits_between
from registry.bundle.metrics.intervals import DesignEffect, Limits, Sample, clopper_pearson, exact_low
from registry.bundle.metrics.patient import COUNTS
from registry.bundle.recount import classes
from registry.bundle.recount.classes import Answers, answers_by_class, check_all
from registry.bundle.recount.possible import (
    LOOSE,
    ROUNDING,
    Findings,
    Recounted,
    Row,
    check_differences,
    check_possible,
    denominators,
    ends,
    rows,
    said,
)


def check_rules(manifest: BundleManifest, findings: Findings) -> None:
    """Checks the working points and referral rules, of the manifest and of its patterns."""
    named: dict[str, BundleManifest | PatternCalibration] = {"": manifest}
    named |= {f"patterns.{one.pattern.name}.": one for one in manifest.patterns}
    for place, of in named.items():
        point, rule = of.working_point, of.abstention
        if point is not None:
            n = np.array(float(point.n))
            most = float(exact_low(n, n, 2 * point.level - 1))
            if point.sensitivity_low > most + LOOSE:
                findings.refuse(
                    f"{place}working_point.sensitivity_low",
                    point.sensitivity_low,
                    f"{point.n} malignant lesions, all of them found, show {most:.4g} at most",
                )
        if rule.risk is not None and rule.risk_high is not None and rule.risk_high < rule.risk - LOOSE:
            findings.refuse(
                f"{place}abstention.risk_high", rule.risk_high, f"the risk itself is {rule.risk:.4g}"
            )
    for one in manifest.patterns:
        if one.set_size is not None and one.set_size > len(manifest.labels) + LOOSE:
            findings.refuse(
                f"patterns.{one.pattern.name}.set_size",
                one.set_size,
                f"there are {len(manifest.labels)} classes",
            )


OF_ROWS = ("balanced_accuracy",)
"""Figures whose interval depends on the sums of rows and the diagonal alone."""

_MEANS = frozenset({"set_size"})


def check_intervals(row: Row, findings: Findings) -> None:
    """Checks the intervals of shares of so many pictures."""
    for name, n in denominators(row):
        found, told = row.times(name, n), row.interval(name)
        if name not in _MEANS and found is not None and told is not None and n:
            _holds(row, name, told, clopper_pearson(found, n), findings)


def check_intervals_of_all(
    row: Row, answers: Answers, malignant: NDArray[np.bool_], findings: Findings
) -> None:
    """Checks the intervals of means over classes that the sums of the matrix give."""
    classes = len(answers.pictures)
    alone = DesignEffect(np.array(0.0), np.ones(classes))
    names = OF_ROWS if classes > 2 else (*OF_ROWS, "macro_precision", "macro_f1", "specificity")
    for name in names:
        told = row.interval(name)
        if told is not None and row.number(name) is not None:
            ends = limits_of(name, Sample(answers.matrix, alone), malignant).ends()
            if ends is not None:
                _holds(row, name, told, (ends[0], ends[1]), findings)


def _holds(
    row: Row, name: str, told: tuple[float, float], least: tuple[float, float], findings: Findings
) -> None:
    if told[0] > least[0] + LOOSE or told[1] < least[1] - LOOSE:
        findings.refuse(
            row.at(f"intervals.{name}"),
            told,
            f"so many pictures give {said(least)} at the narrowest, each a lesion of its own",
        )


OF = "the accuracies of its subgroups"


def check_fairness(row: Row, parts: Mapping[str, Row], order: Sequence[str], findings: Findings) -> None:
    """Compares the fairness figures with the subgroups.

    Args:
        row: the figures.
        parts: the rows of the subgroups.
        order: the subgroups in the order in which intervals were drawn; empty where it is not known.
        findings: where problems are noted.
    """
    compared = {name: each for name, each in parts.items() if name != UNDECLARED}
    told = [(each.number("accuracy"), each.whole("n")) for each in compared.values()]
    if any(accuracy is None or not n for accuracy, n in told):
        return
    if len(told) < 2:
        for name in ("variance", "gap", "worst", "spread", "spread_standardised"):
            findings.same(row.at(name), row.number(name), None, "fewer than two subgroups")
        return
    accuracies = np.array([accuracy for accuracy, _ in told], dtype=np.float64)
    n = np.array([count for _, count in told], dtype=np.int64)
    figures = {
        "variance": fairness.deviation_of(accuracies) ** 2,
        "gap": fairness.gap_of(accuracies, n),
        "worst": fairness.worst_of(accuracies, n),
        "spread": fairness.spread_of(accuracies),
    }
    for name, gives in figures.items():
        findings.same(row.at(name), row.number(name), float(gives), OF)
    if sorted(order) == sorted(compared):
        _check_intervals(row, [compared[name] for name in order], findings)


def _check_intervals(row: Row, compared: Sequence[Row], findings: Findings) -> None:
    limits = [each.interval("accuracy") for each in compared]
    if None in limits:
        return
    values, n = ([each.figures[name] for each in compared] for name in ("accuracy", "n"))
    low, high = (np.array([one[side] for one in limits if one]) for side in (0, 1))
    for name, found in limits_between(Limits(np.array(values), low, high), np.array(n)).items():
        mine, theirs = row.interval(name), found.ends()
        if mine and theirs and max(abs(a - b) for a, b in zip(mine, theirs, strict=True)) > LOOSE:
            findings.refuse(
                row.at(f"intervals.{name}"), mine, f"the intervals of its subgroups give {said(theirs)}"
            )


def check_standardised(row: Row, differences: object, parts: Mapping[str, Row], findings: Findings) -> None:
    """Compares the standardised spread of two subgroups with their difference."""
    compared = [name for name in parts if name != UNDECLARED]
    spread = row.number("spread_standardised")
    if len(compared) != 2 or spread is None or not isinstance(differences, list):
        return
    for each in differences:
        of = Row("metrics.differences", each if isinstance(each, Mapping) else {})
        value = of.number("value")
        if of.figures.get("figure") == "accuracy_standardised" and value is not None:
            findings.same(row.at("spread_standardised"), spread, abs(value), "the differences")
            interval = ends(of.figures.get("interval"))
            if interval and abs(value) > LOOSE and interval[1] - interval[0] < LOOSE:
                findings.refuse("metrics.differences", interval, "an interval of no width is of no pictures")


PARTS_OF = "its subgroups together"


def check_together(whole: Row, parts: Mapping[str, Row], findings: Findings) -> None:
    """Checks that subgroups add up to all pictures."""
    if not parts:
        return
    before = len(findings.problems)
    for name in COUNTS:
        counts = [row.whole(name) for row in parts.values()]
        told = whole.whole(name)
        if told is not None and None not in counts and sum(map(int, counts)) != told:  # type: ignore[arg-type]
            findings.refuse(whole.at(name), told, f"{PARTS_OF} give {sum(map(int, counts))}")  # type: ignore[arg-type]
    if len(findings.problems) > before:
        return
    if any(row.whole("n") is None for row in parts.values()):
        return
    for name, n in denominators(whole):
        told = whole.times(name, n)
        found = [_times(row, name) for row in parts.values()]
        if told is None or None in found:
            continue
        given = sum(map(int, found))  # type: ignore[arg-type]
        if given != told:
            findings.refuse(
                whole.at(name), whole.number(name), f"that is {told} of {n}, and {PARTS_OF} give {given}"
            )
    if len(parts) == 1:
        _same_pictures(whole, next(iter(parts.values())), findings)


def _times(row: Row, name: str) -> int | None:
    """How many pictures of a row are so; 0 where it has none of the kind."""
    of = dict(denominators(row)).get(name)
    if of == 0 and row.figures.get(name) is None:
        return 0
    return row.times(name, of)


def _same_pictures(whole: Row, part: Row, findings: Findings) -> None:
    """Checks the row that is of all pictures."""
    for name in part.figures:
        told, own = whole.number(name), part.number(name)
        if told is not None and own is not None and abs(told - own) > ROUNDING:
            findings.refuse(
                part.at(name), own, f"it is of all pictures, of which {whole.at(name)} says {told:.4g}"
            )
        mine, theirs = part.interval(name), whole.interval(name)
        if mine and theirs and max(abs(a - b) for a, b in zip(mine, theirs, strict=True)) > ROUNDING:
            findings.refuse(
                part.at(f"intervals.{name}"), mine, f"it is of all pictures, whose interval is {theirs}"
            )


def check_histograms(
    whole: ScoreHistograms, parts: Mapping[str, ScoreHistograms], findings: Findings, *, is_all: bool
) -> None:
    """Checks that histograms of subgroups are a part of those of all pictures.

    Args:
        whole: of all pictures.
        parts: of subgroups, by where they stand.
        findings: where problems are noted.
        is_all: whether the subgroups are all pictures, so that they add up to them.
    """
    if not parts:
        return
    for name in ("confidence", "right", "malignancy", "scores"):
        told = getattr(whole, name)
        each = [getattr(one, name) for one in parts.values()]
        if told is None or None in each:
            continue
        for at, (of_all, *of_parts) in enumerate(_rows(name, told, each)):
            for place, (most, *given) in enumerate(zip(of_all, *of_parts, strict=True)):
                if sum(given) > most or (is_all and sum(given) != most):
                    row = f"{name}.{at}" if name == "scores" else name
                    findings.refuse(
                        f"reference.{row}.{place}", most, f"{PARTS_OF} have {sum(given)} pictures in this bin"
                    )
                    return


def _rows(name: str, told: Any, each: Sequence[Any]) -> list[tuple[tuple[int, ...], ...]]:
    """Histograms of one kind, of all and of the parts together; of scores one for each class."""
    return [(told, *each)] if name != "scores" else list(zip(told, *each, strict=True))


CLASSES: Final = "classes"
HISTOGRAMS: Final = "histograms"
SUBGROUPS: Final = "subgroups"


def recount(manifest: BundleManifest) -> Recounted:
    """Computes again what follows from a manifest's counts, and checks that the rest is possible."""
    metrics, findings, sources = manifest.metrics, Findings(), []
    whole = Row("metrics", metrics)
    by_subgroup = dict(rows("metrics.by_subgroup", metrics.get("by_subgroup")))
    for row in (whole, *by_subgroup.values(), *_parts_of(metrics, by_subgroup)):
        check_possible(row, len(manifest.labels), findings)
    check_differences(metrics.get("differences"), "metrics.differences", findings)
    check_rules(manifest, findings)
    _intersections(metrics, by_subgroup, findings)
    if findings.problems:  # what is impossible by itself need not be compared
        return Recounted(tuple(findings.problems), ())
    answers = answers_by_class(metrics.get("by_class"), manifest.labels, findings)
    if answers is not None:
        check_all(whole, answers, metrics.get("by_class"), manifest.labels, findings)
        sources.append(CLASSES)
    if by_subgroup:
        check_together(whole, by_subgroup, findings)
        _two_classes(by_subgroup, manifest, findings)
        sources.append(SUBGROUPS)
        fairness = metrics.get("fairness")
        if isinstance(fairness, Mapping):
            row = Row("metrics.fairness", fairness)
            check_fairness(row, by_subgroup, _order(manifest), findings)
            check_standardised(row, metrics.get("differences"), by_subgroup, findings)
    if manifest.reference is not None:
        _histograms(manifest, whole, by_subgroup, findings)
        sources += [HISTOGRAMS] if manifest.reference.right is not None else []
    _check_narrowest(manifest, whole, by_subgroup, answers, findings)
    return Recounted(tuple(findings.problems), tuple(sources))


def _parts_of(metrics: Mapping[str, Any], by_subgroup: Mapping[str, Row]) -> list[Row]:
    """The rows of figures beside those of all pictures and of subgroups."""
    found = [Row("metrics.fairness", row)] if isinstance(row := metrics.get("fairness"), Mapping) else []
    return [*found, *(each for _, each in _cells(metrics, by_subgroup))]


def _cells(metrics: Mapping[str, Any], by_subgroup: Mapping[str, Row]) -> list[tuple[str, Row]]:
    """The rows of intersections, each with the subgroup that it is a part of."""
    found = metrics.get("intersections")
    return [
        (name, row)
        for column, values in (found.items() if isinstance(found, Mapping) else ())
        for value, subgroups in (values.items() if isinstance(values, Mapping) else ())
        for name, row in rows(f"metrics.intersections.{column}.{value}", subgroups)
    ]


def _intersections(metrics: Mapping[str, Any], by_subgroup: Mapping[str, Row], findings: Findings) -> None:
    for name, row in _cells(metrics, by_subgroup):
        whole, n = by_subgroup.get(name), row.whole("n")
        most = whole.whole("n") if whole else None
        if n is not None and most is not None and n > most:
            findings.refuse(row.at("n"), n, f"subgroup {name} has {most} pictures")


def _two_classes(by_subgroup: Mapping[str, Row], manifest: BundleManifest, findings: Findings) -> None:
    """Of two classes of both kinds, balanced accuracy and AUROC follow from those of malignancy."""
    malignant = malignant_classes(manifest.labels)
    if len(malignant) != 2 or malignant.all() or not malignant.any():
        return
    for row in by_subgroup.values():
        sensitivity, specificity = (
            row.number(f"malignant_{name}") for name in ("sensitivity", "specificity")
        )
        n, of = row.whole("n"), [row.whole("n_malignant"), row.whole("n_other")]
        if None not in of and 0 in of:  # pictures of one kind alone
            continue
        if sensitivity is None or specificity is None:
            continue
        told = "sensitivity and specificity"
        gives = (sensitivity + specificity) / 2
        findings.same(row.at("balanced_accuracy"), row.number("balanced_accuracy"), gives, told)
        if n and of[0] is not None and of[1] is not None:
            right = sensitivity * of[0] + specificity * of[1]
            findings.same(row.at("accuracy"), row.number("accuracy"), right / n, told)


def _order(manifest: BundleManifest) -> tuple[str, ...]:
    """The subgroups in the order of the job, which names in JSON have lost and histograms keep."""
    return tuple(one.subgroup.name for one in manifest.reference.by_subgroup) if manifest.reference else ()


def _histograms(
    manifest: BundleManifest, whole: Row, by_subgroup: Mapping[str, Row], findings: Findings
) -> None:
    reference = manifest.reference
    assert reference is not None
    given = {one.subgroup.name: one for one in reference.by_subgroup}
    sound = classes.check_sums("reference", reference, whole.whole("n"), findings)
    if sound:
        classes.check_row(whole, reference, findings)
        classes.check_classes(manifest.metrics.get("by_class"), reference, manifest.labels, findings)
        classes.check_decided(whole, reference, manifest, findings)
    for name, one in given.items():
        row = by_subgroup.get(name)
        n = row.whole("n") if row else None
        if row is None:
            findings.refuse(
                f"reference.by_subgroup.{name}",
                f"{sum(one.confidence)} pictures",
                "no figures are told of them",
            )
        elif classes.check_sums(f"reference.by_subgroup.{name}", one, n, findings):
            classes.check_row(row, one, findings)
            classes.check_decided(row, one, manifest, findings)
    if sound:
        check_histograms(
            reference,
            given,
            findings,
            is_all=sum(sum(one.confidence) for one in given.values()) == whole.whole("n"),
        )


def _check_narrowest(
    manifest: BundleManifest,
    whole: Row,
    by_subgroup: Mapping[str, Row],
    answers: Answers | None,
    findings: Findings,
) -> None:
    for row in (whole, *by_subgroup.values()):
        check_intervals(row, findings)
    if answers is not None:
        check_intervals_of_all(whole, answers, malignant_classes(manifest.labels), findings)
