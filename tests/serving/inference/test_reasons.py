"""Why an answer is what it is: the codes, and that the texts do not contradict the decision."""

import re
from datetime import UTC, datetime
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.score_bins import LOGIT_BINS, SCORE_BINS
from registry.bundle.decision import decide
from registry.bundle.labels import Subgroup
from registry.bundle.manifest import Abstention, Conformal, OutOfDistribution, WorkingPoint
from registry.bundle.model import Gaussians
from registry.records import Version
from serving.inference.quality import QualityAssessment
from serving.inference.quality.rules import IssueCode, QualityIssue
from serving.inference.reasons import CODES, outcome, reasons
from serving.protocol.parameters import Parameters
from serving.protocol.routing import ROUTES
from tests.thresholds import at_log_odds

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
    decision, said = ask(abstention=Abstention(threshold_bin=at_log_odds(0.25), n=412, risk=0.08))
    assert decision == "report"
    assert list(said) == ["confident", "unknown-tone"]
    assert "0.700" in said["confident"]
    assert "0.562" in said["confident"]
    assert "412" in said["confident"]


def test_an_unsure_answer(ask):
    decision, said = ask(
        (0.4, 0.35, 0.25), abstention=Abstention(threshold_bin=at_log_odds(0.25), n=412, risk=0.08)
    )
    assert decision == "refer"
    assert list(said) == ["low-confidence", "unknown-tone"]


@pytest.mark.parametrize("abstaining", [at_log_odds(0.25), at_log_odds(2)])
def test_no_class_in_the_prediction_set(ask, abstaining):
    """Also where the threshold of confidence lies below that of the set."""
    strict = Conformal(alpha=0.1, threshold_bin=at_log_odds(1.5), n=310, guarantee="global")
    decision, said = ask(conformal=strict, abstention=Abstention(threshold_bin=abstaining, n=412, risk=0.08))
    assert decision == "refer"
    assert list(said) == ["empty-set", "unknown-tone"]
    for word in ("0.700", "0.818", "310"):
        assert word in said["empty-set"]


@pytest.mark.parametrize(("n", "why"), [(0, "not calibrated"), (412, "412 pictures")])
def test_a_version_that_refers_every_picture(ask, n, why):
    decision, said = ask((1.0, 0.0, 0.0), abstention=Abstention(threshold_bin=SCORE_BINS, n=n))
    assert decision == "refer"
    assert list(said) == ["refers-all", "unknown-tone"]
    assert why in said["refers-all"]


@pytest.mark.parametrize(
    ("away", "confidence", "codes"),
    [
        (0, 0.9, ["confident"]),
        (50, 0.9, ["unfamiliar"]),
        (50, 0.4, ["low-confidence", "unfamiliar"]),
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
        abstention=Abstention(threshold_bin=at_log_odds(1.5), n=100),
    )
    assert list(said) == [*codes, "unknown-tone"]
    assert decision == ("report" if codes == ["confident"] else "refer")


def test_a_malignancy_that_reaches_the_working_point(ask):
    point = WorkingPoint(
        target=0.95, level=0.95, threshold_bin=at_log_odds(-1.5), sensitivity_low=0.96, n=80, reached=True
    )
    decision, said = ask((0.2, 0.7, 0.1), working_point=point)
    assert decision == "refer"
    assert list(said) == ["possible-malignancy", "unknown-tone"]
    assert said["possible-malignancy"].startswith("The probability of malignancy is 0.200; from 0.182 on")
    assert list(ask((0.1, 0.8, 0.1), working_point=point)[1]) == ["confident", "unknown-tone"]
    assert list(ask((0.8, 0.1, 0.1), working_point=point)[1]) == ["confident", "unknown-tone"]


def test_a_bad_picture_is_the_only_ground_for_another(ask):
    decision, said = ask(quality=QualityAssessment((MILD, BAD)))
    assert decision == "retake"
    assert said["blurred"] == BAD.text
    assert list(said) == ["blurred", "unknown-tone"]


def test_a_mild_issue_is_no_ground(ask):
    decision, said = ask(quality=QualityAssessment((MILD,)), abstention=Abstention(threshold_bin=0))
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


@given(top=st.floats(0.34, 1), share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=200)
def test_what_is_said_and_what_is_decided_agree_to_the_last_digit(ask, top, share):
    agree(ask, top, int(share * SCORE_BINS))


@given(threshold_bin=st.integers(at_log_odds(-1), SCORE_BINS - 1), beside=st.sampled_from([-1, 0, 1]))
def test_they_agree_beside_a_threshold(ask, threshold_bin, beside):
    """At the threshold itself and at the numbers next to it, of double precision."""
    edge = LOGIT_BINS.lower(threshold_bin)
    agree(ask, float(np.nextafter(edge, edge + beside)), threshold_bin)


def agree(ask, top, threshold_bin):
    rest = (1 - top) / 2
    rule = Abstention(threshold_bin=threshold_bin, n=9)
    decision, said = ask((top, rest, rest), conformal=Conformal(), abstention=rule)
    code = next(iter(said))
    assert (decision, code) in {("report", "confident"), ("refer", "low-confidence")}
    confidence, threshold = (float(found) for found in re.findall(r"\d\.\d+", said[code]))
    assert (confidence >= threshold) == (decision == "report")


@pytest.mark.parametrize(
    ("top", "threshold_bin", "words"),
    [
        (0.9999, at_log_odds(9), ["0.999900", "0.999877"]),
        (0.99987, at_log_odds(9), ["0.999870", "0.999877"]),
        (0.7, at_log_odds(0.25), ["0.700", "0.562"]),
        (0.97168, at_log_odds(0.25), ["0.972", "0.562"]),  # rounded as in the table of findings
        (0.5621, at_log_odds(0.25), ["0.5621", "0.5622"]),  # not as 0.562, where the threshold is
    ],
)
def test_near_one_as_many_places_are_said_as_it_takes(ask, top, threshold_bin, words):
    said = ask((top, 1 - top, 0.0), abstention=Abstention(threshold_bin=threshold_bin, n=9))[1]
    text = said.get("confident") or said["low-confidence"]
    for word in words:
        assert word in text


def test_every_code_is_listed_once():
    assert len(set(CODES)) == len(CODES)
    assert set(get_args(IssueCode)) | set(ROUTES) < set(CODES)
