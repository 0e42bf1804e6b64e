"""The drift histograms of what was answered, by model, version and subgroup of the declared tone."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Counter, Histogram

from registry.bundle.counts.score_bins import malignancy_probability
from registry.bundle.labels import malignant_classes
from registry.bundle.model import distance_bin
from serving.inference.predictor import LoadedVersion
from serving.inference.quality import QualityAssessment
from serving.metrics.metrics import Metrics
from serving.monitoring.drift.bins import (
    DISTANCE_EDGES,
    LOG_ODDS_EDGES,
    distance_values,
    log_odds_values,
)

CONFIDENCE_LOG_ODDS: Final = "dermfed_confidence_log_odds"
MALIGNANCY_LOG_ODDS: Final = "dermfed_malignancy_log_odds"
UNFAMILIARITY: Final = "dermfed_unfamiliarity"
CLASSES: Final = "dermfed_class_probability"
DECISIONS: Final = "dermfed_decisions"
TRIAGE: Final = "dermfed_triage"

_LABELS: Final = ("model", "version", "subgroup")


@dataclass(frozen=True)
class _Counters:
    """The metrics of one version and subgroup, kept since looking them up takes longer than counting."""

    malignant: NDArray[np.bool_]
    confidence: Histogram
    classes: list[Counter]
    malignancy: Histogram | None
    unfamiliarity: Histogram | None


class DriftCounters:
    """Histograms of what the service answered, summed over all workers."""

    def __init__(self, metrics: Metrics) -> None:
        """Registers the histograms with the service's metrics."""
        self._by_labels: dict[tuple[str, str, str], _Counters] = {}
        self._confidence = Histogram(
            CONFIDENCE_LOG_ODDS,
            "Log-odds of the highest probability",
            _LABELS,
            buckets=LOG_ODDS_EDGES,
            registry=metrics.registry,
        )
        self._malignancy = Histogram(
            MALIGNANCY_LOG_ODDS,
            "Log-odds of the malignancy probability",
            _LABELS,
            buckets=LOG_ODDS_EDGES,
            registry=metrics.registry,
        )
        self._unfamiliarity = Histogram(
            UNFAMILIARITY,
            "Distance from the training pictures; from 1 on a picture is called unfamiliar",
            _LABELS,
            buckets=DISTANCE_EDGES,
            registry=metrics.registry,
        )
        self._classes = Counter(
            CLASSES, "Each class's probabilities, summed", [*_LABELS, "code"], registry=metrics.registry
        )
        self._decisions = Counter(
            DECISIONS, "What was decided", [*_LABELS, "decision"], registry=metrics.registry
        )
        self._triage = Counter(
            TRIAGE, "How lesions were triaged", [*_LABELS, "triage"], registry=metrics.registry
        )
        self._issues = Counter(
            "dermfed_quality_issues",
            "What was wrong with pictures: told, or bad enough to ask for another",
            [*_LABELS, "issue", "bad"],
            registry=metrics.registry,
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
        counters = self._counters_of(loaded, subgroup)
        # All that can fail comes before the first count.
        confidence = probabilities.max(axis=1)
        observed = [(counters.confidence, log_odds_values(confidence))]
        if counters.malignancy is not None:
            summed = malignancy_probability(probabilities, counters.malignant)
            observed.append((counters.malignancy, log_odds_values(summed)))
        known = loaded.manifest.out_of_distribution
        if counters.unfamiliarity is not None and known is not None and known.threshold_bin is not None:
            places = distance_bin(known.gaussians.distances(embeddings))
            observed.append((counters.unfamiliarity, distance_values(places, known.threshold_bin)))
        sums = probabilities.sum(axis=0, dtype=np.float64).tolist()
        shares = list(zip(counters.classes, sums, strict=True))
        for counter, probability in shares:
            counter.inc(probability)
        for histogram, values in observed:
            for value in values:
                histogram.observe(value)

    def _counters_of(self, loaded: LoadedVersion, subgroup: str) -> "_Counters":
        labels = loaded.version.model, str(loaded.version.number), subgroup
        if (known := self._by_labels.get(labels)) is not None:
            return known
        manifest = loaded.manifest
        malignant = malignant_classes(manifest.labels)
        both_kinds = bool(malignant.any() and not malignant.all())
        unknown = manifest.out_of_distribution is None or manifest.out_of_distribution.threshold_bin is None
        found = self._by_labels[labels] = _Counters(
            malignant,
            self._confidence.labels(*labels),
            [self._classes.labels(*labels, label.code) for label in manifest.labels],
            self._malignancy.labels(*labels) if both_kinds else None,
            None if unknown else self._unfamiliarity.labels(*labels),
        )
        return found

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
