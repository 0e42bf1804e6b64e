"""The stage `calibrate`: temperature, prediction sets, abstention and OOD detection, from clients' sums.

Exchanges, each answered by sums: log-likelihoods over a grid of temperatures; then, with the temperature
set in the graph, histograms of the calibration split for prediction sets and abstention; sums of the
embeddings of the training split, and histograms of the distances from them, for what is unfamiliar; then
the counts of the test split, with what the thresholds do there. Every question about the calibration split is
about one picture of each lesion, the same ones: two questions of which one asks for all would tell the rest.

A subgroup's model is calibrated on its subgroup's pictures, the global model on everybody's.

What is familiar to a subgroup's model is fitted on all training pictures of the clients that hold the
subgroup: it has learned from every tone before it was fine-tuned, a class that is rare in the subgroup keeps
its Gaussian, and no client receives a model that it would not have received anyway.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from personalization.calibration.abstention import AbstentionConfig, AbstentionThreshold, fit_abstention
from personalization.calibration.calibration_counts import CalibrationCounts
from personalization.calibration.conformal import ConformalConfig, ConformalThreshold, fit_threshold
from personalization.calibration.mahalanobis import ClassSums, class_sums, fit_gaussians, shapes, total
from personalization.calibration.ood import (
    HISTOGRAM,
    OodDetector,
    count_distances,
    fit_ood,
    no_distances,
    read_histogram,
)
from personalization.calibration.temperature import (
    TEMPERATURES,
    CalibrationConfig,
    Temperature,
    fit_temperature,
    log_likelihoods,
    subgroup_temperature,
)
from registry.bundle.counts.block import Block, Counts
from registry.bundle.counts.decisions import Decisions, Thresholds
from registry.bundle.counts.merged_bins import highest, middle, smallest_cell
from registry.bundle.familiarity import Gaussians
from registry.bundle.manifest.schema import (
    SCHEMA_VERSION,
    Abstention,
    Conformal,
    Guarantee,
    ModelFile,
    ReferenceHistograms,
    SubgroupHistograms,
)
from registry.bundle.manifest.schema import Temperature as TemperatureEntry
from registry.bundle.metrics.decided import decided
from registry.bundle.metrics.summary import summarise
from registry.bundle.model_file.graph import OUTPUTS, Graph, Outputs
from registry.bundle.skin_tone.typology_angle import ToneRanges
from training.algorithms.client import Client
from training.data.dataset import Examples, Split
from training.errors import JobError, MessageError
from training.federation.blocks import EVALUATION_BATCH, Blocks, EvaluateQuestion, add_blocks, unpack_blocks
from training.federation.client.evaluate import reply_blocks, sendable
from training.federation.client.release_ledger import EMBEDDING_SUMS, admit
from training.federation.server.ask import Traffic, ask_all, ask_sums
from training.jobs.stages.base import BundleDraft, Stage, StageContext, StageResult
from training.jobs.stages.export import subgroup_of
from training.jobs.stages.lineage import with_parents
from training.messages.message import GLOBAL, Broadcast, Shapes, Tensors, Update, reply, unknown_question
from training.models.export import GRAPH, answer, as_bytes, as_tensor, graph_inputs, set_temperature

LIKELIHOODS, THRESHOLDS, COUNTS = "log_likelihoods", "thresholds", "counts"
EMBEDDINGS, DISTANCES = "embeddings", "distances"
QUESTIONS = frozenset({LIKELIHOODS, THRESHOLDS, COUNTS, EMBEDDINGS, DISTANCES})
MEANS, WHITENING = "means", "whitening"
ONE_PER_LESION: Mapping[str, Any] = {"one_per_lesion": True}


class Calibrate(Stage):
    """Temperatures, prediction sets, abstention and what is unfamiliar, for every model.

    Attributes:
        coverage: 1 − α of the prediction sets.
        target_risk: the share of wrong answers allowed among those that are not referred.
        shrink_strength: for how many pictures the global temperature counts in a subgroup's.
        novelty_rate: the share of known pictures that may be called unlike those trained on.
        tones: how the skin of each declared tone looks in such pictures, as `dermfed-data tones --json`
            tells; it is put into the bundles, for the service to warn by.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"novelty_rate", "tones"})
    summed: ClassVar[frozenset[str]] = QUESTIONS
    asks_exactly: ClassVar[bool] = True
    stage: Literal["calibrate"] = "calibrate"
    coverage: float = Field(0.9, gt=0, lt=1)
    target_risk: float = Field(0.1, ge=0, lt=1)
    shrink_strength: float = Field(20.0, ge=0)
    novelty_rate: float = Field(0.05, gt=0, lt=1)
    tones: ToneRanges | None = None

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Calibrate every exported model, then judge them all on the test split."""
        poll = Poll(context, Traffic())
        bundles: dict[str, BundleDraft] = {}
        fits: dict[str, Fit] = {}
        detectors: dict[str, OodDetector] = {}
        for name, temperature in self.temperatures(poll, before.bundles).items():
            bundle = with_temperature(before.bundles[name], temperature)
            fits[name] = self.fit(poll, name, bundle, temperature)
            detectors[name] = self.detector(poll, name, bundle)
            calibrated = with_detector(with_thresholds(bundle, fits[name], self.coverage), detectors[name])
            bundles[name] = with_tones(calibrated, self.tones)

        tests = {name: poll.counts(name, bundle) for name, bundle in bundles.items()}
        histograms = {
            name: self.test_distances(poll, name, bundles[name], detectors[name]) for name in bundles
        }
        bundles = {
            name: with_figures(bundle, tests[name], histograms[name], context)
            for name, bundle in bundles.items()
        }
        routed = {place: place if place in tests else GLOBAL for place in context.all_subgroups}
        test = {place: tests[name][place] for place, name in routed.items() if place in tests[name]}
        earlier = before.facts.get("by_subgroup", {})
        facts = {
            "models": {
                name: {**asdict(fit), "novelty": detectors[name].facts(histograms[name])}
                for name, fit in fits.items()
            },
            "by_subgroup": {
                place: {**earlier.get(place, {}), **decided(decisions_of(block))}
                for place, block in test.items()
            },
        }
        return StageResult(before.models, with_parents(bundles), traffic=poll.traffic, test=test, facts=facts)

    def temperatures(self, poll: "Poll", bundles: Mapping[str, BundleDraft]) -> dict[str, Temperature]:
        """Fit the temperature of each model.

        Raises:
            JobError: when there are no calibration pictures.
        """
        config = CalibrationConfig(
            shrink_strength=self.shrink_strength, min_examples=poll.context.job.privacy.min_count
        )
        sums, n = poll.likelihoods(GLOBAL, bundles[GLOBAL].graph)
        if n == 0:
            raise JobError(
                "there are no calibration pictures, or fewer than privacy.min_count in every subgroup "
                "of every client; raise data.split.calibration"
            )
        of_all = global_temperature(sums, n)
        temperatures = {GLOBAL: of_all}
        for name, bundle in bundles.items():
            if name != GLOBAL:
                temperatures[name] = subgroup_temperature(
                    *poll.likelihoods(name, bundle.graph), of_all.value, config
                )
        return temperatures

    def fit(self, poll: "Poll", name: str, bundle: BundleDraft, temperature: Temperature) -> "Fit":
        """Fit the thresholds of one model, from calibration counts of the graph that will be served."""
        counted = poll.thresholds(name, bundle.graph)
        sets = fit_threshold(counted.truth, ConformalConfig(coverage=self.coverage))
        allowed = AbstentionConfig(target_risk=self.target_risk)
        reported = fit_abstention(counted.confidence, allowed, lowest=sets.threshold_bin)
        return Fit(temperature, sets, reported)

    def detector(self, poll: "Poll", name: str, bundle: BundleDraft) -> OodDetector:
        """Fit the OOD detector of one model."""
        sums = poll.embeddings(name, bundle)
        gaussians = fit_gaussians(sums)
        if gaussians is None:
            return OodDetector(None, (), 0, fit_ood(no_distances(), self.novelty_rate))
        histogram = poll.distances(name, bundle.graph, gaussians, "calibration")
        codes = tuple(bundle.manifest.labels[k].code for k in sums.present)
        return OodDetector(gaussians, codes, sums.n, fit_ood(histogram, self.novelty_rate))

    def test_distances(
        self, poll: "Poll", name: str, bundle: BundleDraft, detector: OodDetector
    ) -> NDArray[np.int64]:
        """The histogram of the test pictures' distances; empty where nothing would be called unfamiliar."""
        if detector.gaussians is None or detector.threshold.threshold_bin is None:
            return no_distances()
        return poll.distances(name, bundle.graph, detector.gaussians, "test")

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """The client's part: sums over its pictures, from the graph that arrived."""
        question = EvaluateQuestion.model_validate(broadcast.options)
        graph = Graph(as_bytes(broadcast.tensors), torch.get_num_threads())
        if broadcast.ask == EMBEDDINGS:
            return reply(broadcast, tensors=embedding_sums(graph, client, question.split).to_tensors())
        parts = sendable(client, question)
        if broadcast.ask == LIKELIHOODS:
            sums = np.zeros_like(TEMPERATURES)
            for part in parts.values():
                sums += log_likelihoods(run(graph, part).logits, part.labels)
            counted = {name: len(part) for name, part in parts.items()}
            return reply(broadcast, tensors={LIKELIHOODS: torch.from_numpy(sums)}, num_examples=counted)
        if broadcast.ask == THRESHOLDS:
            of_parts = (threshold_counts(graph, part, client) for part in parts.values())
            return reply(broadcast, tensors=sum(of_parts, CalibrationCounts.none()).to_tensors())
        if broadcast.ask == DISTANCES:
            gaussians = Gaussians(broadcast.tensors[MEANS].numpy(), broadcast.tensors[WHITENING].numpy())
            pick = highest if question.split == "calibration" else middle
            histogram = no_distances()
            for part in parts.values():
                distances = gaussians.distances(run(graph, part).embedding)
                histogram += count_distances(distances, part.people, client.smallest_cell, pick)
            return reply(broadcast, tensors={HISTOGRAM: torch.from_numpy(histogram)})
        if broadcast.ask == COUNTS:
            by_part = {name: run(graph, part).probabilities for name, part in parts.items()}
            return reply_blocks(broadcast, client, parts, by_part, question)
        raise unknown_question(broadcast)


@dataclass(frozen=True)
class Fit:
    """Temperature and thresholds of one model."""

    temperature: Temperature
    conformal: ConformalThreshold
    abstention: AbstentionThreshold


@dataclass(frozen=True)
class Poll:
    """The server's questions about exported graphs to all clients that hold the pictures."""

    context: StageContext
    traffic: Traffic

    def likelihoods(self, name: str, graph: bytes) -> tuple[NDArray[np.float64], int]:
        """Log-likelihood sums over the temperature grid on the calibration split, and their pictures."""
        updates = self._ask(LIKELIHOODS, name, graph, "calibration", ONE_PER_LESION)
        sums = sum((update.tensors[LIKELIHOODS].numpy() for update in updates), np.zeros_like(TEMPERATURES))
        return sums, sum(sum(update.num_examples.values()) for update in updates)

    def thresholds(self, name: str, graph: bytes) -> CalibrationCounts:
        """The histograms of the calibration split that thresholds are fitted to."""
        updates = self._ask(THRESHOLDS, name, graph, "calibration", ONE_PER_LESION)
        return sum((CalibrationCounts.from_update(update) for update in updates), CalibrationCounts.none())

    def counts(self, name: str, bundle: BundleDraft) -> Blocks:
        """Counts of the test split by subgroup, with what the bundle's thresholds do there."""
        manifest = bundle.manifest
        thresholds = Thresholds(manifest.conformal.threshold_bin, manifest.reports_from)
        options = {"intersections": True, "thresholds": asdict(thresholds)}
        updates = self._ask(COUNTS, name, bundle.graph, "test", options)
        return add_blocks(unpack_blocks(update) for update in updates)

    def embeddings(self, name: str, bundle: BundleDraft) -> ClassSums:
        """Sums of the embeddings of all training pictures at the clients that hold the model's subgroup."""
        classes, features = len(bundle.manifest.labels), Graph(bundle.graph).num_features
        expected = shapes(classes, features)
        updates = self._ask(EMBEDDINGS, name, bundle.graph, "train", {}, expected=expected)
        return total((ClassSums.from_update(update, features) for update in updates), classes, features)

    def distances(self, name: str, graph: bytes, gaussians: Gaussians, split: Split) -> NDArray[np.int64]:
        """The histogram of distances from the training pictures."""
        sent = {
            MEANS: torch.from_numpy(gaussians.means),
            WHITENING: torch.from_numpy(gaussians.whitening),
        }
        options = ONE_PER_LESION if split == "calibration" else {}
        updates = self._ask(DISTANCES, name, graph, split, options, beside=sent)
        return sum((read_histogram(update) for update in updates), no_distances())

    def _ask(
        self,
        ask: str,
        name: str,
        graph: bytes,
        split: Split,
        options: Mapping[str, Any],
        *,
        beside: Tensors | None = None,
        expected: Shapes | None = None,
    ) -> list[Update]:
        """Ask about a graph: the global model on everybody's pictures, a subgroup's model on its own.

        Hospitals judge a model; of what it was trained on, the server knows too.
        """
        census, subgroups = self.context.census, self.context.all_subgroups if name == GLOBAL else (name,)
        masks = self.context.job.privacy.masked_counts
        trainers = [client for client in census.holders(split, subgroups) if client not in census.unseen]
        if masks is not None:
            trainers = [name for name in census.counts if name in trainers or name in census.all_hospitals]
        question = EvaluateQuestion(split=split, subgroups=subgroups, **options).model_dump()
        tensors = {GRAPH: as_tensor(graph), **(beside or {})}
        broadcasts = [
            Broadcast(client, self.context.key, 0, ask, name, tensors, question)
            for client in (trainers if split == "train" else self.context.judges(split, subgroups))
        ]
        if broadcasts and masks is not None:
            return ask_sums(self.context.engine, broadcasts, self.traffic, masks)
        return ask_all(self.context.engine, broadcasts, self.traffic, expected) if broadcasts else []


def global_temperature(sums: NDArray[np.float64], n: int) -> Temperature:
    """The temperature fitted on everybody's pictures, shrunk towards no other."""
    value = fit_temperature(sums, n)
    return Temperature(value, value, n)


def run(graph: Graph, examples: Examples) -> Outputs:
    """Run the graph over all examples, in batches."""
    starts = range(0, len(examples), EVALUATION_BATCH)
    batches = [
        answer(graph, graph_inputs(examples, np.arange(start, min(start + EVALUATION_BATCH, len(examples)))))
        for start in starts
    ]
    return Outputs(*(np.concatenate([getattr(batch, name) for batch in batches]) for name in OUTPUTS))


def threshold_counts(graph: Graph, part: Examples, client: Client) -> CalibrationCounts:
    """The histograms of one subgroup's calibration pictures."""
    probabilities = run(graph, part).probabilities
    return CalibrationCounts.count(probabilities, part.labels, part.people, client.smallest_cell)


def embedding_sums(graph: Graph, client: Client, split: Split) -> ClassSums:
    """A client's class sums of embeddings over its labelled pictures of a split, of every subgroup."""
    examples = client.examples(split)
    by_class = {
        label.code: examples.where(examples.labels == k) for k, label in enumerate(client.dataset.labels)
    }
    enough = {code: part for code, part in by_class.items() if part.num_people >= max(client.min_count, 1)}
    told = admit(client.releases, client.id, EMBEDDING_SUMS, enough, client.min_count)
    pictures = np.concatenate([[-1], *(part.identities[:, 0] for part in told.values())])
    labelled = examples.where((examples.labels >= 0) & np.isin(examples.identities[:, 0], pictures))
    classes = len(client.dataset.labels)
    if not len(labelled):
        return total((), classes, graph.num_features)
    embedding = run(graph, labelled).embedding
    return class_sums(embedding, labelled.labels, classes, client.min_count, labelled.people)


def pooled_counts(blocks: Blocks, bundle: BundleDraft) -> Counts:
    """Counts summed over all subgroups."""
    return sum((block.point for block in blocks.values()), Counts.zeros(len(bundle.manifest.labels)))


def with_temperature(bundle: BundleDraft, temperature: Temperature) -> BundleDraft:
    """The bundle with a temperature in its graph and its manifest."""
    graph = set_temperature(bundle.graph, temperature.value)
    shrunk = temperature.value != temperature.fitted
    entry = TemperatureEntry(value=temperature.value, n=temperature.n, shrunk=shrunk)
    manifest = bundle.manifest.model_copy(update={"temperature": entry, "file": ModelFile.of(graph)})
    return BundleDraft(manifest, graph)


def with_thresholds(bundle: BundleDraft, fit: Fit, coverage: float) -> BundleDraft:
    """The bundle with its thresholds and their guarantees."""
    for_whom: Guarantee = "global" if bundle.manifest.subgroup.is_global else "subgroup"
    update = {
        "schema_version": SCHEMA_VERSION,
        "conformal": Conformal(
            alpha=round(1 - coverage, 12),
            threshold_bin=fit.conformal.threshold_bin,
            n=fit.conformal.n,
            guarantee=for_whom if fit.conformal.guaranteed else "none",
        ),
        "abstention": Abstention(
            target_risk=fit.abstention.target_risk,
            threshold_bin=fit.abstention.threshold_bin,
            n=fit.abstention.n,
            risk=fit.abstention.risk,
        ),
    }
    return BundleDraft(bundle.manifest.model_copy(update=update), bundle.graph)


def with_detector(bundle: BundleDraft, detector: OodDetector) -> BundleDraft:
    """The bundle with its OOD detector."""
    manifest = bundle.manifest.model_copy(update={"out_of_distribution": detector.entry()})
    return BundleDraft(manifest, bundle.graph)


def with_tones(bundle: BundleDraft, tones: ToneRanges | None) -> BundleDraft:
    """The bundle with the range of angles of each declared tone."""
    return BundleDraft(bundle.manifest.model_copy(update={"tones": tones}), bundle.graph)


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
    covered = {name: coverage_on(block) for name, block in test.items()}
    figures = summarise(test, context.labels, present, covered, context.job.evaluation.traits)
    of_all = coverage_on(reduce(add, test.values()))
    intervals = {**figures["intervals"], **of_all["intervals"]}
    update = {
        "metrics": {**figures, **of_all, "intervals": intervals},
        "reference": ReferenceHistograms.from_counts(
            pooled_counts(test, bundle),
            distances=tuple(histogram.tolist()) if histogram.any() else None,
            by_subgroup=histograms_by_subgroup(test, context) if bundle.manifest.subgroup.is_global else (),
            **merging(context, test),
        ),
    }
    return BundleDraft(bundle.manifest.model_copy(update=update), bundle.graph)


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


def coverage_on(block: Block) -> dict[str, Any]:
    """The coverage of a bundle's prediction sets on these test counts."""
    figures = decided(decisions_of(block))
    return {"coverage": figures["coverage"], "intervals": {"coverage": figures["intervals"]["coverage"]}}


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
