"""What Prometheus is told: counts and latencies by route and decision, never by picture or caller.

Labels come from closed lists (our own paths, the registry's models), so that no caller can make the
number of time series grow.
"""

import os

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from serving.schemas import Diagnosis

MEDIA_TYPE = CONTENT_TYPE_LATEST
OTHER = "other"
"""The path label of whatever is none of ours."""

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The service's counters; with several workers, summed over all of them."""

    def __init__(self) -> None:
        """Makes them all."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "dermfed_requests", "Requests", ["method", "path", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "dermfed_request_seconds",
            "From the first byte of a request to the last of its answer",
            ["path"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._diagnoses = Counter(
            "dermfed_diagnoses",
            "Diagnoses",
            ["model", "version", "subgroup", "route", "decision"],
            registry=self._registry,
        )

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        """One request has been answered."""
        self._requests.labels(method if method in _METHODS else OTHER, path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def diagnosis(self, diagnosis: Diagnosis) -> None:
        """One diagnosis has been made."""
        model = diagnosis.model
        self._diagnoses.labels(
            model.name, str(model.version), model.subgroup, model.route, diagnosis.decision
        ).inc()

    def render(self) -> bytes:
        """All of it in Prometheus' text format."""
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            shared = CollectorRegistry()
            MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
            return generate_latest(shared)
        return generate_latest(self._registry)
