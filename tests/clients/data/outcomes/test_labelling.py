"""Outcomes as labels: what is labelled, replaced, taken back, and what stays and is told."""

from dataclasses import replace

import pytest

from clients.data.manifests.manifest import Row
from clients.data.outcomes.labelling import label
from clients.data.outcomes.provenance import COLUMNS
from tests.clients.data.outcomes.conftest import answer_id, by_id, manifest, outcome


def test_an_unlabelled_picture_gets_the_label_and_where_it_came_from(one):
    found, told = label(manifest(Row("a.png"), Row("b.png")), one, by_id(outcome(1, "MEL")))
    a, b = found.rows
    assert a.label == "MEL"
    assert [a.value(name) for name in COLUMNS] == [
        *("histopathology", "2026-03-31", "outcome", answer_id(1), "MEL", "")
    ]
    assert b.label == ""
    assert told.changes == {"labelled": 1}
    assert (told.answered, told.without_outcome, told.all_taken) == (1, 0, True)


def test_what_was_answered_and_never_confirmed_stays_unlabelled(one):
    answers = [*one, ("b.png", answer_id(2))]
    found, told = label(
        manifest(Row("a.png"), Row("b.png")), answers, by_id(outcome(1, "MEL"), outcome(9, "NV"))
    )
    assert [row.label for row in found.rows] == ["MEL", ""]
    assert (told.answered, told.without_outcome, told.without_picture) == (2, 1, 1)


def test_all_pictures_of_a_lesion_get_its_label_and_no_other_of_the_patient(one):
    rows = (Row("a.png", lesion_id="L", patient_id="P"), Row("b.png", lesion_id="L", patient_id="P"),
            Row("c.png", lesion_id="M", patient_id="P"))  # fmt: skip
    found, _ = label(manifest(*rows), one, by_id(outcome(1, "MEL")))
    assert [row.label for row in found.rows] == ["MEL", "MEL", ""]


@pytest.mark.parametrize(
    ("had", "source", "says", "by", "label_now", "source_now", "conflict"),
    [
        ("NV", "", "NV", "follow-up", "NV", "follow-up", False),  # confirmed
        ("NV", "histopathology", "NV", "follow-up", "NV", "histopathology", False),  # by less than is known
        ("NV", "dermatologist", "MEL", "histopathology", "MEL", "histopathology", False),  # replaced
        ("NV", "follow-up", "MEL", "histopathology", "MEL", "histopathology", False),
        ("NV", "follow-up", "MEL", "dermatologist", "NV", "follow-up", True),  # no rule decides
        ("NV", "histopathology", "MEL", "dermatologist", "NV", "histopathology", True),
        ("NV", "histopathology", "MEL", "histopathology", "NV", "histopathology", True),
        ("NV", "", "MEL", "histopathology", "NV", "", True),  # nobody said how it is known
        ("NV", "the chief", "MEL", "histopathology", "NV", "the chief", True),
    ],
)
def test_no_label_is_overwritten_in_silence(one, had, source, says, by, label_now, source_now, conflict):
    row = Row("a.png", label=had, extra={"label_source": source})
    found, told = label(manifest(row, Row("b.png", label="MEL")), one, by_id(outcome(1, says, by)))
    assert (found.rows[0].label, found.rows[0].value("label_source")) == (label_now, source_now)
    assert bool(told.conflicts) == conflict
    assert found.rows[0].value("label_from") == ""  # it had a label before
    if conflict:
        assert "a.png: its label NV" in told.conflicts[0]
        assert f"{by} says {says}" in told.conflicts[0]


def test_labels_of_which_nobody_said_how_they_are_known_yield_if_that_is_asked_for(one):
    rows = manifest(Row("a.png", label="NV"))
    found, told = label(rows, one, by_id(outcome(1, "MEL")), replace_unsaid=True)
    assert (found.rows[0].label, told.changes) == ("MEL", {"replaced": 1})
    found, told = label(rows, one, by_id(outcome(1, "MEL", "dermatologist")), replace_unsaid=True)
    assert (found.rows[0].label, len(told.conflicts)) == ("NV", 1)


@pytest.mark.parametrize(("had", "source"), [("", ""), ("NV", "dermatologist"), ("MEL", "")])
def test_what_was_taken_back_is_taken_back_to_what_stood_there(one, had, source):
    date = "2025-01-01" if source else ""
    before = manifest(Row("a.png", label=had, extra={"label_source": source, "label_date": date}))
    labelled, _ = label(before, one, by_id(outcome(1, "MEL")))
    assert labelled.rows[0].label == "MEL"
    back, told = label(labelled, one, by_id(outcome(1, "")))
    for name in ("label", *COLUMNS):
        assert back.rows[0].value(name) == before.rows[0].value(name)
    assert told.changes == {"taken back": 1}


def test_a_corrected_outcome_corrects_the_label(one):
    labelled, _ = label(manifest(Row("a.png")), one, by_id(outcome(1, "MEL")))
    found, told = label(labelled, one, by_id(outcome(1, "NV", date="2026-05-01")))
    assert (found.rows[0].label, found.rows[0].value("label_date")) == ("NV", "2026-05-01")
    assert told.changes == {"corrected": 1}


def test_twice_is_once(one):
    outcomes = by_id(outcome(1, "MEL"))
    once, _ = label(manifest(Row("a.png"), Row("b.png", label="NV")), one, outcomes)
    twice, told = label(once, one, outcomes)
    assert twice.rows == once.rows
    assert told.changes == {"unchanged": 1}


def test_a_label_stays_whose_outcome_is_forgotten(one):
    labelled, _ = label(manifest(Row("a.png")), one, by_id(outcome(1, "MEL")))
    found, told = label(labelled, one, {})
    assert found.rows == labelled.rows
    assert not told.changes


def test_a_label_that_somebody_has_changed_since_is_his(one):
    labelled, _ = label(manifest(Row("a.png")), one, by_id(outcome(1, "MEL")))
    by_hand = labelled.keep([replace(labelled.rows[0], label="BCC")])
    for said in ("MEL", "NV"):
        found, told = label(by_hand, one, by_id(outcome(1, said)))
        assert found.rows[0].label == "BCC"
        assert "changed by hand" in told.conflicts[0]
    assert label(by_hand, one, by_id(outcome(1, "")))[0].rows[0].label == "BCC"


@pytest.mark.parametrize(
    ("outcomes", "says"),
    [
        ([outcome(1, "MEL"), outcome(2, "NV", "follow-up")], "MEL"),  # the stronger
        ([outcome(1, "MEL", "dermatologist"), outcome(2, "NV", "follow-up")], None),  # no rule
        ([outcome(1, "MEL"), outcome(2, "NV")], None),
        ([outcome(1, "MEL", "dermatologist"), outcome(2, "MEL", "follow-up", "2026-04-01")], "MEL"),
        ([outcome(1, ""), outcome(2, "NV", "follow-up")], "NV"),  # one was taken back
    ],
)
def test_outcomes_of_one_lesion_count_together(outcomes, says):
    rows = manifest(Row("a.png", lesion_id="L"), Row("b.png", lesion_id="L"), Row("c.png", label="NV"))
    answers = [("a.png", answer_id(1)), ("b.png", answer_id(2))]
    for order in (outcomes, outcomes[::-1]):
        found, told = label(rows, answers, by_id(*order))
        assert [row.label for row in found.rows[:2]] == [says or ""] * 2
        assert bool(told.conflicts) == (says is None)


def test_a_second_outcome_that_contradicts_takes_the_label_back(one):
    labelled, _ = label(manifest(Row("a.png")), one, by_id(outcome(1, "MEL")))
    answers = [*one, ("a.png", answer_id(2))]
    found, told = label(labelled, answers, by_id(outcome(1, "MEL"), outcome(2, "NV")))
    assert found.rows[0].label == ""
    assert told.conflicts == ["a.png: its outcomes say MEL and NV"]


def test_a_code_that_the_manifest_does_not_have_is_told_and_named(one):
    rows = manifest(Row("a.png"), Row("b.png", label="melanoma"))
    found, told = label(rows, one, by_id(outcome(1, "MEL")))
    assert (found.rows[0].label, told.unknown_labels, told.all_taken) == ("", {"MEL": 1}, False)
    found, told = label(rows, one, by_id(outcome(1, "MEL")), {"MEL": "melanoma"})
    assert (found.rows[0].label, told.unknown_labels) == ("melanoma", {})
    found, told = label(rows, one, by_id(outcome(1, "MEL")), {"MEL": ""})  # left out
    assert (found.rows[0].label, told.all_taken) == ("", True)


def test_an_unknown_code_of_the_strongest_outcome_gives_the_word_to_no_weaker_one(one):
    rows = manifest(Row("a.png"), Row("b.png", label="NV"))
    answers = [*one, ("a.png", answer_id(2))]
    found, told = label(rows, answers, by_id(outcome(1, "lymphoma"), outcome(2, "NV", "dermatologist")))
    assert (found.rows[0].label, told.unknown_labels) == ("", {"lymphoma": 1})


def test_codes_of_the_taxonomy_are_known_where_the_manifest_has_no_others(one):
    rows = [Row("a.png"), Row("b.png", label="NV")]
    assert label(manifest(*rows), one, by_id(outcome(1, "DF")))[0].rows[0].label == "DF"
    mixed = manifest(*rows, Row("c.png", label="wart"))
    assert label(mixed, one, by_id(outcome(1, "DF")))[1].unknown_labels == {"DF": 1}


def test_a_manifest_without_labels_takes_whatever_comes_also_the_second_time(one):
    labelled, _ = label(manifest(Row("a.png"), Row("b.png")), one, by_id(outcome(1, "malignant")))
    answers = [*one, ("b.png", answer_id(2))]
    outcomes = by_id(outcome(1, "malignant"), outcome(2, "benign"))
    assert [row.label for row in label(labelled, answers, outcomes)[0].rows] == ["malignant", "benign"]


def test_pictures_are_found_by_their_file_where_that_is_one(one):
    rows = manifest(Row("x/a.png"), Row("x/b.png"), Row("y/b.png"))
    answers = [*one, ("b.png", answer_id(2)), ("y/b.png", answer_id(3)), ("d.png", answer_id(4))]
    outcomes = by_id(*(outcome(number, "MEL") for number in (1, 2, 3, 4)))
    found, told = label(rows, answers, outcomes)
    assert [row.label for row in found.rows] == ["MEL", "", "MEL"]
    assert told.unknown_pictures == [
        "b.png: 2 lines of the manifest could be meant",
        "d.png: no line of the manifest could be meant",
    ]
    assert not told.all_taken


def test_a_manifest_of_somebodys_own_making_is_no_reason_to_fail(one):
    """`label_before` that nobody of ours has written."""
    row = Row(
        "a.png", label="NV", extra={"label_answer": answer_id(1), "label_written": "NV", "label_before": "x"}
    )
    found, _ = label(manifest(row), one, by_id(outcome(1, "")))
    assert found.rows[0].label == "x"
