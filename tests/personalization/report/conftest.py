"""A report on one stage, and rounds as the log tells them."""

from dataclasses import replace

import numpy as np
import pytest

from personalization.report import ReportData, Round, StageFacts
from registry.bundle.counts import count
from registry.bundle.labels import Label

LABELS = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Nevus", malignancy="benign"),
)


@pytest.fixture
def block():
    """`block(melanomas found, missed, naevi found, missed)`, all answers at confidence 0.8."""

    def make(*numbers, replicates=0):
        labels = np.repeat([0, 0, 1, 1], numbers)
        answers = np.repeat([0, 1, 1, 0], numbers)
        probabilities = np.full((len(labels), 2), 0.2)
        probabilities[np.arange(len(labels)), answers] = 0.8
        return count(probabilities, labels, malignant=np.array([True, False]), replicates=replicates, seed=1)

    return make


@pytest.fixture
def report(block):
    """`report(kind, facts, **changes)`: the data of a report whose one stage told these facts."""

    def make(kind="federate", facts=None, **changes):
        data = ReportData(
            summary={"job": "small"},
            labels=LABELS,
            counts={kind: {"light": block(8, 2, 30, 10)}},
            facts=[StageFacts(kind, kind, facts or {})],
        )
        return replace(data, **changes)

    return make


@pytest.fixture
def line():
    """`line(round, **keys)`: a round as `metrics.jsonl` tells it; `models` is of the global model."""

    def make(number, stage="federate", models=None, **keys):
        told = {"stage": stage, "round": number, "asked": [], "answered": [], **keys}
        return Round.from_line(told if models is None else {**told, "models": {"global": models}})

    return make
