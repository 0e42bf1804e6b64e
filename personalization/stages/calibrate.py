"""The stage `calibrate`: confidence that can be trusted, fitted where the data are, on the served graph.

Exchanges, each answered by sums: log-likelihoods over a grid of temperatures; then, with the temperature
set in the graph, histograms of the calibration split for prediction sets and abstention; sums of the
embeddings of the training split, and histograms of the distances from them, for what is unfamiliar; then
the counts of the test split. A subgroup's model is calibrated on its subgroup's pictures, the global model
on everybody's.

What is familiar to a subgroup's model is fitted on all training pictures of the clients that hold the
subgroup: it has learned from every tone before it was fine-tuned, a class that is rare in the subgroup keeps
its Gaussian, and no client receives a model that it would not have received anyway.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from personalization.abstention import AbstentionConfig, AbstentionThreshold, fit_abstention
from personalization.calibration import (
    TEMPERATURES,
    CalibrationConfig,
    Temperature,
    fit_temperature,
    log_likelihoods,
    subgroup_temperature,
)
from personalization.conformal import ConformalConfig, ConformalThreshold, fit_threshold
from personalization.gaussians import ClassSums, class_sums, fit_gaussians, shapes, total
from personalization.novelty import (
    HISTOGRAM,
    Novelty,
    count_distances,
    fit_novelty,
    no_distances,
    read_histogram,
)
from registry.bundle.block import Block, Counts
from registry.bundle.familiarity import Gaussians
from registry.bundle.graph import OUTPUTS, Graph, Outputs
from registry.bundle.metrics.estimate import figures_and_intervals
from registry.bundle.metrics.ratio import Figure, Tally, ratio
from registry.bundle.metrics.selective import answered_at, wrong_at
from registry.bundle.metrics.sets import covered_at, mean_set_size_at
from registry.bundle.metrics.summary import summarise
from registry.bundle.schema import (
    Abstention,
    Conformal,
    Guarantee,
    ModelFile,
    ReferenceHistograms,
    SubgroupHistograms,
)
from registry.bundle.schema import Temperature as TemperatureEntry
from registry.bundle.skin_tone import ToneRanges
from training.client import Client
from training.data import Examples, Split
from training.errors import JobError
from training.evaluation import (
    EVALUATION_BATCH,
    Blocks,
    EvaluateQuestion,
    add_blocks,
    reply_blocks,
    sendable,
    unpack_blocks,
)
from training.export import set_temperature
from training.graph_message import GRAPH, as_bytes, as_tensor
from training.messages import GLOBAL, Broadcast, Shapes, Tensors, Update, reply, unknown_question
from training.polling import Traffic, ask_all, ask_sums
from training.stages.base import Graded, Outcome, Setting, Stage
from training.stages.export import subgroup_of
from training.stages.lineage import with_parents

LIKELIHOODS, COUNTS = "log_likelihoods", "counts"
EMBEDDINGS, DISTANCES = "embeddings", "distances"
QUESTIONS = frozenset({LIKELIHOODS, COUNTS, EMBEDDINGS, DISTANCES})
MEANS, WHITENING = "means", "whitening"


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
    stage: Literal["calibrate"] = "calibrate"
    coverage: float = Field(0.9, gt=0, lt=1)
    target_risk: float = Field(0.1, ge=0, lt=1)
    shrink_strength: float = Field(20.0, ge=0)
    novelty_rate: float = Field(0.05, gt=0, lt=1)
    tones: ToneRanges | None = None

    def run(self, setting: Setting, before: Outcome) -> Outcome:
        """Calibrate every exported model, then judge them all on the test split."""
        poll = Poll(setting, Traffic())
        bundles: dict[str, Graded] = {}
        fits: dict[str, Fit] = {}
        novelties: dict[str, Novelty] = {}
        for name, temperature in self.temperatures(poll, before.bundles).items():
            bundle = at_temperature(before.bundles[name], temperature)
            fits[name] = self.fit(poll, name, bundle, temperature)
            novelties[name] = self.novelty(poll, name, bundle)
            calibrated = with_novelty(promised(bundle, fits[name], self.coverage), novelties[name])
            bundles[name] = with_tones(calibrated, self.tones)

        tests = {name: poll.counts(name, bundle.graph, "test") for name, bundle in bundles.items()}
        far = {name: self.test_distances(poll, name, bundles[name], novelties[name]) for name in bundles}
        bundles = {
            name: with_figures(bundle, tests[name], far[name], setting) for name, bundle in bundles.items()
        }
        routed = {place: place if place in tests else GLOBAL for place in setting.places}
        test = {place: tests[name][place] for place, name in routed.items() if place in tests[name]}
        earlier = before.facts.get("by_subgroup", {})
        facts = {
            "models": {
                name: {**asdict(fit), "novelty": novelties[name].facts(far[name])}
                for name, fit in fits.items()
            },
            "by_subgroup": {
                place: {**earlier.get(place, {}), **served(block, fits[routed[place]])}
                for place, block in test.items()
            },
        }
        return Outcome(before.models, with_parents(bundles), traffic=poll.traffic, test=test, facts=facts)

    def temperatures(self, poll: "Poll", bundles: Mapping[str, Graded]) -> dict[str, Temperature]:
        """The temperature of each model.

        Raises:
            JobError: when there are no calibration pictures.
        """
        config = CalibrationConfig(
            shrink_strength=self.shrink_strength, min_examples=poll.setting.job.privacy.min_count
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

    def fit(self, poll: "Poll", name: str, bundle: Graded, temperature: Temperature) -> "Fit":
        """What is fixed for one model, from calibration counts of the graph that will be served."""
        everything = pool(poll.counts(name, bundle.graph, "calibration"), bundle)
        by_lesion = pool(poll.counts(name, bundle.graph, "calibration", one_per_lesion=True), bundle)
        sets = fit_threshold(by_lesion, ConformalConfig(coverage=self.coverage))
        allowed = AbstentionConfig(target_risk=self.target_risk)
        return Fit(temperature, sets, fit_abstention(everything, allowed, lowest=sets.threshold_bin))

    def novelty(self, poll: "Poll", name: str, bundle: Graded) -> Novelty:
        """What is familiar to one model, and from which distance on a picture is not."""
        sums = poll.embeddings(name, bundle)
        gaussians = fit_gaussians(sums)
        if gaussians is None:
            return Novelty(None, (), 0, fit_novelty(no_distances(), self.novelty_rate))
        far = poll.distances(name, bundle.graph, gaussians, "calibration", one_per_lesion=True)
        codes = tuple(bundle.manifest.labels[k].code for k in sums.present)
        return Novelty(gaussians, codes, sums.n, fit_novelty(far, self.novelty_rate))

    def test_distances(self, poll: "Poll", name: str, bundle: Graded, novelty: Novelty) -> NDArray[np.int64]:
        """The histogram of the test pictures' distances; empty where nothing would be called unfamiliar."""
        if novelty.gaussians is None or novelty.threshold.threshold_bin is None:
            return no_distances()
        return poll.distances(name, bundle.graph, novelty.gaussians, "test")

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """Sums over this client's pictures, from the graph that arrived."""
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
        if broadcast.ask == DISTANCES:
            gaussians = Gaussians(broadcast.tensors[MEANS].numpy(), broadcast.tensors[WHITENING].numpy())
            histogram = no_distances()
            for part in parts.values():
                histogram += count_distances(gaussians.distances(run(graph, part).embedding))
            return reply(broadcast, tensors={HISTOGRAM: torch.from_numpy(histogram)})
        if broadcast.ask == COUNTS:
            probabilities = {name: run(graph, part).probabilities for name, part in parts.items()}
            return reply_blocks(broadcast, client, parts, probabilities, question)
        raise unknown_question(broadcast)


@dataclass(frozen=True)
class Fit:
    """What calibration fixed for one model."""

    temperature: Temperature
    conformal: ConformalThreshold
    abstention: AbstentionThreshold


@dataclass(frozen=True)
class Poll:
    """Questions about exported graphs to all clients that hold the pictures."""

    setting: Setting
    traffic: Traffic

    def likelihoods(self, name: str, graph: bytes) -> tuple[NDArray[np.float64], int]:
        """Log-likelihood sums over the temperature grid on the calibration split, and their pictures."""
        updates = self._ask(LIKELIHOODS, name, graph, "calibration", {})
        sums = sum((update.tensors[LIKELIHOODS].numpy() for update in updates), np.zeros_like(TEMPERATURES))
        return sums, sum(sum(update.num_examples.values()) for update in updates)

    def counts(self, name: str, graph: bytes, split: Split, *, one_per_lesion: bool = False) -> Blocks:
        """Counts by subgroup; with bootstrap replicates on the test split."""
        replicates = self.setting.job.evaluation.replicates if split == "test" else 0
        options = {
            "replicates": replicates,
            "one_per_lesion": one_per_lesion,
            "intersections": split == "test",
        }
        return add_blocks(unpack_blocks(update) for update in self._ask(COUNTS, name, graph, split, options))

    def embeddings(self, name: str, bundle: Graded) -> ClassSums:
        """Sums of the embeddings of all training pictures at the clients that hold the model's subgroup."""
        classes, features = len(bundle.manifest.labels), Graph(bundle.graph).num_features
        expected = shapes(classes, features)
        updates = self._ask(EMBEDDINGS, name, bundle.graph, "train", {}, expected=expected)
        return total((ClassSums.from_update(update, features) for update in updates), classes, features)

    def distances(
        self, name: str, graph: bytes, gaussians: Gaussians, split: Split, *, one_per_lesion: bool = False
    ) -> NDArray[np.int64]:
        """The histogram of distances from the training pictures."""
        sent = {
            MEANS: torch.from_numpy(gaussians.means),
            WHITENING: torch.from_numpy(gaussians.whitening),
        }
        options = {"one_per_lesion": one_per_lesion}
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
        """The global model is asked about everybody's pictures, a subgroup's model about its own.

        Hospitals judge a model; of what it was trained on, the server knows too.
        """
        census, subgroups = self.setting.census, self.setting.places if name == GLOBAL else (name,)
        trainers = [client for client in census.holders(split, subgroups) if client not in census.unseen]
        question = EvaluateQuestion(split=split, subgroups=subgroups, **options).model_dump()
        tensors = {GRAPH: as_tensor(graph), **(beside or {})}
        broadcasts = [
            Broadcast(client, self.setting.key, 0, ask, name, tensors, question)
            for client in (trainers if split == "train" else census.hospitals(split, subgroups))
        ]
        masks = self.setting.job.privacy.masked_counts
        if broadcasts and masks is not None:
            return ask_sums(self.setting.engine, broadcasts, self.traffic, masks)
        return ask_all(self.setting.engine, broadcasts, self.traffic, expected) if broadcasts else []


def global_temperature(sums: NDArray[np.float64], n: int) -> Temperature:
    """The temperature fitted on everybody's pictures, which leans on no other."""
    value = fit_temperature(sums, n)
    return Temperature(value, value, n)


def run(graph: Graph, examples: Examples) -> Outputs:
    """The graph's answers over all examples, in batches."""
    starts = range(0, len(examples), EVALUATION_BATCH)
    batches = [
        graph.run(examples.batch(np.arange(start, min(start + EVALUATION_BATCH, len(examples)))))
        for start in starts
    ]
    return Outputs(*(np.concatenate([getattr(batch, name) for batch in batches]) for name in OUTPUTS))


def embedding_sums(graph: Graph, client: Client, split: Split) -> ClassSums:
    """What a client tells of the embeddings of all its labelled pictures of a split, of every subgroup."""
    examples = client.examples(split)
    labelled = examples.where(examples.labels >= 0)
    embedding = run(graph, labelled).embedding
    return class_sums(embedding, labelled.labels, len(client.dataset.labels), client.min_count)


def pool(blocks: Blocks, bundle: Graded) -> Counts:
    """Counts over all subgroups."""
    return sum((block.point for block in blocks.values()), Counts.zeros(len(bundle.manifest.labels)))


def at_temperature(bundle: Graded, temperature: Temperature) -> Graded:
    """The bundle with a temperature set in its graph and told in its manifest."""
    graph = set_temperature(bundle.graph, temperature.value)
    shrunk = temperature.value != temperature.fitted
    entry = TemperatureEntry(value=temperature.value, n=temperature.n, shrunk=shrunk)
    manifest = bundle.manifest.model_copy(update={"temperature": entry, "file": ModelFile.of(graph)})
    return Graded(manifest, graph)


def promised(bundle: Graded, fit: Fit, coverage: float) -> Graded:
    """The bundle with its thresholds and what they promise."""
    for_whom: Guarantee = "global" if bundle.manifest.subgroup.is_global else "subgroup"
    update = {
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
    return Graded(bundle.manifest.model_copy(update=update), bundle.graph)


def with_novelty(bundle: Graded, novelty: Novelty) -> Graded:
    """The bundle with what is familiar to it."""
    manifest = bundle.manifest.model_copy(update={"out_of_distribution": novelty.entry()})
    return Graded(manifest, bundle.graph)


def with_tones(bundle: Graded, tones: ToneRanges | None) -> Graded:
    """The bundle with how the skin of each declared tone looks."""
    return Graded(bundle.manifest.model_copy(update={"tones": tones}), bundle.graph)


def with_figures(bundle: Graded, test: Blocks, far: NDArray[np.int64], setting: Setting) -> Graded:
    """The bundle with its test figures, and the histograms that drift is measured against.

    Args:
        bundle: the calibrated bundle.
        test: its counts by subgroup.
        far: the histogram of the distances; all zero where nothing is called unfamiliar.
        setting: of the job.
    """
    if not test:
        return bundle
    present = tuple(name for name in setting.subgroups if name in test)
    covered = {name: coverage_on(block, bundle.manifest.conformal) for name, block in test.items()}
    figures = summarise(test, setting.labels, present, covered, setting.job.evaluation.traits)
    of_all = coverage_on(reduce(add, test.values()), bundle.manifest.conformal)
    intervals = {**figures["intervals"], **of_all["intervals"]}
    update = {
        "metrics": {**figures, **of_all, "intervals": intervals},
        "reference": ReferenceHistograms.from_counts(
            pool(test, bundle),
            distances=tuple(far.tolist()) if far.any() else None,
            by_subgroup=histograms_by_subgroup(test, setting) if bundle.manifest.subgroup.is_global else (),
        ),
    }
    return Graded(bundle.manifest.model_copy(update=update), bundle.graph)


def histograms_by_subgroup(test: Blocks, setting: Setting) -> tuple[SubgroupHistograms, ...]:
    """The histograms of each subgroup of declared skin tones that sent its counts."""
    named = {name: subgroup_of(setting, name) for name in setting.subgroups if name in test}
    return tuple(
        SubgroupHistograms.from_counts(test[name].point, subgroup=subgroup)
        for name, subgroup in named.items()
        if not subgroup.is_global
    )


def coverage_on(block: Block, conformal: Conformal) -> dict[str, Any]:
    """How often the prediction sets of a bundle hold the right class on these test pictures."""
    tally = partial(covered_at, threshold_bin=conformal.threshold_bin)
    told = figures_and_intervals(
        block.point, block.replicates, {"coverage": partial(share_of, tally)}, {"coverage": tally}
    )
    return {name: value for name, value in told.items() if name != "n"}


def served(block: Block, fit: Fit) -> dict[str, Any]:
    """What a subgroup gets from the thresholds of the model that answers for it, on the test split.

    What is `reported` is before some of it is referred for being unfamiliar.
    """
    tallies = {
        "coverage": partial(covered_at, threshold_bin=fit.conformal.threshold_bin),
        "reported": partial(answered_at, threshold_bin=fit.abstention.threshold_bin),
        "reported_risk": partial(wrong_at, threshold_bin=fit.abstention.threshold_bin),
    }
    figures = {name: partial(share_of, tally) for name, tally in tallies.items()}
    figures["set_size"] = partial(mean_set_size_at, threshold_bin=fit.conformal.threshold_bin)
    told = figures_and_intervals(block.point, block.replicates, figures, tallies)
    return {name: value for name, value in told.items() if name != "n"}


def share_of(tally: Callable[[Counts], Tally], counts: Counts) -> Figure:
    """The proportion that a tally counts, `(...)`."""
    return ratio(*tally(counts))[..., 0]
