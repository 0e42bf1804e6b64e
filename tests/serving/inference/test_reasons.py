"""Why an answer is what it is: the codes, and that the texts do not contradict the decision."""

import re
from datetime import UTC, datetime
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.bundle.conclusions import Conclusions
from registry.bundle.counts.score_bins import LOGIT_BINS, SCORE_BINS
from registry.bundle.decision import decide
from registry.bundle.labels import Subgroup
from registry.bundle.manifest import OutOfDistribution, WorkingPoint
from registry.bundle.model import Gaussians
from registry.records import Version
from serving.inference.quality import IssueCode, QualityAssessment, QualityIssue
from serving.inference.reasons import CODES, outcome, reasons
from serving.protocol.parameters import ROUTES, Parameters
from tests.thresholds import at_log_odds, concluding

BAD = QualityIssue("blurred", True, "The picture is too blurred. Hold still.")
MILD = QualityIssue("too-dark", False, "The picture is rather dark. Take it in more light.")


@pytest.fixture(scope="module")
def ask(bundle):
    """The outcome and the reasons for probabilities, with parts of a manifest replaced."""

    def answer(
        probabilities=(0.7, 0.2, 0.1),
        *,
        quality=None,
        embedding=None,
        route="unknown-tone",
        parameters=None,
        **parts,
    ):
        drawn = bundle(**parts).manifest
        parameters = parameters or Parameters()
        version = Version("skin-lesion", 4, "sha256:" + "0" * 64, drawn.subgroup, datetime.now(UTC))
        decision = decide(np.array(probabilities), drawn, embedding=embedding)
        quality = quality or QualityAssessment()
        said = reasons(decision, quality, drawn, version, route, parameters)
        return outcome(decision, quality), {one.code: one.text for one in said}

    return answer


def test_a_sure_answer(ask):
    decision, said = ask()
    assert decision == "report"
    assert list(said) == ["confident", "unknown-tone"]
    for word in ("Melanoma", "0.700", "102", "3 were something else", "7.5 %"):
        assert word in said["confident"]


def test_an_unsure_answer(ask):
    decision, said = ask((0.4, 0.35, 0.25))
    assert decision == "refer"
    assert list(said) == ["low-confidence", "unknown-tone"]


def test_a_version_that_concludes_nothing(ask):
    decision, said = ask((1.0, 0.0, 0.0), conclusions=Conclusions())
    assert decision == "refer"
    assert list(said) == ["refers-all", "unknown-tone"]
    assert "not calibrated" in said["refers-all"]


@pytest.mark.parametrize(
    ("away", "confidence", "codes"),
    [
        (0, 0.9, ["confident"]),
        (50, 0.9, ["unfamiliar"]),
        (50, 0.4, ["unfamiliar"]),
        (0, 0.4, ["low-confidence"]),
    ],
)
def test_an_unfamiliar_picture_beside_an_unsure_answer(ask, away, confidence, codes):
    near = Gaussians(np.zeros((1, 3), np.float32), np.eye(3, dtype=np.float32))
    known = OutOfDistribution.of(near, ["MEL"], trained_on=80, rate=0.1, n=40, threshold_bin=700)
    decision, said = ask(
        (confidence, (1 - confidence) / 2, (1 - confidence) / 2),
        embedding=np.full(3, away, dtype=np.float32),
        out_of_distribution=known,
        conclusions=concluding(1.5),
    )
    assert list(said) == [*codes, "unknown-tone"]
    assert decision == ("report" if codes == ["confident"] else "refer")


def test_a_malignancy_that_reaches_the_working_point(ask):
    point = WorkingPoint(
        target=0.95, level=0.95, threshold_bin=at_log_odds(-1.5), sensitivity_low=0.96, n=80, reached=True
    )
    decision, said = ask((0.2, 0.7, 0.1), working_point=point)
    assert decision == "refer"
    assert list(said) == ["low-confidence", "possible-malignancy", "unknown-tone"]
    assert said["possible-malignancy"].startswith("The probability of malignancy is 0.200; from 0.182 on")
    assert list(ask((0.1, 0.8, 0.1), working_point=point)[1]) == ["low-confidence", "unknown-tone"]
    assert list(ask((0.8, 0.1, 0.1), working_point=point)[1]) == ["confident", "unknown-tone"]


def test_a_bad_picture_is_the_only_ground_for_another(ask):
    decision, said = ask(quality=QualityAssessment((MILD, BAD)))
    assert decision == "retake"
    assert said["blurred"] == BAD.text
    assert list(said) == ["blurred", "unknown-tone"]


def test_a_mild_issue_is_no_ground(ask):
    decision, said = ask(quality=QualityAssessment((MILD,)))
    assert decision == "report"
    assert list(said) == ["confident", "unknown-tone"]


@pytest.mark.parametrize(
    ("route", "parameters", "words"),
    [
        (
            "declared",
            Parameters("5"),
            ["skin tone 5 (fitzpatrick) was declared", "skin tones V, VI (fitzpatrick)"],
        ),
        ("unknown-tone", Parameters(), ["No skin tone was declared", "for everybody"]),
        ("other-scale", Parameters("7", "monk"), ["the scale monk", "for everybody"]),
        (
            "no-model-for-subgroup",
            Parameters("3"),
            ["No version is for skin tone 3 (fitzpatrick)", "for everybody"],
        ),
        (
            "tone-not-represented",
            Parameters("6"),
            [
                "Too few patients of skin tone 6 (fitzpatrick), or none, were in the calibration",
                "for everybody",
            ],
        ),
    ],
)
def test_the_last_reason_is_the_routes(ask, route, parameters, words):
    subgroup = Subgroup(name="dark", scale="fitzpatrick", values=("V", "VI")) if route == "declared" else None
    parts = {"subgroup": subgroup} if subgroup else {}
    _, said = ask(route=route, parameters=parameters, **parts)
    assert list(said)[-1] == route
    assert "version 4" in said[route]
    for word in words:
        assert word in said[route]
    assert said[route].endswith(".")


@given(threshold_bin=st.integers(at_log_odds(-3), SCORE_BINS - 1), beside=st.sampled_from([-1, 0, 1]))
def test_what_is_said_and_what_is_decided_agree_to_the_last_digit(ask, threshold_bin, beside):
    """At the working point itself and at the numbers next to it, of double precision."""
    edge = LOGIT_BINS.lower(threshold_bin)
    malignancy = float(np.nextafter(edge, edge + beside))
    point = WorkingPoint(
        target=0.95, level=0.95, threshold_bin=threshold_bin, sensitivity_low=0.96, n=80, reached=True
    )
    _, said = ask((malignancy, 1 - malignancy, 0.0), conclusions=Conclusions(), working_point=point)
    found = re.findall(r"\d\.\d+", said.get("possible-malignancy", ""))
    assert (len(found) == 2) is (malignancy >= edge and malignancy <= 0.5)
    assert not found or float(found[0]) >= float(found[1])


def test_every_code_is_listed_once():
    assert len(set(CODES)) == len(CODES)
    assert set(get_args(IssueCode)) | set(ROUTES) < set(CODES)
