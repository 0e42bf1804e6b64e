"""Figures of the field and open alarms for Prometheus."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from serving.monitoring.outcomes.field_view import FieldRow, FieldView, Figure

_WHO = ("model", "version", "subgroup")
_SHARES: Final = {
    "sensitivity": "Of malignant lesions in the field, the share above the working point",
    "specificity": "Of other lesions in the field, the share below the working point",
    "coverage": "How often the prediction set held what it was, among the followed up",
}
_COUNTS: Final = {
    "answers": "Answers that were kept",
    "outcomes": "Answers whose outcome is known",
    "malignant_outcomes": "Malignant ones of these",
    "reported": "The share of answers that were reported, neither referred nor to be taken again",
}
_OF: Final = {"answers": "answered", "malignant_outcomes": "malignant"}


def field_metrics(view: FieldView | None) -> Iterable[Metric]:
    """The metrics of the last look; none before the first that succeeded."""
    if view is None or view.looked is None:
        return
    for name, what in _SHARES.items():
        family = GaugeMetricFamily(f"dermfed_field_{name}", what, labels=[*_WHO, "figure", "end"])
        for row in view.rows:
            for kind, figure in _kinds(row, name):
                for end, value in _ends(figure):
                    family.add_metric([*_key(row), kind, end], value)
        yield family
    for name, what in _COUNTS.items():
        family = GaugeMetricFamily(f"dermfed_field_{name}", what, labels=_WHO)
        for row in view.rows:
            if (count := getattr(row, _OF.get(name, name))) is not None:
                family.add_metric(_key(row), float(count))
        yield family
    alarms = GaugeMetricFamily(
        "dermfed_open_alarms", "Promises broken in the field, not closed", labels=["model"]
    )
    open_ = Counter(one.model for one in view.alarms)
    for model in view.models:
        alarms.add_metric([model], open_[model])
    yield alarms
    looked = GaugeMetricFamily("dermfed_field_looked_seconds", "When the field was looked at last, Unix time")
    looked.add_metric([], view.looked.timestamp())
    yield looked


def _key(row: FieldRow) -> list[str]:
    return [row.model, str(row.version), row.subgroup]


def _kinds(row: FieldRow, name: str) -> Iterator[tuple[str, Figure]]:
    if name == "coverage":
        yield "seen", row.coverage
        return
    yield "seen", getattr(row, f"seen_{name}")
    yield "corrected", getattr(row, name)


def _ends(figure: Figure) -> Iterator[tuple[str, float]]:
    """The ends of the interval, and the figure itself where it is known."""
    if figure.value is not None:
        yield "point", figure.value
    yield "low", figure.low
    yield "high", figure.high
