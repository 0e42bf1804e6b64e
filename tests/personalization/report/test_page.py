"""The page is self-contained, sound HTML, and says what the counts say."""

import re
from dataclasses import asdict, replace

import numpy as np
import pytest

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.report.data import CalibratedModel, ReportData
from personalization.report.measures import duration, interval, number, size, with_interval
from personalization.report.overview import cards, limits, spread_table, unchanged, verdict
from personalization.report.page import render_report
from personalization.report.run_tables import census_tables
from personalization.report.subgroups import kinds_table, patient_table
from registry.bundle.counting import count
from registry.bundle.counts import Concluded, Thresholds
from registry.bundle.labels import UNDECLARED, Label, kind_of_each, malignant_classes
from registry.bundle.metrics.patient import Judged, Told, findings
from registry.bundle.metrics.summary import summarise
from registry.bundle.score_bins import score_bin
from tests.personalization.report.conftest import LABELS, Outline, lines
from tests.thresholds import at_log_odds
from training.errors import DataError


def half(right, wrong, thresholds=None, concluded=False):
    """`right` and `wrong` answers at 0.8, half of the pictures of each class; all are concluded or none."""
    n = right + wrong
    labels = np.arange(n) % 2
    answers = np.where(np.arange(n) < right, labels, 1 - labels)
    probabilities = np.full((n, 2), 0.2)
    probabilities[np.arange(n), answers] = 0.8
    said = Concluded(answers, answers != labels, 2) if concluded else None
    malignant = np.array([True, False])
    return count(probabilities, labels, malignant=malignant, thresholds=thresholds, concluded=said)


def small(**changes):
    data = ReportData(
        summary={"job": "small"},
        labels=LABELS,
        counts={"federate": {"light": half(45, 5), "dark": half(14, 6)}},
    )
    return replace(data, **changes)


@pytest.fixture(scope="session")
def text(page):
    return Outline(page).text


def test_the_page_is_the_same_bytes_for_the_same_data(page, everything):
    assert render_report(everything) == page


def test_every_tag_is_closed_and_every_id_is_unique(page):
    html, page = page, Outline(page)
    identities = [attributes["id"] for _, attributes, _ in page.tags if "id" in attributes]
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(identities)
    targets = [
        value.removeprefix("#")
        for _, attributes, _ in page.tags
        for name, value in attributes.items()
        if name in {"href", "xlink:href"} and value.startswith("#")
    ]
    labels = [
        attributes["aria-labelledby"] for _, attributes, _ in page.tags if "aria-labelledby" in attributes
    ]

    assert page.standing == []
    assert len(identities) == len(set(identities))
    assert set(targets) <= set(identities)
    assert set(labels) <= set(identities)


def test_names_from_outside_are_escaped(page, text):
    assert "<script" not in page
    for name in ("& <script>alert(1)</script>", "with a rather <long> name", "north & <b>east</b>"):
        assert name in text


def test_every_part_of_the_run_is_told(text):
    for expected in (
        "Recipe fedauto · Seed 7",
        "sha256:0123",
        "skin version 1 (global)",
        "2 pictures were broken.",
        "university-hospital-number-0 did not answer 2 of the 4 rounds it was asked in.",
        "the floor refused it",
        "the band without the floor",
        "4 pictures of undeclared subgroup",
        "Loss, federate",
        "Pictures by client",
        "Something concluded",
        "The global model at each client after stage “federate”",
        "north & <b>east</b>, mean over 2 clients",
        "as means over the clients that have it",
        "Clients never seen in training",
        "Who learned from whom, federate",
        "Similarity of the clients’ models, federate",
        "Pseudo labels kept, federate",
        "Communication of stage “federate”",
        "server, in no sum",
        "What calibration fixed",
        "Pictures unlike those trained on",
    ):
        assert expected in text


def test_a_run_without_clients_peers_or_bytes_has_none_of_their_parts():
    page = Outline(render_report(small()))

    for absent in ("Single clients", "Peers", "Communication of stage", "Pseudo labels", "never seen"):
        assert absent not in page.text
    assert {attributes["href"] for attributes, _ in page.all("a")} == {
        "#fairness",
        "#calibration",
        "#run",
        "#limits",
    }


def test_the_subgroup_whose_malignant_lesions_are_missed_comes_first():
    worst, light, everything = cards(small())

    assert (worst.subject, worst.value, worst.alert) == ("dark", "70.0\u202f%", True)  # 7 of 10
    assert (light.subject, light.value, light.alert) == ("light", "92.0\u202f%", False)  # 23 of 25
    assert (everything.subject, everything.value) == ("all pictures", "85.7\u202f%")  # 30 of 35
    assert worst.interval == "34.8 to 93.3"
    assert worst.detail == "20 pictures: 10 malignant, 10 other"
    assert [name for name, _ in worst.beside] == ["Specificity", "AUROC", "Balanced accuracy"]
    assert dict(light.beside)["Specificity"].startswith("88.0\u202f% (")  # 22 of 25
    said = verdict(small())
    assert said.startswith(
        "After the federate stage, dark is served worst: malignant sensitivity is 70.0\u202f% "
        "(34.8 to 93.3), 22.0\u202fpts ("
    )
    assert "below that of light." in said


def test_the_worst_served_is_the_one_of_lowest_sensitivity_and_not_of_lowest_accuracy(block):
    counts = {"federate": {"light": block(9, 1, 20, 70), "dark": block(3, 7, 89, 1)}}
    worst = cards(small(counts=counts))[0]
    assert (worst.subject, worst.value) == ("dark", "30.0\u202f%")


def test_where_nothing_is_malignant_balanced_accuracy_leads():
    benign = tuple(label.model_copy(update={"malignancy": "benign"}) for label in LABELS)
    data = small(labels=benign)
    worst = cards(data)[0]
    assert (worst.subject, worst.title, worst.value) == ("dark", "Balanced accuracy", "70.0\u202f%")
    assert worst.detail == "20 pictures"
    assert "served worst: balanced accuracy is" in verdict(data)


def test_a_subgroup_without_malignant_pictures_says_so_in_words(block):
    blocks = {"light": block(9, 1, 9, 1), "medium": block(8, 2, 9, 1), "dark": block(0, 0, 9, 1)}
    data = small(counts={"federate": blocks})
    dark = next(card for card in cards(data) if card.subject == "dark")
    assert (dark.value, dark.interval) == ("no malignant pictures", "")
    assert dict(dark.beside)["AUROC"] == "no malignant pictures"
    assert dict(dark.beside)["Specificity"].startswith("90.0\u202f% (")
    assert dark.detail == "10 pictures: 0 malignant, 10 other"
    assert cards(data)[0].subject == "medium"
    row = next(row for row in patient_table(data).rows if row.head == "dark: federate")
    assert [row.cells[at].text for at in (0, 2)] == ["no malignant pictures"] * 2


def test_a_stage_that_lost_sensitivity_stands_in_red_above_everything(block):
    light = block(80, 20, 150, 50)
    blocks = {
        "federate": {"light": light, "dark": block(18, 3, 55, 24)},
        "personalize": {"light": light, "dark": block(7, 14, 72, 7)},
    }
    judged = [Judged(stage, summarise(of, LABELS, list(of)), {}) for stage, of in blocks.items()]
    data = small(
        counts=blocks, summary={"job": "small", "findings": [asdict(one) for one in findings(judged)]}
    )
    rows = {row.head: row for row in patient_table(data).rows}
    assert [cell.bad for cell in rows["dark: personalize"].cells] == [True, False, False, False, False]
    assert not any(cell.bad for name in ("dark: federate", "light: personalize") for cell in rows[name].cells)
    assert rows["dark: personalize"].cells[0].text == "33.3\u202f%"
    html = render_report(data)
    assert html.index("What went wrong") < html.index('class="verdict"') < html.index('class="cards"')
    assert html.count('<td class="bad">33.3') == 1
    assert "dark: personalize lowered malignant sensitivity" in html


def test_the_cards_tell_the_working_point_where_there_is_one():
    """Malignancies of 0.8 and 0.2; of ten melanomas six score 0.8, and three of ten naevi."""
    labels, malignancy = np.repeat([0, 1], 10), np.repeat([0.8, 0.2, 0.8, 0.2], [6, 4, 3, 7])
    probabilities = np.stack([malignancy, 1 - malignancy], axis=1)
    for at, sensitivity, specificity in ((0.5, "60.0", "70.0"), (0.1, "100.0", "0.0")):
        of = Thresholds(0, int(score_bin(np.array(at))))
        of_each = {"malignant": malignant_classes(LABELS), "kinds": kind_of_each(LABELS)}
        dark = count(probabilities, labels, thresholds=of, **of_each)
        beside = dict(cards(small(counts={"federate": {"dark": dark, "light": dark}}))[0].beside)
        assert beside["Sensitivity at the working point"].startswith(f"{sensitivity}\u202f% (")
        assert beside["Specificity at the working point"].startswith(f"{specificity}\u202f% (")
        assert not any(name.startswith("Sensitivity, ") for name in beside), "there is one kind"
    without = cards(small())[0].beside
    assert not any("working point" in name for name, _ in without)


def test_sensitivity_is_shown_by_kind_of_malignancy():
    """of ten melanomas four are found, of ten basal cell carcinomas nine; light has no melanoma."""
    labels = (LABELS[0], Label(code="BCC", name="Basal", malignancy="malignant"), LABELS[1])
    kinds = kind_of_each(labels)

    def of(*numbers):
        truth, answers = np.repeat([0, 0, 1, 1, 2], numbers), np.repeat([0, 2, 1, 2, 2], numbers)
        probabilities = np.full((len(truth), 3), 0.1)
        probabilities[np.arange(len(truth)), answers] = 0.8
        of_each = {"malignant": malignant_classes(labels), "kinds": kinds}
        return count(probabilities, truth, thresholds=Thresholds(0), **of_each)

    blocks = {"dark": of(4, 6, 9, 1, 10), "light": of(0, 0, 9, 1, 10)}
    data = small(labels=labels, counts={"federate": blocks})
    beside = dict(next(card for card in cards(data) if card.subject == "dark").beside)
    assert beside["Sensitivity, Melanoma"].startswith("40.0\u202f% (12.2 to 73.8) of 10")
    rows = {row.head: [cell.text for cell in row.cells] for row in kinds_table(data).rows}
    assert rows["dark: Melanoma"][:2] == ["10", "40.0\u202f%"]
    assert rows["light: Melanoma"][0] == "too few to tell"
    assert rows["all pictures: Basal"][:2] == ["20", "90.0\u202f%"]
    assert kinds_table(data).caption in render_report(data)
    assert not kinds_table(small())


def test_a_stage_that_changed_no_answer_has_no_row_and_is_named():
    one, other = {"light": half(45, 5), "dark": half(14, 6)}, {"light": half(45, 5), "dark": half(16, 4)}
    data = small(counts={"federate": one, "personalize": other, "calibrate": other})
    assert [row.head for row in patient_table(data).rows] == [
        f"{name}: {stage}"
        for name in ("light", "dark", "all pictures")
        for stage in ("federate", "personalize")
    ]
    assert [row.head for row in spread_table(data).rows] == ["federate", "personalize"]
    assert unchanged(data) == "No answer was changed by calibrate."
    assert unchanged(small()) == ""


@pytest.mark.parametrize(
    ("light", "dark", "ending"),
    [
        ((950, 50), (300, 200), "The interval excludes zero."),
        ((9, 1), (8, 2), "the difference may be chance."),
    ],
)
def test_the_verdict_says_whether_chance_explains_it(light, dark, ending):
    counts = {"federate": {"light": half(*light), "dark": half(*dark)}}

    assert verdict(small(counts=counts)).endswith(ending)


def test_the_others_are_pooled_by_pictures(block):
    """900 of 1000 and 10 of 10 together are 910 of 1010; dark has 5 of 10."""
    a, b, dark = block(900, 100, 5, 5), block(10, 0, 5, 5), block(5, 5, 5, 5)
    counts = {"federate": {"a": a, "b": b, "dark": dark}}

    said = verdict(small(counts=counts))
    assert f"{100 * (910 / 1010 - 0.5):.1f}\u202fpts (" in said
    assert "below that of all other subgroups together" in said


def test_pictures_of_undeclared_subgroup_count_in_totals_alone():
    counts = {"federate": {**small().counts["federate"], UNDECLARED: half(0, 30)}}

    worst, _, everything = cards(small(counts=counts))[:3]

    assert worst.subject == "dark"
    assert everything.detail == "100 pictures: 50 malignant, 50 other"
    assert everything.value == "60.0\u202f%"  # 30 of 50


def test_without_subgroups_nothing_is_said_about_fairness():
    text = Outline(render_report(small(counts={"federate": {UNDECLARED: half(12, 8)}}))).text

    assert "says nothing about fairness" in text
    assert "Worst-served" not in text
    assert "60.0 %" in text


def test_a_subgroup_without_pictures_is_absent():
    empty = {"federate": {**small().counts["federate"], "olive": half(0, 0)}}

    assert "olive" not in render_report(small(counts=empty))


@pytest.mark.parametrize(
    ("counts", "message"),
    [({}, "at least one stage"), ({"federate": {"dark": half(0, 0)}}, "'federate' hold no picture")],
)
def test_a_report_without_pictures_is_refused(counts, message):
    with pytest.raises(DataError, match=message):
        render_report(small(counts=counts))


def calibrated(name, *conformal):
    return CalibratedModel(name, Temperature(1.4, None, 6), ConformalThreshold(*conformal))


def test_what_is_answered_is_what_is_concluded_urgent_or_ruled_out():
    """All answers are given at 0.8: of light (100) the class is concluded, of dark (20) nothing is."""
    sets = Thresholds(at_log_odds(-1.5))
    served = {
        "light": half(90, 10, sets, concluded=True),
        "dark": half(16, 4, Thresholds(0)),
        UNDECLARED: half(3, 1, sets, concluded=True),
    }
    models = [calibrated("global", at_log_odds(-1.5), 0.9, 60, 55)]
    card = cards(small(counts={"calibrate": served}, calibration=models))[-1]

    assert card.title == "Answered"
    assert card.value == f"{100 * 104 / 124:.1f}\u202f%"
    wrong = f"{100 * 11 / 104:.1f}\u202f%"  # 10 of light and 1 of undeclared
    assert dict(card.beside)["Wrong among conclusions"].startswith(wrong)


def test_census_adds_up_in_every_direction():
    rows = [
        ("clinic a", "light", "MEL", "train", 1200),
        ("clinic b", "dark", "NV", "train", 300),
        ("clinic b", "dark", "NV", "test", 20),
    ]
    names = ("client", "subgroup", "label", "split", "n")
    census = [dict(zip(names, row, strict=True)) for row in rows]
    by_subgroup, by_client, by_class = census_tables(small(census=census))

    assert by_subgroup.header == ("subgroup", "train", "test", "all")
    assert lines(by_client) == {
        "clinic a": ["1\u202f200", "0", "1\u202f200"],
        "clinic b": ["300", "20", "320"],
        "all": ["1\u202f500", "20", "1\u202f520"],
    }
    assert by_class.rows[-1].cells == by_subgroup.rows[-1].cells


def test_limits_name_small_groups_merged_scores_and_missing_guarantees():
    sentences = " ".join(limits(small(calibration=[calibrated("dark", 0, 0.9, 6, 7)])))
    merged = "Scores of fewer than 5 patients of a subgroup at one client"

    assert merged in " ".join(limits(small(smallest_cell=5)))
    assert "counted together" not in sentences
    assert "dark (20)" in sentences
    assert "light (" not in sentences
    assert "promise a coverage: dark." in sentences


def test_numbers_are_written_alike_everywhere():
    written = {
        "74.2\u202f%": number(0.7416, "percent"),
        "−3.1\u202fpts": number(-0.031, "points"),
        "0.500": number(0.5),
        "–": number(None, "percent"),
        "25.0 to 75.0": interval((0.25, 0.75), "percent"),
        "": interval(None),
        "0.500 (0.250 to 0.750)": with_interval(Told(0.5, (0.25, 0.75))),
        "999\u202fB": size(999),
        "1.5\u202fkB": size(1500),
        "2.5\u202fGB": size(2.5e9),
        "61.2\u202fs": duration(61.2),
        "10\u202fmin": duration(600),
        "3.0\u202fh": duration(10_800),
    }
    assert list(written) == list(written.values())
