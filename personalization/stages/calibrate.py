"""The stage `calibrate`: confidence that can be trusted, fitted where the data are, on the served graph.

Three exchanges, each answered by sums: log-likelihoods over a grid of temperatures; then, with the
temperature set in the graph, histograms of the calibration split for prediction sets and abstention; then
the counts of the test split. A subgroup's model is calibrated on its subgroup's pictures, the global model
on everybody's.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

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
from registry.bundle.block import Counts
from registry.bundle.graph import OUTPUTS, Graph, Outputs
from registry.bundle.metrics.sets import coverage_at, mean_set_size_at
from registry.bundle.metrics.summary import summarise
from registry.bundle.schema import Abstention, Conformal, Guarantee, ModelFile, ReferenceHistograms
from registry.bundle.schema import Temperature as TemperatureEntry
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
from training.messages import GLOBAL, Broadcast, Update, reply, unknown_question
from training.polling import Traffic, ask_all
from training.stages.base import Graded, Outcome, Setting, Stage

LIKELIHOODS, COUNTS = "log_likelihoods", "counts"


class Calibrate(Stage):
    """Temperatures, prediction sets and abstention for every model.

    Attributes:
        coverage: 1 − α of the prediction sets.
        target_risk: the share of wrong answers allowed among those that are not referred.
        shrink_strength: for how many pictures the global temperature counts in a subgroup's.
    """

    stage: Literal["calibrate"] = "calibrate"
    coverage: float = Field(0.9, gt=0, lt=1)
    target_risk: float = Field(0.1, ge=0, lt=1)
    shrink_strength: float = Field(20.0, ge=0)

    def run(self, setting: Setting, before: Outcome) -> Outcome:
        """Calibrate every exported model, then judge them all on the test split."""
        poll = Poll(setting, Traffic())
        bundles: dict[str, Graded] = {}
        fits: dict[str, Fit] = {}
        for name, temperature in self.temperatures(poll, before.bundles).items():
            bundle = at_temperature(before.bundles[name], temperature)
            fits[name] = self.fit(poll, name, bundle, temperature)
            bundles[name] = promised(bundle, fits[name], self.coverage)

        tests = {name: poll.counts(name, bundle.graph, "test") for name, bundle in bundles.items()}
        bundles = {name: with_figures(bundle, tests[name], setting) for name, bundle in bundles.items()}
        routed = {place: place if place in tests else GLOBAL for place in setting.places}
        test = {place: tests[name][place] for place, name in routed.items() if place in tests[name]}
        earlier = before.facts.get("by_subgroup", {})
        facts = {
            "models": {name: asdict(fit) for name, fit in fits.items()},
            "by_subgroup": {
                place: {**earlier.get(place, {}), **served(block.point, fits[routed[place]])}
                for place, block in test.items()
            },
        }
        return Outcome(before.models, bundles, traffic=poll.traffic, test=test, facts=facts)

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
        return Fit(
            temperature,
            fit_threshold(by_lesion, ConformalConfig(coverage=self.coverage)),
            fit_abstention(everything, AbstentionConfig(target_risk=self.target_risk)),
        )

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """Sums over this client's pictures, from the graph that arrived."""
        question = EvaluateQuestion.model_validate(broadcast.options)
        parts = sendable(client, question)
        graph = Graph(as_bytes(broadcast.tensors), torch.get_num_threads())
        if broadcast.ask == LIKELIHOODS:
            sums = np.zeros_like(TEMPERATURES)
            for part in parts.values():
                sums += log_likelihoods(run(graph, part).logits, part.labels)
            counted = {name: len(part) for name, part in parts.items()}
            return reply(broadcast, tensors={LIKELIHOODS: torch.from_numpy(sums)}, num_examples=counted)
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
        options = {"replicates": replicates, "one_per_lesion": one_per_lesion}
        return add_blocks(unpack_blocks(update) for update in self._ask(COUNTS, name, graph, split, options))

    def _ask(
        self, ask: str, name: str, graph: bytes, split: Split, options: Mapping[str, Any]
    ) -> list[Update]:
        """The global model is asked about everybody's pictures, a subgroup's model about its own."""
        subgroups = self.setting.places if name == GLOBAL else (name,)
        question = EvaluateQuestion(split=split, subgroups=subgroups, **options).model_dump()
        tensors = {GRAPH: as_tensor(graph)}
        broadcasts = [
            Broadcast(client, self.setting.key, 0, ask, name, tensors, question)
            for client in self.setting.census.hospitals(split, subgroups)
        ]
        return ask_all(self.setting.engine, broadcasts, self.traffic) if broadcasts else []


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


def with_figures(bundle: Graded, test: Blocks, setting: Setting) -> Graded:
    """The bundle with its test figures, and the histograms that drift is measured against."""
    if not test:
        return bundle
    present = tuple(name for name in setting.subgroups if name in test)
    update = {
        "metrics": summarise(test, setting.labels, present),
        "reference": ReferenceHistograms.from_counts(pool(test, bundle)),
    }
    return Graded(bundle.manifest.model_copy(update=update), bundle.graph)


def served(counts: Counts, fit: Fit) -> dict[str, float | None]:
    """What a subgroup gets from the thresholds of the model that answers for it, on the test split."""
    reported = counts.confidence[:, fit.abstention.threshold_bin :].sum(axis=1)  # wrong, right
    return {
        "coverage": float(coverage_at(counts, fit.conformal.threshold_bin)),
        "set_size": float(mean_set_size_at(counts, fit.conformal.threshold_bin)),
        "reported": float(reported.sum() / counts.n),
        "reported_risk": float(reported[0] / reported.sum()) if reported.sum() else None,
    }
