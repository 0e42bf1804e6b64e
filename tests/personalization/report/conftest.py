"""A report on one stage, a report with every part there is, and rounds as the log tells them."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.report.data import CalibratedModel, FineTuning, ReportData, Round, StageFacts
from personalization.report.page import render_report
from personalization.selection import SelectionConfig, select
from registry.bundle.counting import count
from registry.bundle.labels import UNDECLARED, Label
from registry.bundle.metrics.summary import over_clients, summarise
from tests.thresholds import at_log_odds

LABELS = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Nevus", malignancy="benign"),
)


def texts(row):
    """The texts of a row's cells."""
    return [cell.text for cell in row.cells]


def lines(table):
    """The texts of the cells by the heads of the rows."""
    return {row.head: texts(row) for row in table.rows}


def columns(table, row=0):
    """The texts of a row by the heads of the columns."""
    return dict(zip(table.header[1:], texts(table.rows[row]), strict=True))


class Outline(HTMLParser):
    """Every tag with its attributes and the tags that it stands in, and the text of a page."""

    VOID = frozenset({"meta", "br", "link", "img", "input", "hr"})

    def __init__(self, html):
        super().__init__()
        self.standing, self.tags, self.pieces = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        entry = (tag, dict(attributes))
        self.tags.append((*entry, list(self.standing)))
        if tag not in self.VOID:
            self.standing.append(entry)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes), list(self.standing)))

    def handle_endtag(self, tag):
        assert self.standing.pop()[0] == tag

    def handle_data(self, data):
        if "style" not in dict(self.standing):
            self.pieces.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.pieces).split())

    def all(self, tag):
        return [(attributes, within) for name, attributes, within in self.tags if name == tag]


@pytest.fixture(scope="session")
def block():
    """`block(melanomas found, missed, naevi found, missed)`, all answers at confidence 0.8."""

    def make(*numbers):
        labels = np.repeat([0, 0, 1, 1], numbers)
        answers = np.repeat([0, 1, 1, 0], numbers)
        probabilities = np.full((len(labels), 2), 0.2)
        probabilities[np.arange(len(labels)), answers] = 0.8
        return count(probabilities, labels, malignant=np.array([True, False]))

    return make


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def line():
    """`line(round, **keys)`: a round as `metrics.jsonl` tells it; `models` is of the global model."""

    def make(number, stage="federate", models=None, **keys):
        told = {"stage": stage, "round": number, "asked": [], "answered": [], **keys}
        return Round.from_line(told if models is None else {**told, "models": {"global": models}})

    return make


@pytest.fixture(scope="session")
def everything(block, line):
    """A run with every part that a report can show, under names as long and as odd as people give them."""
    long = "a subgroup with a rather <long> name"
    first = {"light": block(40, 10, 80, 20), long: block(6, 4, 9, 5), UNDECLARED: block(1, 1, 1, 1)}
    then = {**first, "light": block(42, 8, 82, 18), long: block(7, 3, 10, 4)}
    clinics = {f"university-hospital-number-{at}": block(5 + at, 5, 9, 1) for at in range(4)}
    accuracies = {"light": {0: 0.9, 1: 0.65, 2: 0.9}, long: {0: 0.6, 1: 0.62, 2: 0.6}}
    told = {
        **over_clients(clinics, {"north & <b>east</b>": list(clinics)[:2]}, ["MEL", "NV"]),
        "similarity": {
            "clients": list(clinics),
            "matrix": [[1.0 if x == y else 0.5 + 0.1 * abs(x - y) for x in range(4)] for y in range(4)],
        },
        "unseen": {"elsewhere": summarise({"all": block(9, 1, 30, 10)}, LABELS, ())},
    }
    detector = {
        "threshold": 51.2,
        "rate": 0.05,
        "n": 60,
        "trained_on": 900,
        "classes": ["NV"],
        "flagged": 0.07,
    }
    cell = {
        "n": 40,
        "accuracy": 0.75,
        "balanced_accuracy": 0.7,
        "malignant_sensitivity": None,
        "intervals": {},
    }
    difference = {"between": ["light", long], "figure": "accuracy_standardised", "value": 0.2}
    test = {
        "differences": [{**difference, "interval": [-0.1, 0.5], "p": 0.2, "p_adjusted": 0.2}],
        "intersections": {"body_site": {"trunk": {"light": cell, long: None}}},
    }
    peers = {"exchange": {name: {"peers": [other for other in clinics if other != name]} for name in clinics}}
    sizes = {"down": 2_000_000, "beside": 1_000_000, "up": 1_000_000}
    sent = dict.fromkeys([*clinics, "server"], sizes)
    rounds = [
        line(
            at,
            models={**peers, "scalars": {name: {"kept": at / 5} for name in clinics}},
            asked=list(clinics),
            answered=list(clinics)[at % 2 :],
            loss=1 / at,
            metrics={"balanced_accuracy": 0.5 + at / 20},
            by_subgroup={name: {"loss": 1 / at, "balanced_accuracy": 0.4 + at / 20} for name in first},
            bytes_by_client=sent,
        )
        for at in (1, 2, 3, 4)
    ]
    return ReportData(
        summary={
            "job": "dermatology-of-five-university-hospitals-with-everything & <script>alert(1)</script>",
            "recipe": "fedauto",
            "seed": 7,
            "versions": [{"model": "skin", "subgroup": "global", "version": 1}],
            "digest": "sha256:" + "0123456789abcdef" * 4,
            "stages": [
                {
                    "name": name,
                    "rounds": 4,
                    "seconds": 600.0,
                    "bytes_up": 4500,
                    "bytes_down": 9000,
                    "test": test,
                }
                for name in ("federate", "personalize", "calibrate")
            ],
        },
        labels=LABELS,
        counts={"federate": first, "personalize": then, "calibrate": then},
        rounds=rounds,
        facts=[
            StageFacts(
                "probe", "probe", dict.fromkeys(("linear", "neighbours"), summarise(first, LABELS, ()))
            ),
            StageFacts("federate", "federate", told),
            StageFacts("calibrate", "calibrate", {"models": {"global": {"novelty": detector}}}),
        ],
        census=[
            {"client": client, "subgroup": name, "label": code, "split": split, "n": 100}
            for client in clinics
            for name in first
            for code in ("MEL", "NV")
            for split in ("train", "validation", "calibration", "test")
        ],
        fine_tuning=FineTuning(
            accuracies, {"light": 16, long: 16}, select(accuracies, SelectionConfig()), strategy="finetune"
        ),
        calibration=[
            *(
                CalibratedModel(
                    name, Temperature(1.5, 1.6, 50), ConformalThreshold(at_log_odds(-1.5), 0.9, 50, 46)
                )
                for name in ("global", "light")
            ),
            CalibratedModel(long, Temperature(1.4, None, 6), ConformalThreshold(0, 0.9, 6, 7)),
        ],
        notes=["2 pictures were broken."],
    )


@pytest.fixture(scope="session")
def page(everything):
    """That report as HTML."""
    return render_report(everything)
