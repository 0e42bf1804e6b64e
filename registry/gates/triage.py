"""The gate on what triage guarantees, `triage`: a release that its own test contradicts is refused."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from registry.bundle.counts.score_bins import SCORE_BINS
from registry.bundle.evaluation import Decided, GroupCounts
from registry.bundle.labels import GLOBAL, UNDECLARED, kinds_of
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.fairness import holm
from registry.bundle.metrics.intervals import clopper_pearson
from registry.bundle.metrics.patient import TOO_FEW
from registry.gate_report import GateFinding
from registry.gates.gate import Case, NumericGate, check, not_applicable

LEVEL: Final = 0.05
"""How often a test refuses, over all guarantees, where all of them hold."""


class TriageGate(NumericGate):
    """Whether the test contradicts what triage guarantees.

    Guaranteed is, of each kind of malignancy in each subgroup that a version rules lesions out for, that at
    most `missed` are ruled out; and of lesions that are not malignant, that at most `false_alarms` are
    urgent: of its subgroup, for the global version over all. Each is tested against its test images:
    with x of n so, p = P(X >= x) of X ~ Binomial(n, limit), one-sided and exact, adjusted for the number of
    guarantees (Holm 1979); p < 0.05 refuses. Several images of one lesion count as several.

    What is not guaranteed, as where a kind has too few lesions in a skin tone, is not judged: nothing is
    ruled out there. Nor is a kind whose number in the test is too few to tell.
    """

    missing = "test again, counting what triage does to images of"
    passes = (
        "what triage guarantees, of each kind of malignancy in every subgroup and of false alarms: not "
        "contradicted by the test (one-sided exact test, 0.05 over all guarantees)"
    )
    name: Literal["triage"] = "triage"

    def advice(self, finding: GateFinding) -> str:
        """Thresholds that do not hold are chosen again."""
        return self.missing if finding.value is None else "calibrate again on more images of"

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each guarantee."""
        own = {one.subgroup.name for one in case.manifests if not one.subgroup.is_global}
        guarantees = [one for manifest in case.manifests for one in _guarantees(manifest, own)]
        if not guarantees:
            yield not_applicable("triage", "no version has triage")
        adjusted = iter(holm([one.p for one in guarantees if one.seen is not None]))
        for one in guarantees:
            if one.why:
                yield not_applicable(one.measure, one.why, one.subgroup)
            elif one.seen is None:
                yield check(one.subgroup, one.measure, None, "at most", one.limit)
            else:
                p, (x, n) = next(adjusted), one.seen
                yield GateFinding(
                    subgroup=one.subgroup,
                    measure=one.measure,
                    value=x / n,
                    n=n,
                    interval=clopper_pearson(x, n),
                    limit=one.limit,
                    verdict="refused" if p < LEVEL else "passed",
                    note=f"{x} of {n}, adjusted p {p:.2g}",
                )


@dataclass(frozen=True)
class _Guarantee:
    """What triage guarantees, with what the test has seen of it.

    Attributes:
        subgroup: to whom.
        measure: of what.
        limit: the largest share.
        seen: of how many test images so many are so; None where that was not tested.
        why: why it is not judged; empty where it is.
    """

    subgroup: str
    measure: str
    limit: float
    seen: tuple[int, int] | None = None
    why: str = ""

    @property
    def p(self) -> float:
        """How often so many or more would be seen at the limit."""
        from scipy.special import betainc  # see `intervals.exact_low`

        x, n = self.seen or (0, 1)
        return float(betainc(x, n - x + 1, self.limit)) if x else 1.0


def _guarantees(manifest: BundleManifest, own: Collection[str]) -> Iterator[_Guarantee]:
    """What triage of one version guarantees to its subgroup, or to each that the global test names.

    Args:
        manifest: of the version.
        own: the subgroups with a version of their own.
    """
    rules = [
        one for one in (manifest.triage, *(each.triage for each in manifest.patterns)) if one is not None
    ]
    if not rules:
        return
    name, limit = manifest.subgroup.name, max(one.missed for one in rules)
    by_name = {} if manifest.evaluation is None else dict(manifest.evaluation.by_subgroup)
    everybody = GroupCounts() if manifest.evaluation is None else manifest.evaluation.all
    of_version = everybody if manifest.subgroup.is_global else by_name.get(name, everybody)
    groups = {one: row for one, row in by_name.items() if one not in (UNDECLARED, GLOBAL)}
    if not manifest.subgroup.is_global or not groups:
        groups = {name: of_version}
    rules_out = any(one.ruled_out_below for one in rules)
    for subgroup, row in groups.items():
        for kind in kinds_of(manifest.labels):
            measure = f"{kind} ruled out"
            if manifest.subgroup.is_global and subgroup in own:
                measure += " by the version for everybody"
            if not rules_out:
                why = f"{measure}: nothing is, since too few lesions show how many are missed"
                yield _Guarantee(subgroup, measure, limit, why=why)
            else:
                yield _missed(_Guarantee(subgroup, measure, limit), manifest, kind, row)
    measure, alarms = "false alarms", max(one.false_alarms for one in rules)
    if all(one.urgent_from == SCORE_BINS for one in rules):
        yield _Guarantee(name, measure, alarms, why="false alarms: nothing is urgent")
    else:
        decided = of_version.decided or Decided()
        yield _Guarantee(name, measure, alarms, _seen(decided.urgent_other, of_version.n_other))


def _missed(one: _Guarantee, manifest: BundleManifest, kind: str, row: GroupCounts) -> _Guarantee:
    """How many of a kind the test has ruled out; of one kind alone these are all malignant images."""
    decided = row.decided or Decided()
    if len(kinds_of(manifest.labels)) == 1:
        return replace(one, seen=_seen(decided.ruled_out_malignant, row.n_malignant))
    if (of := row.by_kind.get(kind)) is not None:
        return replace(one, seen=_seen(of.ruled_out, of.n))
    untested = decided.ruled_out_malignant is None
    return one if untested else replace(one, why=f"{kind}: {TOO_FEW}")


def _seen(x: int | None, n: int | None) -> tuple[int, int] | None:
    return None if x is None or not n else (x, n)
