"""All figures of a manifest, recounted."""

from collections.abc import Mapping
from typing import Any, Final

from registry.bundle.manifest.labels import malignant_classes
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.recount import by_histograms, parts
from registry.bundle.recount.between import check_fairness, check_standardised
from registry.bundle.recount.classes import Answers, answers_by_class, check_all
from registry.bundle.recount.narrowest import check_intervals, check_intervals_of_all
from registry.bundle.recount.possible import check_differences, check_possible
from registry.bundle.recount.problem import Findings, Recounted, Row, rows
from registry.bundle.recount.rules import check_rules

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
        parts.check_together(whole, by_subgroup, findings)
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
    found = (
        [Row("metrics.fairness", fairness)]
        if isinstance(fairness := metrics.get("fairness"), Mapping)
        else []
    )
    return [*found, *(row for _, row in _cells(metrics, by_subgroup))]


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
    sound = by_histograms.check_sums("reference", reference, whole.whole("n"), findings)
    if sound:
        by_histograms.check_row(whole, reference, findings)
        by_histograms.check_classes(manifest.metrics.get("by_class"), reference, manifest.labels, findings)
        by_histograms.check_decided(whole, reference, manifest, findings)
    for name, one in given.items():
        row = by_subgroup.get(name)
        n = row.whole("n") if row else None
        if row is None:
            findings.refuse(
                f"reference.by_subgroup.{name}",
                f"{sum(one.confidence)} pictures",
                "no figures are told of them",
            )
        elif by_histograms.check_sums(f"reference.by_subgroup.{name}", one, n, findings):
            by_histograms.check_row(row, one, findings)
            by_histograms.check_decided(row, one, manifest, findings)
    if sound:
        parts.check_histograms(
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
