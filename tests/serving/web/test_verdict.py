"""The head of an answer: what is reported, and that nothing looks like an all-clear."""

import re

import pytest

from serving.protocol.fields import example
from serving.protocol.schemas import Diagnosis, Finding, MalignancyRisk, PredictionSet
from serving.web.rendering import asset
from serving.web.verdict import verdict


def answer(decision="report", *findings, left_open=(), above=None):
    found = [
        example(Finding, code=code, name=code, malignancy=kind, probability=share)
        for code, kind, share in findings or (("NV", "benign", 0.9), ("MEL", "malignant", 0.1))
    ]
    return example(
        Diagnosis,
        decision=decision,
        findings=found,
        malignancy=MalignancyRisk(probability=0.1, above=above),
        prediction_set=example(PredictionSet, codes=list(left_open or [found[0].code])),
    )


def test_a_reported_benign_lesion_is_no_all_clear():
    said = verdict(answer())
    assert said.found == "Most likely: NV (benign), 90 %"
    assert "no all-clear" in said.caution
    assert not said.serious


@pytest.mark.parametrize("kind", ["malignant", "premalignant"])
def test_a_reported_malignancy_is_serious_and_said_first(kind):
    said = verdict(answer("report", ("X", kind, 0.97), ("NV", "benign", 0.03)))
    assert said.found == f"Most likely: X ({kind}), 97 %"
    assert said.serious
    assert "has to see the lesion" in said.caution


def test_a_malignancy_that_is_not_ruled_out_is_serious():
    said = verdict(answer(left_open=["NV", "MEL"]))
    assert said.serious
    assert "not ruled out" in said.caution


def test_a_suspicious_lesion_is_serious():
    said = verdict(answer(above=True))
    assert said.serious
    assert "suspicious" in said.caution


def test_a_referral_reports_nothing_and_says_so():
    said = verdict(answer("refer", left_open=["NV", "MEL"]))
    assert said.found is None
    assert not said.serious  # it looks like a referral as it is
    assert "nothing about how dangerous" in said.caution


def test_of_a_picture_to_be_taken_again_nothing_is_said():
    said = verdict(answer("retake"))
    assert (said.found, said.caution, said.serious) == (None, None, False)


def test_nothing_on_the_page_is_green():
    """Green is read as an all-clear, by whoever does not read the words."""
    for name in ("page.css", "picture.css"):
        for red, green, blue in re.findall(
            r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})\b", asset(name).decode()
        ):
            assert not (int(green, 16) > int(red, 16) + 24 and int(green, 16) > int(blue, 16) + 24)
