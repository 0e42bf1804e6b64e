"""The gate on what triage guarantees, `triage`: a release that its own test contradicts is refused."""

from collections.abc import Collection, Iterator
from typing import Final, Literal, NamedTuple

from registry.bundle.evaluation import Decided, GroupCounts
from registry.bundle.labels import GLOBAL, UNDECLARED, kinds_of
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.fairness import holm
from registry.bundle.metrics.intervals import clopper_pearson
from registry.bundle.metrics.patient import TOO_FEW
from registry.bundle.score_bins import SCORE_BINS
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
        asked = [one for manifest in case.manifests for one in _guarantees(manifest, own)]
        if not asked:
            yield not_applicable("triage", "no version has triage")
        adjusted = iter(holm([one.p for one in asked if isinstance(one, _Seen)]))
        for one in asked:
            if isinstance(one, GateFinding):
                yield one
                continue
            p = next(adjusted)
            yield GateFinding(
                subgroup=one.subgroup,
                measure=one.measure,
                value=one.x / one.n,
                n=one.n,
                interval=clopper_pearson(one.x, one.n),
                limit=one.limit,
                verdict="refused" if p < LEVEL else "passed",
                note=f"{one.x} of {one.n}, adjusted p {p:.2g}",
            )


class _Seen(NamedTuple):
    """A guarantee to a subgroup, of which the test has seen something.

    At most the share `limit` is so, of what `measure` says, and `x` of `n` test images were.
    """

    subgroup: str
    measure: str
    limit: float
    x: int
    n: int

    @property
    def p(self) -> float:
        """How often so many or more would be seen at the limit."""
        from scipy.special import betainc  # see `intervals.exact_low`

        return float(betainc(self.x, self.n - self.x + 1, self.limit)) if self.x else 1.0


def _seen(subgroup: str, measure: str, limit: float, x: int | None, n: int | None) -> _Seen | GateFinding:
    """What is judged of a guarantee; refused where it was not tested."""
    if x is None or not n:
        return check(subgroup, measure, None, "at most", limit)
    return _Seen(subgroup, measure, limit, x, n)


def _guarantees(manifest: BundleManifest, own: Collection[str]) -> Iterator[_Seen | GateFinding]:
    """What triage of one version guarantees to its subgroup, or to each that the global test names.

    `own` are the subgroups with a version of their own. What is not judged comes as its finding.
    """
    rules = [one.triage for one in manifest.all_rules if one.triage is not None]
    if not rules:
        return
    name, limit = manifest.subgroup.name, max(one.missed for one in rules)
    by_name = {} if manifest.evaluation is None else dict(manifest.evaluation.by_subgroup)
    everybody = GroupCounts() if manifest.evaluation is None else manifest.evaluation.all
    of_version = everybody if manifest.subgroup.is_global else by_name.get(name, everybody)
    groups = {one: row for one, row in by_name.items() if one not in (UNDECLARED, GLOBAL)}
    if not manifest.subgroup.is_global or not groups:
        groups = {name: of_version}
    kinds = kinds_of(manifest.labels)
    for subgroup, row in groups.items():
        missed = (row.decided or Decided()).ruled_out_malignant
        for kind in kinds:
            measure = f"{kind} ruled out"
            if manifest.subgroup.is_global and subgroup in own:
                measure += " by the version for everybody"
            if not any(one.ruled_out_below for one in rules):
                why = f"{measure}: nothing is, since too few lesions show how many are missed"
                yield not_applicable(measure, why, subgroup)
            elif len(kinds) == 1:  # all malignant images are of it
                yield _seen(subgroup, measure, limit, missed, row.n_malignant)
            elif (of := row.by_kind.get(kind)) is not None:
                yield _seen(subgroup, measure, limit, of.ruled_out, of.n)
            elif missed is None:
                yield _seen(subgroup, measure, limit, None, None)
            else:
                yield not_applicable(measure, f"{kind}: {TOO_FEW}", subgroup)
    measure = "false alarms"
    if all(one.urgent_from == SCORE_BINS for one in rules):
        yield not_applicable(measure, f"{measure}: nothing is urgent", name)
    else:
        urgent = (of_version.decided or Decided()).urgent_other
        yield _seen(name, measure, max(one.false_alarms for one in rules), urgent, of_version.n_other)
