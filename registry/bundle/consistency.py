"""Consistency of a bundle: numbers of its calibration and its test that contradict each other.

A bundle's counts are the claim of its uploader, until a signature says whose they are. What is refused
here no pictures could have given: parts that do not add up to the whole, histograms of another number of
pictures, intervals narrower than so many lesions make them, limits that so few lesions cannot prove.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from registry.bundle.counts import ScoreHistograms
from registry.bundle.evaluation import LOOSE, SHARES, Evaluation, GroupCounts, ReferenceHistograms
from registry.bundle.labels import Label, malignant_classes
from registry.bundle.manifest import BundleManifest, PatternCalibration, Triage
from registry.bundle.metrics.intervals import clopper_pearson, exact_high, exact_low


def contradictions(manifest: BundleManifest) -> list[str]:
    """What no calibration and no test could have shown, a sentence each; empty where all numbers agree."""
    problems = [*_rules_that_cannot_be(manifest)]
    if manifest.evaluation is not None:
        problems += _counts_that_disagree(manifest.evaluation, manifest.labels, manifest.reference)
    return problems


def _rules_that_cannot_be(manifest: BundleManifest) -> Iterator[str]:
    """Limits that no calibration lesions show, of the manifest and of its patterns."""
    named: dict[str, BundleManifest | PatternCalibration] = {"": manifest}
    named |= {f"patterns.{one.pattern.name}.": one for one in manifest.patterns}
    for place, rules in named.items():
        point = rules.working_point
        if point is not None:
            n = np.array(float(point.n))
            most = float(exact_low(n, n, 2 * point.level - 1))
            if point.sensitivity_low > most + LOOSE:
                yield (
                    f"{place}working_point.sensitivity_low is {point.sensitivity_low:.4g}, and {point.n} "
                    f"malignant lesions, all of them found, show {most:.4g} at most"
                )
        if rules.triage is not None:
            yield from _misses_not_shown(rules.triage, place)
        for node in rules.conclusions.nodes:
            n, wrong = np.array(float(node.n)), np.array(float(node.wrong))
            least = float(exact_high(wrong, n, 2 * rules.conclusions.level - 1))
            if node.risk_high < least - LOOSE:
                yield (
                    f"{place}conclusions says that at most {node.risk_high:.4g} of {node.code} are "
                    f"wrong, and {node.wrong} of {node.n} show {least:.4g} at best"
                )
    for one in manifest.patterns:
        if one.set_size is not None and one.set_size > len(manifest.labels) + LOOSE:
            classes = len(manifest.labels)
            yield f"patterns.{one.pattern.name}.set_size is {one.set_size:.4g} of {classes} classes"


def _misses_not_shown(triage: Triage, place: str) -> Iterator[str]:
    for kind in triage.kinds:
        x, n = np.array(float(kind.missed)), np.array(float(kind.n))
        least = float(exact_high(x, n, 2 * triage.level - 1)) if kind.n else 0.0
        if kind.high < least - LOOSE:
            yield (
                f"{place}triage says that at most {kind.high:.4g} of {kind.kind} are missed, and "
                f"{kind.missed} of {kind.n} show {least:.4g} at best"
            )


def _counts_that_disagree(
    found: Evaluation, labels: Sequence[Label], reference: ReferenceHistograms | None
) -> list[str]:
    whole, groups = found.all, found.by_subgroup
    problems = [*_classes_that_disagree(found, labels)]
    parts = [group.counts() for group in groups.values()]
    for name, count in whole.counts().items() if groups else ():
        total, known = sum(part.get(name, 0) for part in parts), all(name in part for part in parts)
        if total > count or (known and total < count):
            problems.append(f"{name} is {count} over all test pictures, and {total} over their subgroups")
    for name, group in {"all": whole, **groups}.items():
        problems += [f"in {name}, {each}" for each in _intervals_too_narrow(group)]
        counts = group.counts()
        if (sets := counts.get("set_classes", 0)) > counts.get("n", sets) * len(labels):
            problems.append(f"in {name}, prediction sets of {sets} classes are more than all sets full")
    problems += _estimates_that_follow(found, labels, reference)
    if reference is not None:
        problems += _histograms_that_disagree("all", reference, whole)
        for one in reference.by_subgroup:
            name = one.subgroup.name
            if name not in groups:
                problems.append(f"there are histograms of {name}, and no counts")
                continue
            problems += _histograms_that_disagree(name, one, groups[name])
            if any(
                np.any(np.array(part) > np.array(of_all))
                for part, of_all in zip(one.rows, reference.rows, strict=False)
            ):
                problems.append(f"a histogram of {name} has more pictures in a bin than that of all")
    return problems


def _classes_that_disagree(found: Evaluation, labels: Sequence[Label]) -> Iterator[str]:
    if not found.by_class:
        return
    rows = [found.by_class[label.code] for label in labels]
    malignant, whole = malignant_classes(labels), found.all
    n, right = (np.array([getattr(row, name) for row in rows]) for name in ("n", "right"))
    given = sum(row.given or 0 for row in rows)
    of_classes = {
        "n": (whole.n, n.sum()),
        "n_malignant": (whole.n_malignant, n[malignant].sum()),
        "right": (whole.right, right.sum()),
    }
    for name, (of_all, total) in of_classes.items():
        if of_all is not None and of_all != total:
            yield f"{name} is {of_all} over all test pictures, and {total} over their classes"
    if given > n.sum() or (given < n.sum() and all(n)):
        yield f"the classes were given as {given} answers, and each of {n.sum()} pictures has one"
    if whole.found is not None and whole.cleared is not None and whole.n_other is not None and all(n):
        called = sum(
            row.given or 0 for row, is_malignant in zip(rows, malignant, strict=True) if is_malignant
        )
        if (other := whole.found + whole.n_other - whole.cleared) != called:
            yield f"found and cleared make {other} malignant answers, and the classes {called}"
    for name, count, side in (("found", whole.found, malignant), ("cleared", whole.cleared, ~malignant)):
        if count is not None and count < right[side].sum():
            yield f"{name} is {count}, and {right[side].sum()} of them were answered with their own class"


def _intervals_too_narrow(group: GroupCounts) -> Iterator[str]:
    """Intervals that are narrower than those of as many lesions with a picture each."""
    for name, x, n in group.shares():
        interval = group.intervals.get(name)
        if interval is None or not n:
            continue
        low, high = clopper_pearson(x, n)
        if interval[0] > low + LOOSE or interval[1] < high - LOOSE:
            yield (
                f"the interval of {name} is {interval[0]:.4g} to {interval[1]:.4g}, and {x} of {n} pictures "
                f"give {low:.4g} to {high:.4g} at the narrowest"
            )


def _estimates_that_follow(
    found: Evaluation, labels: Sequence[Label], reference: ReferenceHistograms | None
) -> Iterator[str]:
    """Estimates of metrics that follow from counts of classes, or from histograms."""
    bare = {name: group.model_copy(update={"estimates": {}}) for name, group in found.by_subgroup.items()}
    whole = found.all.model_copy(update={"estimates": {}})
    computed = found.model_copy(update={"all": whole, "by_subgroup": bare}).metrics(labels, reference)
    rows = [("all", found.all, computed)]
    rows += [(name, group, computed["by_subgroup"][name]) for name, group in found.by_subgroup.items()]
    for name, group, row in rows:
        if twice := sorted(group.estimates.keys() & row.keys()):
            yield f"in {name}, {', '.join(twice)} follow from counts, and are no estimates"
        told = {metric for metric, value in group.estimates.items() if value is not None}
        if uncounted := sorted(told & {*SHARES, "set_size"}):
            yield f"in {name}, {', '.join(uncounted)} are shares of pictures, and their counts are not there"


def _histograms_that_disagree(name: str, given: ScoreHistograms, group: GroupCounts) -> Iterator[str]:
    named = {"confidence": given.confidence, "malignancy": given.malignancy}
    named |= {f"scores.{k}": row for k, row in enumerate(given.scores)}
    named["distances"] = getattr(given, "distances", None)
    for kind, row in named.items():
        if row is not None and (min(row) < 0 or (group.n is not None and sum(row) != group.n)):
            yield f"the histogram {kind} of {name} is of {sum(row)} pictures, and there are {group.n}"
    if given.right is not None:
        right = np.array(given.right)
        if right.min() < 0 or (right > np.array(given.confidence)).any():
            yield f"the histogram of right answers of {name} has more in a bin than there are answers"
        if group.right is not None and right.sum() != group.right:
            yield f"the histogram of right answers of {name} is of {right.sum()}, and there are {group.right}"
