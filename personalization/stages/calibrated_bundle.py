"""Bundles with what calibration found: temperatures, thresholds, what is familiar, and figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from personalization.calibration.at_thresholds import LEVEL
from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.calibration.triage import TriageFit
from registry.bundle.cases import Pattern, number_of_patterns, pattern_number
from registry.bundle.conclusions import Conclusions
from registry.bundle.counting import Block
from registry.bundle.counts import Decisions
from registry.bundle.evaluation import Evaluation, ReferenceHistograms, SubgroupHistograms
from registry.bundle.labels import TonePatients, kinds_of
from registry.bundle.manifest import (
    BundleManifest,
    Conformal,
    Guarantee,
    KindMissed,
    ModelFile,
    PatternCalibration,
    WorkingPoint,
)
from registry.bundle.manifest import Temperature as TemperatureEntry
from registry.bundle.manifest import Triage as TriageEntry
from registry.bundle.metrics.selective import decided
from registry.bundle.score_bins import smallest_cell
from training.errors import MessageError
from training.jobs.stages.base import BundleDraft, StageContext
from training.jobs.stages.export import subgroup_of
from training.models.export import set_temperature
from training.rounds.requests import Blocks


@dataclass(frozen=True)
class Fit:
    """Temperature and thresholds of one model, for all cases or those of a pattern."""

    temperature: Temperature
    conformal: ConformalThreshold
    working_point: WorkingPoint | None = None
    triage: TriageFit | None = None
    conclusions: Conclusions = field(default_factory=Conclusions)

    def facts(self) -> dict[str, Any]:
        """As `summary.json` has it."""
        point = self.working_point and self.working_point.model_dump()
        return {
            **asdict(self),
            "working_point": point,
            "conclusions": self.conclusions.model_dump(mode="json"),
        }


def updated(bundle: BundleDraft, **fields: Any) -> BundleDraft:
    """The bundle with other fields in its manifest."""
    return replace(bundle, manifest=bundle.manifest.model_copy(update=fields))


def with_temperature(
    bundle: BundleDraft, temperature: Temperature, of_patterns: Mapping[Pattern, Temperature]
) -> BundleDraft:
    """The bundle with its temperature, and those of patterns, in the graph."""
    case = bundle.manifest.case
    values: float | list[float] = temperature.value
    if case is not None:
        values = [temperature.value] * number_of_patterns(case)
        for pattern, own in of_patterns.items():
            values[pattern_number(pattern, case)] = own.value
    graph = set_temperature(bundle.graph, values)
    return replace(updated(bundle, file=ModelFile.of(graph)), graph=graph)


def with_thresholds(
    bundle: BundleDraft, fit: Fit, of_patterns: Mapping[Pattern, Fit], least: int
) -> BundleDraft:
    """The bundle with its rules and their guarantees.

    A pattern of too few cases for a guarantee has no rules of its own: see `BundleManifest.under`.

    Args:
        bundle: whose graph was calibrated.
        fit: of all cases.
        of_patterns: of those of single patterns.
        least: how many lesions of a kind of malignancy there are, at least, where a bundle tells of them.
    """
    patterns = tuple(
        PatternCalibration(pattern=pattern, **rules(own, bundle.manifest, least))
        for pattern, own in of_patterns.items()
        if own.conformal.guaranteed
    )
    basis = "cross-fitted" if bundle.folds else "split"
    return updated(bundle, **rules(fit, bundle.manifest, least), basis=basis, patterns=patterns)


def rules(fit: Fit, manifest: BundleManifest, least: int) -> dict[str, Any]:
    """What was fitted, as the manifest has it for all cases or for a pattern."""
    temperature, sets = fit.temperature, fit.conformal
    for_whom: Guarantee = "global" if manifest.subgroup.is_global else "subgroup"
    return {
        "temperature": TemperatureEntry(
            value=temperature.value, n=temperature.n, shrunk=temperature.value != temperature.fitted
        ),
        "conformal": Conformal(
            alpha=round(1 - sets.coverage, 12),
            threshold_bin=sets.threshold_bin,
            n=sets.n,
            guarantee=for_whom if sets.guaranteed else "none",
        ),
        "working_point": fit.working_point,
        "triage": None if fit.triage is None else triage_entry(fit.triage, kinds_of(manifest.labels), least),
        "conclusions": fit.conclusions,
    }


def triage_entry(fitted: TriageFit, kinds: Sequence[str], least: int) -> TriageEntry:
    """Fitted triage as a manifest has it, without counts of a kind of fewer than `least` lesions.

    Where one has as few, no kind has its number: it would follow from the others and the working point.
    """
    ruled_out, urgent = fitted.ruled_out, fitted.urgent
    all_told = not any(0 < share.n < least for share in ruled_out.missed)
    return TriageEntry(
        missed=fitted.missed,
        false_alarms=fitted.false_alarms,
        level=LEVEL,
        ruled_out_below=ruled_out.below,
        kinds=tuple(
            KindMissed(kind=kind, n=share.n, missed=share.x, high=share.high)
            for kind, share in zip(kinds, ruled_out.missed, strict=True)
            if all_told
        ),
        ruled_out_low=ruled_out.others_low,
        missed_high=ruled_out.missed_high,
        urgent_from=urgent.from_bin,
        n_other=urgent.false_alarms.n,
        false_alarms_seen=urgent.false_alarms.x,
        false_alarms_high=urgent.false_alarms_high,
        urgent_low=urgent.found_low,
    )


def with_pattern_figures(bundle: BundleDraft, tests: Mapping[str, Blocks]) -> BundleDraft:
    """The bundle with the size of prediction sets and the share reported of the test cases, by pattern.

    Args:
        bundle: the calibrated bundle.
        tests: its counts by subgroup, by the patterns' names.
    """

    def figures(name: str) -> dict[str, float | None]:
        blocks = tests.get(name)
        if not blocks:
            return {}
        found = decided_of(reduce(add, blocks.values()))
        return {"set_size": found["set_size"], "reported": found["reported"]}

    patterns = tuple(one.model_copy(update=figures(one.pattern.name)) for one in bundle.manifest.patterns)
    return updated(bundle, patterns=patterns)


def with_patients(bundle: BundleDraft, counted: TonePatients | None) -> BundleDraft:
    """The bundle with the patients of each skin tone that it is for: of its subgroup, or of all of them."""
    subgroup = bundle.manifest.subgroup
    own = counted if counted is None or subgroup.is_global else counted.of(subgroup)
    return updated(bundle, patients_by_tone=own)


def with_figures(
    bundle: BundleDraft, test: Blocks, histogram: NDArray[np.int64], context: StageContext
) -> BundleDraft:
    """The bundle with its test figures, and the reference histograms for drift.

    Args:
        bundle: the calibrated bundle.
        test: its counts by subgroup.
        histogram: the histogram of the distances; all zero where nothing is called unfamiliar.
        context: of the job.
    """
    if not test:
        return bundle
    present = tuple(name for name in context.subgroups if name in test)
    reference = ReferenceHistograms.from_counts(
        reduce(add, (block.point for block in test.values())),
        distances=tuple(histogram.tolist()) if histogram.any() else None,
        by_subgroup=histograms_by_subgroup(test, context) if bundle.manifest.subgroup.is_global else (),
        **merging(context, test),
    )
    for block in test.values():
        decisions_of(block)  # a client that did not count them is refused
    evaluation = Evaluation.of(
        test,
        context.labels,
        present,
        reference,
        traits=context.job.evaluation.traits,
        missing=context.missing,
        least=max(context.job.privacy.min_count, 1),
    )
    return updated(bundle, evaluation=evaluation, reference=reference)


def histograms_by_subgroup(test: Blocks, context: StageContext) -> tuple[SubgroupHistograms, ...]:
    """The histograms of each subgroup of declared skin tones that sent its counts."""
    named = {name: subgroup_of(context, name) for name in context.subgroups if name in test}
    return tuple(
        SubgroupHistograms.from_counts(test[name].point, subgroup=subgroup, **merging(context, [name]))
        for name, subgroup in named.items()
        if not subgroup.is_global
    )


def merging(context: StageContext, subgroups: Iterable[str]) -> dict[str, int]:
    """How the test histograms of these subgroups were merged, as reference histograms tell it."""
    parts = sum(len(context.census.hospitals("test", [name])) for name in subgroups)
    return {"smallest_cell": smallest_cell(context.job.privacy.min_count), "parts": parts}


def decided_of(block: Block) -> dict[str, Any]:
    """What the thresholds do to the test pictures of a block, as `decided` has it."""
    return decided(decisions_of(block), block.kinds)


def decisions_of(block: Block) -> Decisions:
    """What the thresholds do to the test pictures of a block.

    Raises:
        MessageError: when the clients did not count it.
    """
    if block.decisions is None:
        raise MessageError(
            "clients sent test counts without what the thresholds do to their pictures; do the coordinator "
            "and all sites run the same version of dermfed?"
        )
    return block.decisions
