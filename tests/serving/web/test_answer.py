"""What the page shows of an answer: its head, its metrics, and that nothing looks like an all-clear."""

import re

import pytest

from serving.protocol.fields import example
from serving.protocol.schemas import (
    Conclusion,
    Diagnosis,
    Finding,
    KindMissed,
    MalignancyRisk,
    PredictionSet,
    PredictiveValues,
    TriageEvidence,
)
from serving.web.answer import Row, figures, verdict
from serving.web.rendering import asset

BENIGN = (("NV", "benign", 0.9), ("MEL", "malignant", 0.1))


def answer(
    decision="report", findings=BENIGN, left_open=(), above=None, concluded=None, triage=None, **evidence
):
    found = [
        example(Finding, code=code, name=code, malignancy=kind, probability=share)
        for code, kind, share in findings
    ]
    return example(
        Diagnosis,
        triage=triage,
        triage_evidence=triage and example(TriageEvidence, **{"predictive": None, **evidence}),
        conclusion=concluded,
        decision=decision,
        findings=found,
        malignancy=MalignancyRisk(probability=0.1, above=above),
        prediction_set=example(PredictionSet, codes=list(left_open or [found[0].code])),
    )


def group(malignant):
    return example(Conclusion, name="keratinocyte cancer", malignant=malignant, probability=0.87)


def first(kind):
    return answer(findings=(("X", kind, 0.97), ("NV", "benign", 0.03)))


NAEVUS, GROUP = "Most likely: NV (benign), 90 %", "Keratinocyte cancer, 87 %"


@pytest.mark.parametrize(
    ("diagnosis", "found", "serious", "caution"),
    [
        (answer(), NAEVUS, False, "no all-clear"),
        (first("malignant"), "Most likely: X (malignant), 97 %", True, "has to see the lesion"),
        (first("premalignant"), "Most likely: X (premalignant), 97 %", True, "has to see the lesion"),
        (answer(left_open=["NV", "MEL"]), NAEVUS, True, "is possible"),
        (answer(above=True), NAEVUS, True, "suspicious"),
        (answer(concluded=group(malignant=True)), GROUP, True, "has to see the lesion"),
        (answer(concluded=group(malignant=False)), GROUP, False, "no all-clear"),
        (answer("refer", left_open=["NV", "MEL"]), None, False, "nothing about how dangerous"),
        (answer("retake"), None, False, None),
    ],
    ids=[
        *("benign", "malignant", "premalignant", "malignancy in the set", "above the working point"),
        *("malignant conclusion", "benign conclusion", "referral", "retake"),
    ],
)
def test_a_verdict_is_no_all_clear_and_serious_where_malignancy_is_possible(
    diagnosis, found, serious, caution
):
    said = verdict(diagnosis)
    assert (said.found, said.serious) == (found, serious)
    assert said.caution is caution is None or caution in said.caution


def test_predictive_values_are_said_where_a_prevalence_was_stated():
    said = verdict(answer("refer", triage="urgent", predictive=example(PredictiveValues)))
    assert any("Where 8 % of lesions are malignant" in each for each in said.shown)


MELANOMA = "Melanoma: at most 8 of 100 are ruled out (4 of 113 were)."
OTHERS = "Not malignant: at most 10 of 100 are urgent (38 of 512 were)."
DEPENDS = "How many urgent lesions are malignant depends on how common malignancy is where this is used."
FOR_TONE = (
    "Shown for people with the declared skin tone, on lesions kept for calibration; each limit holds with"
)
CROSS_FITTED = {"guarantee": "global", "basis": "cross-fitted"}
FEW = [example(KindMissed), example(KindMissed, kind="scc", n=9, missed=0, high=0.28)]


@pytest.mark.parametrize(
    ("triage", "evidence", "head", "shown"),
    [
        (
            "urgent",
            {},
            "Urgent: a clinician has",
            [OTHERS, MELANOMA, DEPENDS, f"{FOR_TONE} 95 % confidence."],
        ),
        ("routine", {}, "Routine: a clinician looks", [MELANOMA, OTHERS, f"{FOR_TONE} 95 % confidence."]),
        (
            "ruled-out",
            {"missed": {"limit": 0.05, "kinds": [example(KindMissed, high=0.041)]}, **CROSS_FITTED},
            "Ruled out: of 100 lesions of each kind of malignancy at most 5 are missed",
            [
                MELANOMA.replace("8", "5"),
                OTHERS,
                "How many lesions ruled out are malignant depends on how common malignancy is",
                "Shown over all skin tones together, not for each of them, on training lesions, each",
            ],
        ),
        ("routine", {"missed": {"kinds": FEW}}, "Routine", [OTHERS, FOR_TONE]),
        ("routine", {"false_alarms": {"high": 0.2}}, "Routine", [MELANOMA, FOR_TONE]),
        (
            "urgent",
            {"guarantee": "none"},
            "Urgent",
            ["Nothing was shown of this triage: the version was not"],
        ),
        (None, {}, None, []),
    ],
    ids=[
        "urgent",
        "routine",
        "ruled out",
        "few lesions",
        "too many false alarms",
        "no guarantee",
        "no triage",
    ],
)
def test_triage_is_said_first_with_its_evidence(triage, evidence, head, shown):
    said = verdict(answer("refer", triage=triage, **evidence))
    assert said.triage is head is None or said.triage.startswith(head)
    assert len(said.shown) == len(shown)
    assert all(one.startswith(start) for one, start in zip(said.shown, shown, strict=True))


@pytest.mark.parametrize(
    ("decision", "triage", "look", "serious", "caution"),
    [
        ("refer", "urgent", "refer", True, None),
        ("report", "urgent", "report", True, None),
        ("refer", "routine", "refer", False, None),
        ("refer", "ruled-out", "report", False, "no all-clear"),
        ("report", "ruled-out", "report", False, "no all-clear"),
    ],
)
def test_triage_gives_the_look(decision, triage, look, serious, caution):
    said = verdict(answer(decision, triage=triage))
    assert (said.look, said.serious) == (look, serious)
    assert said.caution is caution is None or caution in said.caution
    assert "nothing about how dangerous" not in (said.caution or "")


def test_no_colour_is_green_which_reads_as_an_all_clear():
    css = (asset("page.css") + asset("picture.css")).decode()
    colours = re.findall(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})\b", css)
    assert colours
    for red, green, blue in ([int(part, 16) for part in colour] for colour in colours):
        assert green <= max(red, blue) + 24


def test_a_working_point_has_rows_of_its_own_where_there_is_one():
    with_one = figures(example(Diagnosis))
    assert with_one[:4] == [
        Row("Malignant", "71 %", "probability, all malignant classes together"),
        Row("Suspicious", "20 %", "or more: the working point"),
        Row("Malignant ones found", "94 %", "of 117 malignant test pictures, at the working point"),
        Row("Others not suspicious", "61 %", "of the other test pictures, at the working point"),
    ]
    without = figures(example(Diagnosis, malignancy=MalignancyRisk(probability=0.71)))
    assert without == [with_one[0], *with_one[4:]]
