"""What every gate is, what it is shown, and how one that compares numbers with limits judges.

    class LightGate(NumericGate):
        remedy = "test on more images of"
        passes = "test accuracy of every subgroup: at least {minimum:.3f}"
        name: Literal["light"] = "light"
        minimum: float

        def findings(self, case):
            for one in tested(case.manifests):
                yield check(one.name, "accuracy", one.figure("accuracy"), "at least", self.minimum)

Each subgroup counts with the test metrics of the version that answers for it: its own where it has one, the
global one elsewhere.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from registry.bundle.frozen import Frozen
from registry.bundle.labels import GLOBAL, UNDECLARED, kinds_of, malignant_classes
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.patient import told
from registry.gate_report import OVERRIDE, Bound, GateFinding, GateResult, SubgroupFigure, worst_of

Interval = tuple[float, float]
Need = Literal["running", "signatures", "metrics_signatures", "outcomes"]

ROUNDING = 1e-9  # 0.8 - 0.7 is a little over 0.1 in floating point, and yet within a limit of 0.1


@dataclass(frozen=True)
class SubgroupOutcomes:
    """The outcomes of the patients of one subgroup under one version.

    Attributes:
        subgroup: its name.
        malignant: how many outcomes are malignant.
        sensitivity: its 95 % interval at the working point, corrected for who is followed up, if known.
        broken: guarantees that were broken, each in a few words.
    """

    subgroup: str
    malignant: int
    sensitivity: Interval | None = None
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One release to judge; mappings are by the name of a version's subgroup unless said otherwise.

    Attributes:
        manifests: of the release that would result, the global one among them.
        running: of the release that the alias points to; empty where it points to none.
        unreadable: why the running release cannot be read; empty where it can.
        promoter: who promotes.
        promoter_key: the fingerprint of the promoter's key; empty where the promotion is not signed.
        approvals: who has approved exactly this release for this alias since the alias last moved, and signed
            that: names by fingerprints.
        signed_by: proven signers of each version.
        metrics_signed_by: the fingerprint of the key that signed the metrics, where the signature holds.
        outcomes: of patients under each version, where a gate needs them.
        running_outcomes: the same of the release that the alias points to.
        outcomes_unreadable: why outcomes cannot be read; empty where they can.
        approve_with: the command that approves this release.
    """

    manifests: tuple[BundleManifest, ...]
    running: tuple[BundleManifest, ...] = ()
    unreadable: str = ""
    promoter: str = ""
    promoter_key: str = ""
    approvals: Mapping[str, str] = field(default_factory=dict)
    signed_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics_signed_by: Mapping[str, str] = field(default_factory=dict)
    outcomes: Mapping[str, tuple[SubgroupOutcomes, ...]] = field(default_factory=dict)
    running_outcomes: Mapping[str, tuple[SubgroupOutcomes, ...]] = field(default_factory=dict)
    outcomes_unreadable: str = ""
    approve_with: str = "dermfed-registry approve"


class GateConfig(Frozen):
    """One gate with its limits; strict, so that `yes` or a text never becomes a limit.

    Attributes:
        name: what a gate set calls it.
        needs: what it must be shown besides the release and the approvals.
        passes: what passes, in a sentence in which settings stand in braces.
    """

    model_config = ConfigDict(strict=True)
    needs: ClassVar[frozenset[Need]] = frozenset()
    passes: ClassVar[str]
    name: str

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return self.passes.format(**dict(self))

    @abstractmethod
    def judge(self, case: Case) -> GateResult:
        """Judge a release."""


class NumericGate(GateConfig):
    """A gate that compares numbers with limits; verdict and sentence follow from its findings.

    Attributes:
        remedy: what helps a subgroup whose number lies on the wrong side.
        missing: what helps one without a number.
        counts: whether the numbers are counts, of which 0 is none at all.
        digits: how the numbers are written.
        needs_malignant: whether it judges nothing where no label is malignant.
    """

    remedy: ClassVar[str] = "improve the model for"
    missing: ClassVar[str] = "test on images of"
    counts: ClassVar[bool] = False
    digits: ClassVar[str] = ".3f"
    needs_malignant: ClassVar[bool] = False

    @abstractmethod
    def findings(self, case: Case) -> Iterable[GateFinding]:
        """One finding for each subgroup or version, or a single one without a subgroup for the release."""

    def advice(self, finding: GateFinding) -> str:
        """What to do about a refused finding; the names of the subgroups follow it."""
        return self.missing if finding.value is None else self.remedy

    def judge(self, case: Case) -> GateResult:
        """Judge a release."""
        unclear = tuple(_without_malignant(case.manifests)) if self.needs_malignant else ()
        findings = unclear or tuple(self.findings(case))
        failed = [one for one in findings if one.verdict == "refused"]
        margins = {
            k: (one.value - one.limit) * (1 if one.bound == "at least" else -1)
            for k, one in enumerate(findings)
            if one.value is not None and one.limit is not None
        }
        worst = findings[min(margins, key=lambda k: margins[k])] if margins else None
        if failed:
            steps: dict[str, list[str]] = {}
            for one in failed:
                if one.subgroup and one.subgroup not in steps.setdefault(self.advice(one), []):
                    steps[self.advice(one)].append(one.subgroup)
            advice = "; ".join(f"{step} {', '.join(names)}" for step, names in steps.items())
            advice = f". {advice[0].upper()}{advice[1:]}" if advice else ""
            detail = f"{'; '.join(map(self._describe, failed))}{advice}, {OVERRIDE}"
        elif worst is not None:
            detail = f"closest to the limit: {self._describe(worst)}"
        else:
            detail = "; ".join(dict.fromkeys(one.note for one in findings))
        untested = (one.subgroup for one in failed if one.value is None or (self.counts and not one.value))
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=worst.value if worst else None,
            limit=(worst or findings[0]).limit,
            interval=worst.interval if worst else None,
            worst=_figure(worst) if worst else None,
            untested=tuple(dict.fromkeys(name for name in untested if name)),
            findings=findings,
            detail=detail,
        )

    def _describe(self, one: GateFinding) -> str:
        if one.value is None or one.limit is None:
            return f"{one.measure} for {one.subgroup}: {one.note}" if one.subgroup else one.note
        facts = [] if one.n is None else [f"n {one.n}"]
        if one.interval is not None:
            facts.append(f"95 % interval {one.interval[0]:.3f} to {one.interval[1]:.3f}")
        more = f" ({', '.join(filter(None, [*facts, one.note]))})" if facts or one.note else ""
        digits = ".0f" if self.counts else self.digits
        value, limit = format(one.value, digits), format(one.limit, digits)
        return f"{one.measure} for {one.subgroup}: {value}{more}, where {one.bound} {limit} passes"


def check(
    subgroup: str,
    measure: str,
    found: SubgroupFigure | float | None,
    bound: Bound,
    limit: float,
    *,
    judged: float | None = None,
    interval: Interval | None = None,
    note: str = "",
) -> GateFinding:
    """Compare a number with a limit, which itself passes; no number is refused.

    Args:
        subgroup: whose it is.
        measure: what it is.
        found: the metric as tested, or the plain number.
        bound: on which side of the limit it must lie.
        limit: the limit.
        judged: the number that decides, where it is not `found` itself.
        interval: that of a plain number.
        note: what else to say; `never tested` where nothing was found and nothing is said.
    """
    figure = found if isinstance(found, SubgroupFigure) else None
    value = figure.value if figure else found if isinstance(found, int | float) else None
    decides = value if judged is None else judged
    return GateFinding(
        subgroup=subgroup,
        measure=measure,
        value=value,
        n=figure.n if figure else None,
        interval=figure.interval if figure else interval,
        bound=bound,
        limit=limit,
        verdict="passed" if decides is not None and lies(decides, bound, limit) else "refused",
        note=note or ("never tested" if value is None else ""),
    )


def not_applicable(measure: str, why: str, subgroup: str = "") -> GateFinding:
    """The finding of a gate that has nothing to judge, of a subgroup or of the whole release."""
    return GateFinding(subgroup=subgroup, measure=measure, verdict="not applicable", note=why)


def refused(measure: str, why: str, subgroup: str = "") -> GateFinding:
    """The finding of a gate that refuses without a number."""
    return GateFinding(subgroup=subgroup, measure=measure, verdict="refused", note=why)


def lies(value: float, bound: Bound, limit: float) -> bool:
    """Whether a value lies on the right side of a limit, or on it."""
    return value >= limit - ROUNDING if bound == "at least" else value <= limit + ROUNDING


def _figure(one: GateFinding) -> SubgroupFigure | None:
    if one.value is None or one.n is None:
        return None
    return SubgroupFigure(subgroup=one.subgroup, value=one.value, n=one.n, interval=one.interval)


def _without_malignant(manifests: Sequence[BundleManifest]) -> Iterator[GateFinding]:
    """One finding where no label is malignant; refused where some labels do not say what they are.

    Were such gates not to apply to labels of unknown kind, leaving the word out would be the way around them.
    """
    labels = for_everybody(manifests).labels
    if malignant_classes(labels).any():
        return
    if unknown := [label.code for label in labels if label.malignancy == "unknown"]:
        note = (
            f"no label of the model is malignant, and {', '.join(unknown)} do not say whether they are. Set "
            "`malignancy` to benign, premalignant or malignant for each label in the job"
        )
        yield refused("malignant labels", note)
    else:
        yield not_applicable("malignant labels", "no label of the model is malignant")


def for_everybody(manifests: Sequence[BundleManifest]) -> BundleManifest:
    """The global one."""
    return next(one for one in manifests if one.subgroup.is_global)


def answers_for(manifests: Sequence[BundleManifest]) -> dict[str, BundleManifest]:
    """The manifest that answers for each subgroup: of those with their own, and of the global test's."""
    own = {one.subgroup.name: one for one in manifests if not one.subgroup.is_global}
    everybody = for_everybody(manifests)
    named = [name for name in figures_by_subgroup(everybody) if name not in (UNDECLARED, GLOBAL)]
    return {name: own.get(name, everybody) for name in sorted({*own, *named})}


@dataclass(frozen=True)
class Tested:
    """A subgroup with the version that answers for it, and what the test of that version has of it.

    Attributes:
        name: the subgroup's; `global` of all images.
        manifest: of the version.
        row: the metrics; empty where the subgroup was never tested.
    """

    name: str
    manifest: BundleManifest
    row: Mapping[str, Any]

    @property
    def n(self) -> int:
        """Its test images."""
        return self.row.get("n") or 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of malignancy by which sensitivities are judged; none where there is but one."""
        kinds = kinds_of(self.manifest.labels)
        return kinds if len(kinds) > 1 else ()

    def of(self, kind: str) -> Mapping[str, Any]:
        """The metrics of its malignant images of a kind, empty where they are too few to tell; or of all."""
        found: Mapping[str, Any] = self.row.get("by_kind", {}).get(kind, {}) if kind else self.row
        return found

    def figure(self, metric: str, kind: str = "", among: str = "n") -> SubgroupFigure | None:
        """One metric, of a kind of malignancy or of all images; None where it was not tested.

        `among` names the number of images that it is of.
        """
        found, n = told(self.of(kind), metric), self.of(kind).get(among)
        if found.value is None or not n:
            return None
        return SubgroupFigure(subgroup=self.name, value=found.value, n=n, interval=found.interval)


def tested(manifests: Sequence[BundleManifest]) -> list[Tested]:
    """Each subgroup of a release as it was tested, by name.

    Where the test names no subgroup, all its images count as `global`.
    """
    rows = {
        name: (one, figures_by_subgroup(one).get(name, {})) for name, one in answers_for(manifests).items()
    }
    everybody = for_everybody(manifests)
    rows = rows or {GLOBAL: (everybody, everybody.metrics)}
    return [Tested(name, one, row if row.get("n") else {}) for name, (one, row) in rows.items()]


def figures_by_subgroup(manifest: BundleManifest) -> Mapping[str, Mapping[str, Any]]:
    """The test metrics of each subgroup."""
    found: Mapping[str, Mapping[str, Any]] = manifest.metrics.get("by_subgroup", {})
    return found


def difference_interval(first: SubgroupFigure, second: SubgroupFigure) -> Interval | None:
    """The 95 % interval of first - second from the intervals of both, for estimates that are independent.

    With d = p1 - p2 it is MOVER (Zou & Donner 2008, Statistics in Medicine 27, 1693-1702):

        d - sqrt((p1 - l1)^2 + (u2 - p2)^2)  to  d + sqrt((u1 - p1)^2 + (p2 - l2)^2)
    """
    if first.interval is None or second.interval is None:
        return None
    p1, (l1, u1) = first.value, first.interval
    p2, (l2, u2) = second.value, second.interval
    return p1 - p2 - math.hypot(p1 - l1, u2 - p2), p1 - p2 + math.hypot(u1 - p1, p2 - l2)
