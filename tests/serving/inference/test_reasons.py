"""Why an answer is what it is: the codes, and that the texts do not contradict the decision."""

import re
from datetime import UTC, datetime
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from registry.bundle.conclusions import Conclusions
from registry.bundle.decision import decide
from registry.bundle.labels import Subgroup
from registry.bundle.manifest import OutOfDistribution, WorkingPoint
from registry.bundle.model import Gaussians
from registry.bundle.score_bins import LOGIT_BINS, SCORE_BINS
from registry.records import Version
from serving.inference.quality import IssueCode, QualityAssessment, QualityIssue
from serving.inference.reasons import CODES, outcome, reasons
from serving.protocol.parameters import ROUTES, Parameters
from tests.thresholds import at_log_odds, concluding

BAD = QualityIssue("blurred", True, "The picture is too blurred. Hold still.")
MILD = QualityIssue("too-dark", False, "The picture is rather dark. Take it in more light.")
NEAR = Gaussians(np.zeros((1, 3), np.float32), np.eye(3, dtype=np.float32))
KNOWN = OutOfDistribution.of(NEAR, ["MEL"], trained_on=80, rate=0.1, n=40, threshold_bin=700)
DARK = Subgroup(name="dark", scale="fitzpatrick", values=("V", "VI"))


def point(threshold_bin):
    return WorkingPoint(
        target=0.95, level=0.95, threshold_bin=threshold_bin, sensitivity_low=0.96, n=80, reached=True
    )


@pytest.fixture(scope="module")
def ask(bundle):
    """The outcome and the reasons for probabilities, with parts of a manifest replaced."""

    def answer(
        probabilities=(0.7, 0.2, 0.1), *, issues=(), away=None, route="unknown-tone", parameters=None, **parts
    ):
        drawn = bundle(**parts).manifest
        version = Version("skin-lesion", 4, "sha256:" + "0" * 64, drawn.subgroup, datetime.now(UTC))
        embedding = None if away is None else np.full(3, away, dtype=np.float32)
        decision, quality = (
            decide(np.array(probabilities), drawn, embedding=embedding),
            QualityAssessment(issues),
        )
        said = reasons(decision, quality, drawn, version, route, parameters or Parameters())
        return outcome(decision, quality), {one.code: one.text for one in said}

    return answer


SUSPICIOUS = {"working_point": point(at_log_odds(-1.5))}
FAMILIARITY = {"out_of_distribution": KNOWN, "conclusions": concluding(1.5)}


@pytest.mark.parametrize(
    ("probabilities", "given", "decision", "codes"),
    [
        pytest.param((0.7, 0.2, 0.1), {}, "report", ["confident"], id="a sure answer"),
        pytest.param((0.4, 0.35, 0.25), {}, "refer", ["low-confidence"], id="an unsure one"),
        pytest.param(
            (1.0, 0.0, 0.0),
            {"conclusions": Conclusions()},
            "refer",
            ["refers-all"],
            id="of a version of none",
        ),
        pytest.param(
            (0.2, 0.7, 0.1),
            SUSPICIOUS,
            "refer",
            ["low-confidence", "possible-malignancy"],
            id="a malignancy at the working point that is not the first finding",
        ),
        pytest.param((0.1, 0.8, 0.1), SUSPICIOUS, "refer", ["low-confidence"], id="one below it"),
        pytest.param(
            (0.8, 0.1, 0.1), SUSPICIOUS, "report", ["confident"], id="one that is the first finding"
        ),
        pytest.param(
            (0.9, 0.05, 0.05), {**FAMILIARITY, "away": 0}, "report", ["confident"], id="a familiar picture"
        ),
        pytest.param(
            (0.9, 0.05, 0.05), {**FAMILIARITY, "away": 50}, "refer", ["unfamiliar"], id="an unfamiliar one"
        ),
        pytest.param(
            (0.4, 0.3, 0.3), {**FAMILIARITY, "away": 50}, "refer", ["unfamiliar"], id="which is unsure too"
        ),
        pytest.param(
            (0.4, 0.3, 0.3),
            {**FAMILIARITY, "away": 0},
            "refer",
            ["low-confidence"],
            id="a familiar unsure one",
        ),
        pytest.param((0.7, 0.2, 0.1), {"issues": (MILD, BAD)}, "retake", ["blurred"], id="a bad picture"),
        pytest.param(
            (0.7, 0.2, 0.1), {"issues": (MILD,)}, "report", ["confident"], id="one with a mild issue"
        ),
    ],
)
def test_a_decision_and_its_reasons(ask, probabilities, given, decision, codes):
    found, said = ask(probabilities, **given)
    assert found == decision
    assert list(said) == [*codes, "unknown-tone"]


def test_the_texts_name_what_was_found(ask):
    _, sure = ask()
    for word in ("Melanoma", "0.700", "102", "3 were something else", "7.5 %"):
        assert word in sure["confident"]
    _, suspicious = ask((0.2, 0.7, 0.1), **SUSPICIOUS)
    said = suspicious["possible-malignancy"]
    assert said.startswith("The probability of malignancy is 0.200; from 0.182 on")
    _, bad = ask(issues=(BAD,))
    assert bad["blurred"] == BAD.text


@pytest.mark.parametrize(
    ("route", "parameters", "parts", "words"),
    [
        (
            "declared",
            Parameters("5"),
            {"subgroup": DARK},
            ["skin tone 5 (fitzpatrick) was declared", "skin tones V, VI (fitzpatrick)"],
        ),
        ("unknown-tone", Parameters(), {}, ["No skin tone was declared", "for everybody"]),
        ("other-scale", Parameters("7", "monk"), {}, ["the scale monk", "for everybody"]),
        (
            "no-model-for-subgroup",
            Parameters("3"),
            {},
            ["No version is for skin tone 3 (fitzpatrick)", "for everybody"],
        ),
        (
            "tone-not-represented",
            Parameters("6"),
            {},
            ["Too few patients of skin tone 6 (fitzpatrick), or none", "for everybody"],
        ),
    ],
)
def test_the_last_reason_is_the_routes(ask, route, parameters, parts, words):
    _, said = ask(route=route, parameters=parameters, **parts)
    assert list(said)[-1] == route
    for word in ("version 4", *words):
        assert word in said[route]


@given(threshold_bin=st.integers(at_log_odds(-3), SCORE_BINS - 1), beside=st.sampled_from([-1, 0, 1]))
@example(at_log_odds(0), -1)
@example(at_log_odds(0), 0)
@example(at_log_odds(0), 1)
def test_what_is_said_and_what_is_decided_agree_to_the_last_digit(ask, threshold_bin, beside):
    """At the working point itself and at the numbers next to it, of double precision."""
    edge = LOGIT_BINS.lower(threshold_bin)
    malignancy = float(np.nextafter(edge, edge + beside))
    _, said = ask(
        (malignancy, 1 - malignancy, 0.0), conclusions=Conclusions(), working_point=point(threshold_bin)
    )
    found = re.findall(r"\d\.\d+", said.get("possible-malignancy", ""))
    assert (len(found) == 2) is (edge <= malignancy < 0.5)
    assert not found or float(found[0]) >= float(found[1])


def test_every_code_is_listed_once():
    assert len(set(CODES)) == len(CODES)
    assert set(get_args(IssueCode)) | set(ROUTES) < set(CODES)
