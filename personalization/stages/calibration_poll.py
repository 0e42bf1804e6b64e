"""What the server asks all clients about exported graphs, and the sums of their answers.

The encoder of a graph goes to each client once, before the first request about it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from personalization.calibration.at_thresholds import BETWEEN, STEPS, CountsAt, read_counts, to_tensor
from personalization.calibration.conformal import TRUTH
from personalization.calibration.mahalanobis import ClassSums, shapes, total
from personalization.calibration.temperature import TEMPERATURES
from personalization.calibration.triage import most_thresholds
from personalization.stages.calibration_answers import (
    AT_THRESHOLDS,
    COUNTED,
    COUNTS,
    DISTANCES,
    EMBEDDINGS,
    LEFT_OUT,
    LIKELIHOODS,
    MALIGNANCY,
    MEANS,
    NODES,
    TONES,
    WHITENING,
    NodesAsked,
)
from personalization.stages.calibration_features import FOLD, SUBGROUPS
from registry.bundle.cases import Pattern
from registry.bundle.conclusions import Tree
from registry.bundle.counts import Thresholds
from registry.bundle.labels import TonePatients, kinds_of
from registry.bundle.manifest import BundleManifest
from registry.bundle.model import DISTANCE_BINS, Gaussians, Graph
from registry.bundle.score_bins import SCORE_BINS
from training.data.cases import parts_of
from training.data.dataset import Split
from training.data.subgroups import ToneGroups
from training.jobs.stages.base import BundleDraft, StageContext
from training.messages import GLOBAL, Broadcast, Shapes, Tensors, Update, named
from training.models.export import GRAPH, as_tensor, set_temperature, split_graph, temperatures_of
from training.rounds.client.embed import ENCODER
from training.rounds.requests import EMBED, Blocks, EvaluateRequest, add_blocks, unpack_blocks
from training.rounds.server.ask import Traffic, ask_all, ask_sums

ONE_PER_LESION: Mapping[str, Any] = {"one_per_lesion": True}


@dataclass(frozen=True)
class Counted:
    """Counts of the test split by subgroup.

    Attributes:
        test: of all pictures or cases as they are.
        by_pattern: of cases under each pattern, by its name.
        left_out: of cases without each of their parts.
    """

    test: Blocks
    by_pattern: Mapping[str, Blocks]
    left_out: Mapping[str, Blocks]


@dataclass(frozen=True)
class Poll:
    """The server's requests about exported graphs to all clients that hold the pictures.

    About cases it asks for several answers at once: of all patterns together, each case under one that is
    drawn for it, and of every pattern by itself.

    Attributes:
        context: of the job.
        traffic: what the requests and answers cost.
        patterns: of cases; none where the job is about single pictures.
        seen: which clients have features of which encoder, by its digest.
        folds: of models by name, what follows the encoder in those without each fold.
    """

    context: StageContext
    traffic: Traffic
    patterns: tuple[Pattern, ...] = ()
    seen: set[tuple[str, str]] = field(default_factory=set)
    folds: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)

    @property
    def fitted_on(self) -> Split:
        """The split that thresholds are fitted to."""
        return fitted_on(self.context)

    @property
    def parts(self) -> tuple[str, ...]:
        """What is left out of cases in turn."""
        case = self.context.job.data.case
        return () if case is None else parts_of(case)

    @property
    def together(self) -> tuple[str, ...]:
        """The names of all patterns."""
        return tuple(pattern.name for pattern in self.patterns)

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """All patterns together, and each by itself; nothing where there are none."""
        return (self.together, *((name,) for name in self.together)) if self.patterns else ()

    def judged_on(self, name: str) -> tuple[str, ...]:
        """The subgroups that a model is judged on: the global model on all, others on their own."""
        return self.context.all_subgroups if name == GLOBAL else (name,)

    def likelihoods(self, name: str, graph: bytes) -> list[tuple[NDArray[np.float64], int]]:
        """Log-likelihood sums over the temperature grid on what is calibrated on, and of how many.

        The first of all together, then those of each pattern; so are all that follow.
        """
        found = []
        for answers in in_sets(self._fit(LIKELIHOODS, name, graph), self.sets):
            sums = sum((each.tensors[LIKELIHOODS].numpy() for each in answers), np.zeros_like(TEMPERATURES))
            found.append((sums, sum(counted(each) for each in answers)))
        return found

    def malignancies(self, name: str, graph: bytes) -> list[NDArray[np.int64]]:
        """The histograms that working points and triage are fitted to.

        Each is of the subgroups that the model is judged on, `(subgroups, 1 + kinds, bins)`.
        """
        shape = (len(self.judged_on(name)), 1 + len(kinds_of(self.context.labels)), SCORE_BINS)
        updates = self._fit(MALIGNANCY, name, graph)
        return [summed(answers, MALIGNANCY, shape) for answers in in_sets(updates, self.sets)]

    def truths(self, name: str, graph: bytes) -> list[NDArray[np.int64]]:
        """The histograms `(bins,)` that prediction sets are fitted to."""
        updates = self._fit(TRUTH, name, graph)
        return [summed(answers, TRUTH, (SCORE_BINS,)) for answers in in_sets(updates, self.sets)]

    def nodes(self, name: str, graph: bytes, asked: NodesAsked, tree: Tree) -> NDArray[np.int64]:
        """The histograms that thresholds of the nodes of a level are proposed by.

        Returns:
            `(sets of patterns, nodes of the level, 2, bins)`.
        """
        updates = self._fit(NODES, name, graph, asked.to_tensors())
        return summed(updates, NODES, (len(asked.so_far), len(tree.levels[asked.level]), 2, SCORE_BINS))

    def at_thresholds(
        self,
        name: str,
        graph: bytes,
        histograms: Sequence[NDArray[np.int64]],
        thresholds: Sequence[Sequence[Sequence[int]]],
        asked: NodesAsked | None = None,
    ) -> list[list[CountsAt]]:
        """Counts at thresholds, by malignancy or of the nodes that are asked: exact ones under masks.

        In the clear hospitals would count the histograms that they have sent, so they are not asked.

        Args:
            name: of the model.
            graph: the model.
            histograms: what `malignancies` or `nodes` gave, of each set of patterns `(groups, rows, bins)`.
            thresholds: of each set and group score bins, rising, as many as a request has place for.
            asked: as of `nodes`; None of malignancies.
        """
        if self.context.job.privacy.masked_counts is None or not any(map(any, thresholds)):
            return [
                [CountsAt.of(each, at) for each, at in zip(groups, of, strict=True)]
                for groups, of in zip(histograms, thresholds, strict=True)
            ]
        what, most, beside = MALIGNANCY, most_thresholds(len(self.judged_on(name))), {}
        if asked is not None:
            what, most, beside = NODES, STEPS, asked.to_tensors()
        sent = {**beside, what: to_tensor([at for of in thresholds for at in of], most)}
        updates = self._fit(AT_THRESHOLDS, name, graph, sent)
        groups, rows, _ = histograms[0].shape
        found = []
        for answers, of in zip(in_sets(updates, self.sets), thresholds, strict=True):
            between = summed(answers, BETWEEN, (groups * rows, most + 1)).reshape(groups, rows, most + 1)
            found.append([CountsAt.up_to(at, each) for at, each in zip(of, between, strict=True)])
        return found

    def counts(self, name: str, bundle: BundleDraft) -> "Counted":
        """Counts of the test split by subgroup, with what the bundle's thresholds do there."""
        manifest = bundle.manifest
        sets = ((), *((each,) for each in self.together)) if self.patterns else ()
        parts = self.parts if sets else ()
        options = {
            "intersections": True,
            "thresholds": thresholds_in(manifest),
            "pattern_thresholds": {
                pattern.name: thresholds_in(manifest.under(pattern)) for pattern in self.patterns
            },
            **of_sets(sets),
            "left_out": parts,
        }
        updates = self._ask(COUNTS, name, bundle.graph, "test", options)
        by_place = in_sets(updates, (*sets, *((part,) for part in parts)))
        of_all, *others = (add_blocks(unpack_blocks(each) for each in answers) for answers in by_place)
        count = len(self.patterns)
        by_pattern = dict(zip(self.together, others[:count], strict=True))
        return Counted(of_all, by_pattern, dict(zip(parts, others[count:], strict=True)))

    def embeddings(self, name: str, bundle: BundleDraft) -> ClassSums:
        """Sums of the embeddings of all training pictures at the clients that hold the model's subgroup."""
        classes, features = len(bundle.manifest.labels), Graph(bundle.graph).num_features
        sets = self.sets[:1]
        expected = shapes(classes, features)
        if sets:
            expected = {f"0/{name}": shape for name, shape in expected.items()}
        updates = self._ask(EMBEDDINGS, name, bundle.graph, "train", of_sets(sets), expected=expected)
        (answers,) = in_sets(updates, sets)
        return total((ClassSums.from_update(each, features) for each in answers), classes, features)

    def distances(
        self,
        name: str,
        graph: bytes,
        gaussians: Gaussians,
        split: Split,
        left_out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int64]:
        """The histogram of distances from the training pictures; with `left_out` from all but each itself."""
        sent = {
            MEANS: torch.from_numpy(gaussians.means),
            WHITENING: torch.from_numpy(gaussians.whitening),
            **({} if left_out is None else {LEFT_OUT: torch.from_numpy(left_out)}),
        }
        sets = self.sets[:1]
        options = {**({} if split == "test" else ONE_PER_LESION), **of_sets(sets)}
        updates = self._ask(DISTANCES, name, graph, split, options, beside=sent)
        (answers,) = in_sets(updates, sets)
        return summed(answers, DISTANCES, (DISTANCE_BINS,))

    def tones(self) -> TonePatients | None:
        """How many patients of each skin tone calibration and test rest on; None without groups of tones."""
        groups = self.context.job.data.subgroups
        if not isinstance(groups, ToneGroups):
            return None
        return TonePatients(
            calibration=self._tones(self.fitted_on, groups.claimed), test=self._tones("test", groups.claimed)
        )

    def _tones(self, split: Split, claimed: Sequence[tuple[str, str]]) -> dict[str, dict[str, int]]:
        subgroups, least = self.context.all_subgroups, max(self.context.job.privacy.min_count, 1)
        request = EvaluateRequest(split=split, subgroups=subgroups, one_per_lesion=split != "test")
        updates = self._answers(
            [
                Broadcast(client, self.context.key, 0, TONES, GLOBAL, {}, request.model_dump())
                for client in self.context.judges(split, subgroups)
            ]
        )
        counts = summed(updates, TONES, (len(claimed),))
        found: dict[str, dict[str, int]] = {}
        for (scale, tone), n in zip(claimed, counts.tolist(), strict=True):
            if n >= least:
                found.setdefault(scale, {})[tone] = n
        return found

    def _fit(self, ask: str, name: str, graph: bytes, beside: Tensors | None = None) -> list[Update]:
        """Ask about one picture of each lesion that thresholds are fitted to, in every set of patterns."""
        options = {**ONE_PER_LESION, **of_sets(self.sets)}
        return self._ask(ask, name, graph, self.fitted_on, options, beside=beside)

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
        """Have clients evaluate a graph: the global model on all subgroups, a subgroup's model on its own.

        Only hospitals evaluate models; the client `server` also sends sums of training embeddings.
        """
        subgroups = self.judged_on(name)
        masked = self.context.job.privacy.masked_counts is not None
        clients = (
            self.context.trainers(subgroups, masked=masked)
            if ask == EMBEDDINGS
            else self.context.judges(split, subgroups)
        )
        parts = split_graph(graph)
        encoder = self._show(name, parts.encoder, clients, subgroups)
        request = EvaluateRequest(split=split, subgroups=subgroups, **options).model_dump()
        tensors = {GRAPH: as_tensor(parts.head), **self._heads(ask, name, graph), **(beside or {})}
        broadcasts = [
            Broadcast(client, self.context.key, 0, ask, name, tensors, {**request, ENCODER: encoder})
            for client in clients
        ]
        return self._answers(broadcasts, expected)

    def _heads(self, ask: str, name: str, graph: bytes) -> Tensors:
        """What follows the encoder in the models without each fold, at the graph's temperatures."""
        if ask not in (LIKELIHOODS, MALIGNANCY, TRUTH, NODES, AT_THRESHOLDS):
            return {}
        temperatures = temperatures_of(graph)
        return {
            f"{FOLD}{fold}": as_tensor(set_temperature(head, temperatures))
            for fold, head in enumerate(self.folds.get(name, ()))
        }

    def _answers(self, broadcasts: Sequence[Broadcast], expected: Shapes | None = None) -> list[Update]:
        """The responses, or their masked sum; none where no client is polled."""
        context, masks = self.context, self.context.job.privacy.masked_counts
        if not broadcasts:
            return []
        if masks is not None:
            return ask_sums(context.engine, broadcasts, self.traffic, masks, context.quorum)
        return ask_all(context.engine, broadcasts, self.traffic, expected, context.quorum)

    def _show(self, name: str, encoder: bytes, clients: Sequence[str], subgroups: Sequence[str]) -> str:
        """Have clients compute features they have not computed yet; returns the encoder's digest.

        Models with the same encoder share its features: the global model is evaluated first.
        """
        digest = hashlib.sha256(encoder).hexdigest()
        tensors, options = {GRAPH: as_tensor(encoder)}, {ENCODER: digest, SUBGROUPS: list(subgroups)}
        broadcasts = [
            Broadcast(client, self.context.key, 0, EMBED, name, tensors, options)
            for client in clients
            if (client, digest) not in self.seen
        ]
        if broadcasts:
            ask_all(self.context.engine, broadcasts, self.traffic, quorum=self.context.quorum)
            self.seen.update((client, digest) for client in clients)
        return digest


def fitted_on(context: StageContext) -> Split:
    """The split that a job's thresholds are fitted to: with cross-fitting the one that is trained on."""
    return "calibration" if context.job.data.crossfit is None else "train"


def of_sets(sets: tuple[tuple[str, ...], ...]) -> Mapping[str, Any]:
    """What a request says of sets of patterns."""
    return {"patterns": sets} if sets else {}


def summed(updates: Sequence[Update], name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The sum of the counts of this name and shape in some answers."""
    return sum((read_counts(each, name, shape) for each in updates), np.zeros(shape, dtype=np.int64))


def in_sets(updates: Sequence[Update], sets: Sequence[Sequence[str]]) -> list[list[Update]]:
    """The answers to each set of patterns, of every client; to no set there is one answer, the whole one."""
    if not sets:
        return [list(updates)]
    return [
        [replace(update, tensors=named(update.tensors, f"{place}/")) for update in updates]
        for place in range(len(sets))
    ]


def counted(update: Update) -> int:
    """Of how many pictures or cases log-likelihoods are."""
    if COUNTED in update.tensors:
        return int(update.tensors[COUNTED].sum())
    return sum(update.num_examples.values())


def thresholds_in(manifest: BundleManifest) -> dict[str, int | None]:
    """The thresholds of a manifest, as a request carries them."""
    triage = manifest.triage
    return asdict(
        Thresholds(
            manifest.conformal.threshold_bin,
            manifest.suspicious_from,
            None if triage is None else triage.ruled_out_below,
            None if triage is None else triage.urgent_from,
            tuple(manifest.conclusions.thresholds(manifest.tree).tolist()),
        )
    )
