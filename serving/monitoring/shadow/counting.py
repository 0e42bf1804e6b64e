"""Counters of how a candidate compares with production, by the two versions and subgroup.

Sums of both sides are kept instead of differences, since counters of several workers only ever grow.
"""

from typing import Final, Literal

from prometheus_client import Counter

from serving.metrics.metrics import Metrics
from serving.protocol.schemas import Diagnosis

Side = Literal["production", "candidate"]
SIDES: tuple[Side, Side] = ("production", "candidate")

COMPARISONS: Final = "dermfed_shadow_comparisons"
AGREEMENTS: Final = "dermfed_shadow_agreements"
DECISIONS: Final = "dermfed_shadow_decisions"
MALIGNANCY: Final = "dermfed_shadow_malignancy"
SET_CODES: Final = "dermfed_shadow_set_codes"
SECONDS: Final = "dermfed_shadow_seconds"

_PAIR: Final = ("model", "version", "candidate", "subgroup")


class ShadowCounters:
    """The counters of shadow comparisons, summed over all workers."""

    def __init__(self, metrics: Metrics) -> None:
        """Registers the counters with the service's metrics."""

        def counter(name: str, about: str, *more: str) -> Counter:
            return Counter(name, about, [*_PAIR, *more], registry=metrics.registry)

        self._comparisons = counter(COMPARISONS, "Pictures that were shown to both")
        self._agreements = counter(AGREEMENTS, "Pictures of which both found the same class most probable")
        self._decisions = counter(DECISIONS, "What each decided", "before", "after")
        self._malignancy = counter(MALIGNANCY, "Malignancy probabilities, summed", "side")
        self._set_codes = counter(SET_CODES, "Classes in all prediction sets together", "side")
        self._seconds = counter(SECONDS, "Time of the model alone, of the pictures it was taken of", "side")
        self._left_out = Counter(
            "dermfed_shadow_left_out",
            "Pictures that were to be compared and were not",
            ["model", "why"],
            registry=metrics.registry,
        )

    def compared(self, subgroup: str, production: Diagnosis, candidate: Diagnosis) -> None:
        """Counts the two answers for one picture, by the subgroup of its declared tone."""
        pair = _pair(subgroup, production, candidate)
        self._comparisons.labels(*pair).inc()
        same = production.findings[0].code == candidate.findings[0].code
        self._agreements.labels(*pair).inc(int(same))
        self._decisions.labels(*pair, production.decision, candidate.decision).inc()
        both = dict(zip(SIDES, (production, candidate), strict=True))
        risks = {side: one.malignancy.probability for side, one in both.items()}
        for side, one in both.items():
            self._set_codes.labels(*pair, side).inc(len(one.prediction_set.codes))
            if None not in risks.values():
                self._malignancy.labels(*pair, side).inc(risks[side] or 0.0)

    def timed(
        self, subgroup: str, production: Diagnosis, candidate: Diagnosis, seconds: tuple[float, float]
    ) -> None:
        """Counts the seconds of each model for one picture, run one after the other on the same thread."""
        for side, run_seconds in zip(SIDES, seconds, strict=True):
            self._seconds.labels(*_pair(subgroup, production, candidate), side).inc(run_seconds)

    def left_out(self, model: str, why: Literal["busy", "failed", "not-taken"]) -> None:
        """Counts a sampled picture that was not compared."""
        self._left_out.labels(model, why).inc()


def _pair(subgroup: str, production: Diagnosis, candidate: Diagnosis) -> tuple[str, str, str, str]:
    answered = production.model
    return answered.name, str(answered.version), str(candidate.model.version), subgroup
