"""Counts what was answered for drift, by model, version and subgroup of the declared tone.

Histograms have a few dozen bins, each made of whole bins of the bundle's own. A score has 64 bins, each 0.5
wide in log-odds. A distance from the training pictures is given as a multiple of the distance from which on
a picture is called unfamiliar: 32 bins of 10 distance bins each (12 % wide), from a tenth of it to three
times as far, the outer ones open.

Pictures are counted in batches, on a background thread: their distance takes up to a millisecond of a core
for one picture, and little more for a few dozen at once.
"""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Counter, Histogram

from registry.bundle.counts.score_bins import LOGIT_BINS, malignancy_probability
from registry.bundle.labels import malignant_classes
from registry.bundle.model import BINS_PER_DECADE, DISTANCE_BINS, distance_bin
from serving.inference.predictor import LoadedVersion
from serving.inference.quality import QualityAssessment
from serving.metrics import Metrics

_DISTANCES_IN_ONE: Final = 10
_NEAREST, _FARTHEST = -20, 10  # edges, in tens of distance bins from the threshold

_HALF: Final = 0.5
LOG_ODDS_EDGES: Final = tuple(np.arange(-15.5, 16, _HALF).tolist())
"""The upper edge of each bin of a score's log-odds but the last; each is an edge of score bins, too."""

_middles = np.log(LOGIT_BINS.middles / (1 - LOGIT_BINS.middles))
_IN_LOG_ODDS: Final = np.searchsorted(LOG_ODDS_EDGES, _middles)
"""The bin of drift that each of `LOGIT_BINS` is part of."""

DISTANCE_EDGES: Final = tuple(
    round(10 ** (k * _DISTANCES_IN_ONE / BINS_PER_DECADE), 6) for k in range(_NEAREST, _FARTHEST + 1)
)
"""The upper edge of each bin of a distance but the last, in multiples of the threshold; one of them is 1."""


def log_odds_values(scores: NDArray[Any]) -> list[float]:
    """The middle of the bin of each score, in log-odds: a score falls where thresholds compare it."""
    places = _IN_LOG_ODDS[LOGIT_BINS.bin(scores)]
    values: list[float] = (LOG_ODDS_EDGES[0] + (places - 0.5) * _HALF).tolist()
    return values


def distance_values(places: NDArray[np.int64], threshold_bin: int) -> list[float]:
    """The middle of each distance's bin, in multiples of the threshold; above 1 is unfamiliar."""
    values: list[float] = (10.0 ** ((places - threshold_bin - 0.5) / BINS_PER_DECADE)).tolist()
    return values


def coarse_scores(histogram: NDArray[Any]) -> NDArray[np.int64]:
    """Sums a histogram over score bins into the bins of drift."""
    return np.bincount(_IN_LOG_ODDS, weights=np.asarray(histogram), minlength=len(LOG_ODDS_EDGES) + 1).astype(
        np.int64
    )


def coarse_distances(histogram: NDArray[Any], threshold_bin: int) -> NDArray[np.int64]:
    """Sums a histogram over distance bins `(2400,)` into the bins of drift, `(32,)`."""
    apart = np.arange(DISTANCE_BINS) - threshold_bin
    # Bin 0 holds all that is nearer than the first edge; apart = 0 is the last familiar one.
    kept = np.clip(np.ceil(apart / _DISTANCES_IN_ONE).astype(np.int64) - _NEAREST, 0, len(DISTANCE_EDGES))
    return np.bincount(kept, weights=np.asarray(histogram), minlength=len(DISTANCE_EDGES) + 1).astype(
        np.int64
    )


CONFIDENCE_LOG_ODDS: Final = "dermfed_confidence_log_odds"
MALIGNANCY_LOG_ODDS: Final = "dermfed_malignancy_log_odds"
UNFAMILIARITY: Final = "dermfed_unfamiliarity"
CLASSES: Final = "dermfed_class_probability"
DECISIONS: Final = "dermfed_decisions"
TRIAGE: Final = "dermfed_triage"

_LABELS: Final = ("model", "version", "subgroup")


class DriftCounters:
    """Histograms of what the service answered, summed over all workers."""

    def __init__(self, metrics: Metrics) -> None:
        """Registers the histograms with the service's metrics."""

        def histogram(name: str, about: str, edges: Sequence[float]) -> Histogram:
            return Histogram(name, about, _LABELS, buckets=edges, registry=metrics.registry)

        def counter(name: str, about: str, *more: str) -> Counter:
            return Counter(name, about, [*_LABELS, *more], registry=metrics.registry)

        self._confidence = histogram(
            CONFIDENCE_LOG_ODDS, "Log-odds of the highest probability", LOG_ODDS_EDGES
        )
        self._malignancy = histogram(
            MALIGNANCY_LOG_ODDS, "Log-odds of the malignancy probability", LOG_ODDS_EDGES
        )
        self._unfamiliarity = histogram(
            UNFAMILIARITY,
            "Distance from the training pictures; from 1 on a picture is called unfamiliar",
            DISTANCE_EDGES,
        )
        self._classes = counter(CLASSES, "Each class's probabilities, summed", "code")
        self._decisions = counter(DECISIONS, "What was decided", "decision")
        self._triage = counter(TRIAGE, "How lesions were triaged", "triage")
        self._issues = counter(
            "dermfed_quality_issues",
            "What was wrong with pictures: told, or bad enough to ask for another",
            "issue",
            "bad",
        )

    def count(
        self,
        loaded: LoadedVersion,
        subgroup: str,
        probabilities: NDArray[Any],
        embeddings: NDArray[Any],
    ) -> None:
        """Counts answered pictures, all of one version and subgroup; all of them or none.

        Args:
            loaded: the version that answered.
            subgroup: of the declared tone, see `serving.protocol.parameters.subgroup_of`.
            probabilities: what the model said, `(pictures, classes)`.
            embeddings: of the pictures, `(pictures, features)`.
        """
        labels = loaded.version.model, str(loaded.version.number), subgroup
        manifest = loaded.manifest
        malignant = malignant_classes(manifest.labels)
        # All that can fail comes before the first count.
        observed = [(self._confidence.labels(*labels), log_odds_values(probabilities.max(axis=1)))]
        if malignant.any() and not malignant.all():
            summed = malignancy_probability(probabilities, malignant)
            observed.append((self._malignancy.labels(*labels), log_odds_values(summed)))
        known = manifest.out_of_distribution
        if known is not None and known.threshold_bin is not None:
            places = distance_bin(known.gaussians.distances(embeddings))
            distances = distance_values(places, known.threshold_bin)
            observed.append((self._unfamiliarity.labels(*labels), distances))
        sums = probabilities.sum(axis=0, dtype=np.float64).tolist()
        for label, probability in list(zip(manifest.labels, sums, strict=True)):
            self._classes.labels(*labels, label.code).inc(probability)
        for histogram, values in observed:
            for value in values:
                histogram.observe(value)

    def count_decision(
        self,
        loaded: LoadedVersion,
        subgroup: str,
        decision: str,
        triage: str | None,
        quality: QualityAssessment,
    ) -> None:
        """Counts the decision on a picture, its triage, and its quality issues.

        Args:
            loaded: the version that answered.
            subgroup: of the declared tone.
            decision: what was decided.
            triage: who has to see the lesion; None where the answer does not say.
            quality: what is wrong with the picture.
        """
        labels = loaded.version.model, str(loaded.version.number), subgroup
        self._decisions.labels(*labels, decision).inc()
        if triage is not None:
            self._triage.labels(*labels, triage).inc()
        for issue in quality.issues:
            self._issues.labels(*labels, issue.code, "yes" if issue.bad else "no").inc()


log = logging.getLogger("dermfed.serve")

SECONDS: Final = 0.5
"""Seconds that a picture waits at most, where the processor has time for it."""

TOGETHER: Final = 64
"""How many pictures are counted without waiting any longer."""

_MOST = 4096  # with a processor that has no time for minutes, the oldest are forgotten

_Picture = tuple[LoadedVersion, str, NDArray[Any], NDArray[Any]]


class BackgroundDriftCounter:
    """A queue of answered pictures, and the thread that counts them for drift."""

    def __init__(self, counters: DriftCounters) -> None:
        """Starts the thread."""
        self._counters = counters
        self._pictures: deque[_Picture] = deque(maxlen=_MOST)
        self._enough, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="drift", daemon=True)
        self._thread.start()

    def put(
        self, loaded: LoadedVersion, subgroup: str, probabilities: NDArray[Any], embedding: NDArray[Any]
    ) -> None:
        """Queues one picture for counting.

        Args:
            loaded: the version that answered.
            subgroup: of the declared tone.
            probabilities: what the model said, `(classes,)`.
            embedding: of the picture, `(features,)`.
        """
        self._pictures.append((loaded, subgroup, probabilities, embedding))
        if len(self._pictures) >= TOGETHER:
            self._enough.set()

    def close(self) -> None:
        """Counts what waits, and ends the thread."""
        self._stop.set()
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        ending = False
        while not ending:
            self._enough.wait(SECONDS)
            self._enough.clear()
            ending = self._stop.is_set()  # looked at first: what came before it is counted
            while self._pictures:
                self._count([self._pictures.popleft() for _ in range(min(TOGETHER, len(self._pictures)))])

    def _count(self, waiting: list[_Picture]) -> None:
        groups: dict[tuple[int, str], list[_Picture]] = {}
        for one in waiting:
            groups.setdefault((id(one[0]), one[1]), []).append(one)
        lost: list[Exception] = []
        for pictures in groups.values():
            if self._count_or_error(pictures) is not None:  # it may be one picture alone
                lost += filter(None, (self._count_or_error([one]) for one in pictures))
        if lost:
            log.error("pictures that could not be counted for drift: %d", len(lost), exc_info=lost[0])

    def _count_or_error(self, pictures: list[_Picture]) -> Exception | None:
        """Counts these, all of one version and subgroup; on an error none of them, and returns it."""
        loaded, subgroup = pictures[0][:2]
        try:
            probabilities = np.stack([one[2] for one in pictures])
            embeddings = np.stack([one[3] for one in pictures])
            self._counters.count(loaded, subgroup, probabilities, embeddings)
        except Exception as error:  # noqa: BLE001
            # The answers are out; whatever it is, the thread has to live for those to come.
            return error
        return None
