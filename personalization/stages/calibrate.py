"""The stage `calibrate`: temperature, triage, working point, sets, conclusions and OOD detection, from sums.

Exchanges, each answered by sums: log-likelihoods over a grid of temperatures; then, with the temperature
set in the graph, histograms of the calibration split, by malignancy for triage and for the working point
where a sensitivity is asked for, for prediction sets, and for the nodes of each level of the tree of
diagnoses, and under masks exact counts at the thresholds that these propose
(`personalization.calibration.at_thresholds`); sums of the embeddings of the training split, and histograms of
the distances from them, for OOD detection; then the counts of the test split, with the decisions that the
thresholds give there; and the calibration and test patients of each skin tone that a subgroup names.
Every request about the calibration split uses the same pictures, one of each lesion: if one request used all
pictures, the difference between two responses would disclose the others.

A subgroup's model is calibrated on its subgroup's pictures, the global model on those of all subgroups.

OOD detection for a subgroup's model is fitted on all training pictures of the clients that hold the subgroup:
the model was trained on every tone before it was fine-tuned, a class that is rare in the subgroup keeps its
Gaussian, and no client receives a model that it would not have received anyway.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from personalization.calibration.at_thresholds import LEVEL
from personalization.calibration.conclusions import propose_level, share_of
from personalization.calibration.conformal import fit_threshold, no_distances, ood_detector, ood_facts
from personalization.calibration.mahalanobis import fit_gaussians, left_out_of
from personalization.calibration.temperature import Temperature, fit_temperature, subgroup_temperature
from personalization.calibration.triage import MalignancyRules, TriageConfig, TriageFit
from personalization.stages.calibrated_bundle import (
    Fit,
    decided_of,
    updated,
    with_figures,
    with_patients,
    with_pattern_figures,
    with_temperature,
    with_thresholds,
)
from personalization.stages.calibration_answers import REQUESTS, NodesAsked, answer_calibration
from personalization.stages.calibration_poll import Poll, fitted_on
from registry.bundle.cases import CaseInput, Pattern, read_pattern, usual_patterns
from registry.bundle.conclusions import Conclusions
from registry.bundle.labels import UNDECLARED, malignant_classes
from registry.bundle.manifest import OutOfDistribution, WorkingPoint
from registry.bundle.metrics.summary import summarise
from registry.bundle.skin_tone import ToneRanges
from training.algorithms.client import Client
from training.errors import JobError
from training.jobs.stages.base import BundleDraft, Stage, StageContext, StageResult
from training.jobs.stages.export import with_parents
from training.messages import GLOBAL, Broadcast, Update
from training.rounds.requests import EMBED, Blocks
from training.rounds.server.ask import Traffic

PATIENTS_BY_TONE = "patients_by_tone"  # the fact of how many patients of each skin tone there are
PASSES = 3  # through all models: thresholds, counts and distances


class Calibrate(Stage):
    """Temperatures, prediction sets, triage, conclusions and what is unfamiliar, for every model.

    Attributes:
        coverage: 1 − α of the prediction sets.
        target_risk: the share of wrong ones allowed among the conclusions at each node of the tree of
            diagnoses.
        novelty_rate: the share of known pictures that may be called unlike those trained on.
        tones: how the skin of each declared tone looks in such pictures, as `dermfed-data tones --json`
            tells; it is put into the bundles, for the service to warn by.
        patterns: what is given of a case, for which temperature and thresholds are fitted apiece:
            `close-up+dermoscopic+context`; null for every set of the kinds, without facts, with some and with
            all.
        sensitivity: the share of malignant lesions that is to be found suspicious; null for no working point.
        triage: what may be missed of each kind of malignancy, and how many false alarms there may be, where
            lesions are ruled out or called urgent; null for neither.
    """

    summed: ClassVar[frozenset[str]] = REQUESTS
    quorate: ClassVar[frozenset[str]] = REQUESTS | {EMBED}
    asks_exactly: ClassVar[bool] = True
    stage: Literal["calibrate"] = "calibrate"
    coverage: float = Field(0.9, gt=0, lt=1)
    target_risk: float = Field(0.1, ge=0, lt=1)
    novelty_rate: float = Field(0.05, gt=0, lt=1)
    tones: ToneRanges | None = None
    patterns: tuple[str, ...] | None = None
    sensitivity: float | None = Field(None, gt=0, lt=1)
    triage: TriageConfig | None = TriageConfig()

    @field_validator("patterns")
    @classmethod
    def _are_patterns(cls, patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if patterns is None else tuple(read_pattern(name).name for name in patterns)

    def look_ahead(self, context: StageContext) -> None:
        """Refuse data in which no subgroup has enough labelled calibration pictures to be disclosed."""
        census, least = context.census, max(context.job.privacy.min_count, 1)
        split = fitted_on(context)
        if not census.can_disclose(split, census.all_subgroups, least):
            share = "data.split.calibration" if split == "calibration" else "data.split.train"
            raise JobError(
                f"calibrate: no hospital holds {least} labelled {split} pictures of any subgroup "
                f"(privacy.min_count), so nothing can be calibrated; raise {share}, lower "
                "privacy.min_count, or leave the stage out"
            )

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Calibrate every exported model, then judge them all on the test split."""
        folds = {name: bundle.folds for name, bundle in before.bundles.items()}
        poll = Poll(context, Traffic(), self.chosen_patterns(context.job.data.case), folds=folds)
        least = max(context.job.privacy.min_count, 1)
        bundles: dict[str, BundleDraft] = {}
        fits: dict[str, list[Fit]] = {}
        progress = context.metrics_log.progress
        progress.begin(context.key, PASSES * len(before.bundles), rounds=False)
        for name, temperatures in progress.each(self.temperatures(poll, before.bundles).items()):
            of_patterns = dict(zip(poll.patterns, temperatures[1:], strict=True))
            bundle = with_temperature(before.bundles[name], temperatures[0], of_patterns)
            fits[name] = self.fit(poll, name, bundle, temperatures)
            detector = self.detector(poll, name, bundle)
            own = dict(zip(poll.patterns, fits[name][1:], strict=True))
            calibrated = with_thresholds(bundle, fits[name][0], own, least)
            bundles[name] = updated(calibrated, out_of_distribution=detector, tones=self.tones)

        counted = {name: poll.counts(name, bundle) for name, bundle in progress.each(bundles.items())}
        distances = {
            name: self.test_distances(poll, name, bundle) for name, bundle in progress.each(bundles.items())
        }
        progress.end()
        tones = poll.tones()
        for name, found in counted.items():
            bundle = with_pattern_figures(bundles[name], found.by_pattern)
            bundles[name] = with_patients(with_figures(bundle, found.test, distances[name], context), tones)
        test = routed({name: found.test for name, found in counted.items()}, context.all_subgroups)
        earlier = before.facts.get("by_subgroup", {})
        facts = {
            "models": {
                name: {
                    **of_all.facts(),
                    "basis": bundles[name].manifest.basis,
                    "novelty": ood_facts(
                        bundles[name].manifest.out_of_distribution, self.novelty_rate, distances[name]
                    ),
                    **(
                        {"patterns": dict(zip(poll.together, map(Fit.facts, own), strict=True))}
                        if own
                        else {}
                    ),
                }
                for name, (of_all, *own) in fits.items()
            },
            "by_subgroup": {
                place: {**earlier.get(place, {}), **decided_of(block)} for place, block in test.items()
            },
            **({} if tones is None else {PATIENTS_BY_TONE: tones.model_dump(mode="json")}),
            **figures_by_name(
                context, "patterns", {name: found.by_pattern for name, found in counted.items()}
            ),
            **figures_by_name(context, "left_out", {name: found.left_out for name, found in counted.items()}),
        }
        done = with_parents(bundles, context.attest)
        return StageResult(
            before.models,
            {name: replace(bundle, folds=()) for name, bundle in done.items()},
            traffic=poll.traffic,
            test=test,
            facts=facts,
        )

    def chosen_patterns(self, case: CaseInput | None) -> tuple[Pattern, ...]:
        """The patterns under which cases are judged; none of single pictures."""
        if case is None:
            return ()
        return usual_patterns(case) if self.patterns is None else tuple(map(read_pattern, self.patterns))

    def temperatures(self, poll: Poll, bundles: Mapping[str, BundleDraft]) -> dict[str, list[Temperature]]:
        """Fit the temperatures of each model: one for all its pictures, and one per pattern.

        A subgroup's temperature is shrunk towards the global one, a pattern's towards that of all patterns.

        Raises:
            JobError: when there are no calibration pictures.
        """
        least = poll.context.job.privacy.min_count
        (sums, n), *of_patterns = poll.likelihoods(GLOBAL, bundles[GLOBAL].graph)
        if n == 0:
            raise JobError(
                "there are no calibration pictures, or fewer than privacy.min_count in every subgroup "
                "of every client; raise data.split.calibration"
            )
        fitted = fit_temperature(sums, n)
        of_all = Temperature(fitted, fitted, n)
        drawn = [subgroup_temperature(*each, of_all.value, least) for each in of_patterns]
        temperatures = {GLOBAL: [of_all, *drawn]}
        for name, bundle in bundles.items():
            if name != GLOBAL:
                together, *of_patterns = poll.likelihoods(name, bundle.graph)
                own = subgroup_temperature(*together, of_all.value, least)
                drawn = [subgroup_temperature(*each, own.value, least) for each in of_patterns]
                temperatures[name] = [own, *drawn]
        return temperatures

    def fit(
        self, poll: Poll, name: str, bundle: BundleDraft, temperatures: Sequence[Temperature]
    ) -> list[Fit]:
        """Fit the thresholds of one model, from calibration counts of the graph that will be served."""
        points, triage = self.malignancy_rules(poll, name, bundle)
        sets = [fit_threshold(truth, self.coverage) for truth in poll.truths(name, bundle.graph)]
        concluded = self.conclusions(poll, name, bundle, triage)
        fitted = zip(temperatures, sets, points, triage, concluded, strict=True)
        return [Fit(*each) for each in fitted]

    def conclusions(
        self, poll: Poll, name: str, bundle: BundleDraft, triage: Sequence[TriageFit | None]
    ) -> list[Conclusions]:
        """Fit which nodes of the tree of diagnoses are concluded, level after level, finest first."""
        tree = bundle.manifest.tree
        ruled_out = [(0, 0) if of is None else (of.ruled_out.below, of.urgent.from_bin) for of in triage]
        found = [Conclusions(target_risk=self.target_risk, level=LEVEL) for _ in triage]
        spent = [0.0] * len(found)
        for level, nodes in enumerate(tree.levels):
            so_far = np.stack([rules.thresholds(tree) for rules in found])
            asked = NodesAsked(level, so_far, np.array(ruled_out))
            histograms = poll.nodes(name, bundle.graph, asked, tree)
            shares = [share_of(level, len(tree.levels), of) for of in spent]
            tests = [
                propose_level(nodes, each[:, 0], self.target_risk, share)
                for each, share in zip(histograms, shares, strict=True)
            ]
            spent = [
                of + share * bool(test.able) for of, share, test in zip(spent, shares, tests, strict=True)
            ]
            proposed = [test.proposed for test in tests]
            counts = poll.at_thresholds(name, bundle.graph, list(histograms), proposed, asked)
            found = [
                rules.model_copy(update={"nodes": (*rules.nodes, *test.fit(of))})
                for rules, test, of in zip(found, tests, counts, strict=True)
            ]
        return found

    def malignancy_rules(
        self, poll: Poll, name: str, bundle: BundleDraft
    ) -> tuple[list[WorkingPoint | None], list[TriageFit | None]]:
        """Fit the working points and the triage of one model; none without classes of both sides.

        Without a working point of all patterns together no pattern has one.
        """
        malignant = malignant_classes(bundle.manifest.labels)
        nothing: list[None] = [None] * max(len(poll.sets), 1)
        if not malignant.any() or malignant.all() or (self.sensitivity is None and self.triage is None):
            return [*nothing], [*nothing]
        histograms = poll.malignancies(name, bundle.graph)
        rules = [MalignancyRules(each, self.sensitivity, self.triage) for each in histograms]
        rows = [each.reshape(1, -1, each.shape[-1]) for each in histograms]
        counted = poll.at_thresholds(name, bundle.graph, rows, [[each.proposed] for each in rules])
        points = [own.working_point(at) for own, (at,) in zip(rules, counted, strict=True)]
        named = [place != UNDECLARED for place in poll.judged_on(name)]
        triage = [own.fit_triage(at, named) for own, (at,) in zip(rules, counted, strict=True)]
        return points if points[0] is not None else [*nothing], triage

    def detector(self, poll: Poll, name: str, bundle: BundleDraft) -> OutOfDistribution | None:
        """Fit the OOD detector of one model; None where no class has enough training pictures."""
        sums = poll.embeddings(name, bundle)
        gaussians = fit_gaussians(sums)
        if gaussians is None:
            return None
        left_out = left_out_of(sums) if poll.fitted_on == "train" else None
        histogram = poll.distances(name, bundle.graph, gaussians, poll.fitted_on, left_out)
        codes = tuple(bundle.manifest.labels[k].code for k in sums.present)
        return ood_detector(gaussians, codes, sums.n, histogram, self.novelty_rate)

    def test_distances(self, poll: Poll, name: str, bundle: BundleDraft) -> NDArray[np.int64]:
        """The histogram of the test pictures' distances; empty where nothing would be called unfamiliar."""
        detector = bundle.manifest.out_of_distribution
        if detector is None or detector.threshold_bin is None:
            return no_distances()
        return poll.distances(name, bundle.graph, detector.gaussians, "test")

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """The client's part."""
        return answer_calibration(broadcast, client)


def routed(tests: Mapping[str, Blocks], places: Sequence[str]) -> Blocks:
    """The counts of each subgroup from the model that answers for it."""
    names = {place: place if place in tests else GLOBAL for place in places}
    return {place: tests[name][place] for place, name in names.items() if place in tests[name]}


def figures_by_name(
    context: StageContext, what: str, judged: Mapping[str, Mapping[str, Blocks]]
) -> dict[str, Any]:
    """Test figures under each pattern or without each part, as the summary has those of all.

    Args:
        context: of the job.
        what: what the names are of: the key of the figures.
        judged: the counts by model, and by the name of the pattern or part.

    Returns:
        The figures by name under `what`; nothing where there are none.
    """
    found = {}
    for name in judged[GLOBAL]:
        test = routed({model: blocks[name] for model, blocks in judged.items()}, context.all_subgroups)
        if test:
            details = {place: decided_of(block) for place, block in test.items()}
            of_all = decided_of(reduce(add, test.values()))
            figures = summarise(test, context.labels, [p for p in context.subgroups if p in test], details)
            intervals = {**figures["intervals"], **of_all["intervals"]}
            found[name] = {**figures, **of_all, "intervals": intervals}
    return {what: found} if found else {}
