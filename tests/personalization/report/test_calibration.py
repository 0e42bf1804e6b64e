"""What calibration fixed and what it comes to on the test split, by hand.

A picture answered at 0.8 holds probabilities 0.8 and 0.2.
"""

from dataclasses import replace

import numpy as np
import pytest

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.calibration.triage import RuledOut, Share, TriageFit, Urgent
from personalization.report.calibration import (
    calibration_error_table,
    calibration_table,
    conclusions_table,
    ood_table,
    release,
    served_table,
    tones_table,
    triage_table,
    working_point_table,
)
from personalization.report.data import CalibratedModel, ReportData, StageFacts, tones_of
from personalization.report.measures import ALL
from registry.bundle.conclusions import Conclusions, NodeRule, Tree
from registry.bundle.counting import count
from registry.bundle.counts import Thresholds
from registry.bundle.labels import UNDECLARED, Label, kind_of_each, malignant_classes
from registry.bundle.manifest import WorkingPoint
from registry.bundle.score_bins import LOGIT_BINS, SCORE_BINS, score_bin
from tests.personalization.report.conftest import LABELS, lines, texts
from tests.thresholds import at_log_odds, concluding
from training.data.subgroups import ToneSubgroups

PERCENT = "\u202f%"
MALIGNANT = malignant_classes(LABELS)
TREE, HALF = Tree(LABELS), int(LOGIT_BINS.bin(np.array(0.5)))


def calibrated(name, in_set=0, n=50, rank=46, *, fitted=1.0, **parts):
    """A calibrated model whose sets have every class from a score bin on."""
    temperature = Temperature(fitted or 1.4, fitted, n)
    return CalibratedModel(name, temperature, ConformalThreshold(in_set, 0.9, n, rank), **parts)


def of_models(models, blocks, labels=LABELS, **changes):
    return ReportData({"job": "x"}, labels, {"calibrate": blocks}, calibration=models, **changes)


@pytest.fixture
def at():
    """`at(confidence, right, wrong)`: so many answers at one confidence."""

    def make(confidence, right, wrong):
        labels = np.zeros(right + wrong, dtype=int)
        answers = np.where(np.arange(right + wrong) < right, 0, 1)
        probabilities = np.full((right + wrong, 2), 1 - confidence)
        probabilities[np.arange(right + wrong), answers] = confidence
        return count(probabilities, labels, malignant=MALIGNANT)

    return make


def off(confidence, right):
    """How far answers of this confidence, stated as the middle of its bin, are from the share right."""
    stated = LOGIT_BINS.middles[LOGIT_BINS.bin(np.array(confidence))]
    assert abs(stated - confidence) < 0.01
    return f"{abs(stated - right):.3f}"


def of_stages(report, **counts):
    facts = [StageFacts(name, name.partition("_")[2] or name, {}) for name in counts]
    return calibration_error_table(replace(report(counts=counts), facts=facts))


def test_both_errors_before_and_after_by_hand(report, at):
    # 30 of 40 right: stated as the middle of a bin, some 0.9 is off by 0.15 and 0.76 by 0.01.
    before = {"light": at(0.9001, 30, 10), "dark": at(0.9001, 10, 10)}
    after = {"light": at(0.7601, 30, 10), "dark": at(0.7601, 10, 10)}
    table = of_stages(report, federate=before, calibrate=after)
    found = lines(table)
    assert table.header == ("subgroup", "pictures", "ECE before", "ECE after", "MCE before", "MCE after")
    assert found["light"] == ["40", *[off(0.9001, 0.75), off(0.7601, 0.75)] * 2]
    assert found["dark"] == ["20", *[off(0.9001, 0.5), off(0.7601, 0.5)] * 2]
    assert (found[ALL][0], table.rows[-1].total) == ("60", True)
    assert "after federate and after calibrate" in table.caption


def test_before_is_the_stage_right_before_the_last_calibration(report, at):
    confidences = {"federate": 0.6001, "1_calibrate": 0.7001, "2_calibrate": 0.8001}
    table = of_stages(report, **{name: {"light": at(of, 20, 20)} for name, of in confidences.items()})
    assert texts(table.rows[0])[1:3] == [off(0.7001, 0.5), off(0.8001, 0.5)]


FACTS = {
    "threshold": 51.234567,
    "rate": 0.05,
    "n": 88,
    "trained_on": 1960,
    "classes": ["MEL", "NV"],
    "flagged": 0.071,
}


def test_one_row_per_model_that_knows_what_is_familiar(report):
    models = {
        "global": {"novelty": FACTS},
        "light": {"novelty": {**FACTS, "classes": ["NV"]}},
        "dark": {"novelty": {**FACTS, "threshold": None, "flagged": None, "n": 9}},
        "olive": {},
        "other": {"novelty": None},
    }
    everybody, light, dark = ood_table(report("calibrate", {"models": models})).rows
    shares = [f"5.0{PERCENT}", "51.2", f"7.1{PERCENT}"]
    assert texts(everybody) == ["1\u202f960", "2 of 2", "88", *shares]
    assert (light.cells[1].text, light.cells[1].note) == ("1 of 2", "without MEL")
    assert texts(dark)[-2:] == ["flags none", "–"]


def test_what_calibration_fixed_by_hand():
    models = [
        calibrated("light", at_log_odds(-1.5), fitted=1.5),
        calibrated("dark", n=6, rank=7, fitted=None),
    ]
    table = calibration_table(of_models(models, {}))
    assert lines(table) == {
        "light": ["50", "1.50", f"18.2{PERCENT}", f"90.0{PERCENT}"],
        "dark": ["6", "1.40", "every class", "none"],
    }
    assert [row.cells[3].note for row in table.rows] == [
        f"expected {100 * 46 / 51:.1f}{PERCENT}",
        f"90.0{PERCENT} needs 9 pictures",
    ]
    assert [row.cells[1].note for row in table.rows] == ["own fit 1.50", "global: too few pictures"]


def point(probability, *, low=0.95, n=80, reached=True):
    at = int(score_bin(np.array(probability)))
    return WorkingPoint(target=0.95, level=0.95, threshold_bin=at, sensitivity_low=low, n=n, reached=reached)


def counted(scores, labels, of):
    """A block of pictures with these probabilities of malignancy."""
    malignancy = np.array(scores)
    thresholds = Thresholds(0, None if of is None else of.threshold_bin)
    probabilities = np.stack([malignancy, 1 - malignancy], axis=1)
    return count(probabilities, np.array(labels), malignant=MALIGNANT, thresholds=thresholds)


def at_points(blocks, **points):
    models = [calibrated(name, working_point=of) for name, of in points.items()]
    return working_point_table(of_models(models, blocks))


def test_sensitivity_and_its_price_by_subgroup():
    of_all, dark = point(0.3), point(0.15, low=0.8, n=14, reached=False)
    blocks = {
        "light": counted([0.9, 0.4, 0.2, 0.1, 0.4, 0.6], [0, 0, 0, 1, 1, 1], of_all),
        "dark": counted([0.9, 0.2, 0.1, 0.2], [0, 0, 1, 1], dark),
        "medium": counted([0.1, 0.2], [1, 1], of_all),
    }
    table = at_points(blocks, **{"global": of_all, "dark": dark})
    rows, found = {row.head: row for row in table.rows}, lines(table)
    third, two, all_ = f"33.3{PERCENT}", f"66.7{PERCENT}", f"100.0{PERCENT}"
    assert found["light"][1:] == [f"95.0{PERCENT}", two, third, third, two]
    assert found["dark"][1:] == [f"80.0{PERCENT}", all_, f"50.0{PERCENT}", f"50.0{PERCENT}", all_]
    assert found["medium"][2:4] == ["–", all_]
    assert found[ALL][2:4] == [f"80.0{PERCENT}", f"{100 * 4 / 7:.1f}{PERCENT}"]
    assert [rows[name].cells[1].note for name in ("light", "dark")] == [
        "80 malignant lesions, for everybody together",
        f"14 malignant lesions; 95.0{PERCENT} needs 59",
    ]
    assert rows["medium"].cells[2].note == "no such test pictures"
    assert rows[ALL].total
    assert rows[ALL].cells[2].note.endswith("of 5")


def test_a_model_without_a_working_point_says_so():
    of_all = point(0.3)
    blocks = {"light": counted([0.9, 0.1], [0, 1], of_all), "dark": counted([0.1, 0.2], [1, 1], None)}
    _, dark, everything = at_points(blocks, **{"global": of_all, "dark": None}).rows
    assert texts(dark)[:2] == ["none", "none"]
    assert dark.cells[1].note == "no malignant calibration lesion"
    assert texts(everything)[2:4] == [f"100.0{PERCENT}", f"100.0{PERCENT}"], "light alone"
    assert not at_points(blocks, **{"global": None})


def test_every_tone_of_a_group_has_a_row_and_its_patients():
    groups = ToneSubgroups(scale="fitzpatrick", groups={"light": ("2",), "dark": ("V", "VI")})
    patients = {
        "calibration": {"fitzpatrick": {"2": 123, "5": 12}},
        "test": {"fitzpatrick": {"2": 200, "5": 14, "6": 11}},
    }
    table = tones_table(of_models([], {}, claimed_tones=tones_of(groups, patients)))
    assert lines(table) == {
        "2 (fitzpatrick)": ["light", "123", "200"],
        "5 (fitzpatrick)": ["dark", "12", "14"],
        "6 (fitzpatrick)": ["dark", "too few", "11"],
    }


def serving(name, in_set, concluded):
    """A model with thresholds as probabilities: in the set from, concluded from."""
    in_set, concluded = LOGIT_BINS.bin(np.array([in_set, concluded])).tolist()
    of_each = {"threshold_bin": concluded, "n": 60, "wrong": 0, "risk_high": 0.09}
    nodes = tuple(NodeRule(level="diagnosis", code=one.code, **of_each) for one in LABELS)
    return calibrated(name, in_set, conclusions=Conclusions(nodes=nodes))


def served(models, **numbers):
    """The table, of `subgroup=(melanomas found, missed, naevi found, missed)`, all answers at 0.8.

    What is not urgent is ruled out; histograms have merged bins.
    """
    by_name, blocks = {one.subgroup: one for one in models}, {}
    for name, of in numbers.items():
        labels, answers = np.repeat([0, 0, 1, 1], of), np.repeat([0, 1, 1, 0], of)
        probabilities = np.full((len(labels), 2), 0.2)
        probabilities[np.arange(len(labels)), answers] = 0.8
        blocks[name] = counted_by(by_name.get(name, by_name.get("global")), probabilities, labels, 5)
    return served_table(of_models(models, blocks))


def counted_by(own, probabilities, labels, smallest_cell):
    nodes = tuple(own.conclusions.thresholds(TREE).tolist())
    thresholds = Thresholds(own.conformal.threshold_bin, None, HALF, HALF, nodes)
    concluded = TREE.count(probabilities, labels, MALIGNANT, thresholds)
    of = {"malignant": MALIGNANT, "smallest_cell": smallest_cell, "concluded": concluded}
    return count(probabilities, labels, thresholds=thresholds, **of)


def test_every_subgroup_by_the_thresholds_of_its_own_model():
    """Light (from 0.4): sets of the answer alone. Dark (from 0.15): both classes, nothing is concluded."""
    models = [serving("global", 0.15, 0.15), serving("light", 0.4, 0.8), serving("dark", 0.15, 0.9)]
    table = served(models, light=(8, 2, 30, 10), dark=(5, 5, 5, 5))
    of_all = f"100.0{PERCENT}"
    assert lines(table) == {
        "light": ["50", "light", f"76.0{PERCENT}", "1.00", of_all, of_all, f"24.0{PERCENT}"],
        "dark": ["20", "dark", of_all, "2.00", of_all, f"0.0{PERCENT}", "–"],
        # Covered are 38 of light and all 20 of dark; all are urgent or ruled out; of dark none is concluded.
        ALL: [
            *("70", "–", f"{100 * 58 / 70:.1f}{PERCENT}", f"{90 / 70:.2f}", of_all),
            *(f"{100 * 50 / 70:.1f}{PERCENT}", f"24.0{PERCENT}"),
        ],
    }
    assert table.rows[-1].total


def test_who_has_no_model_is_answered_by_the_global_one():
    table = served([serving("global", 0.4, 0.2)], **{"dark": (5, 5, 5, 5), UNDECLARED: (2, 0, 2, 0)})
    assert [texts(row)[1:3] for row in table.rows] == [
        ["global", f"50.0{PERCENT}"],
        ["global", f"100.0{PERCENT}"],
        ["–", f"{100 * 14 / 24:.1f}{PERCENT}"],
    ]


def test_a_merged_histogram_is_not_cut_where_the_threshold_is():
    """Ten pictures of which six reach the threshold: the histogram has them all at one bin."""
    own, first = serving("light", 0.2, 0.7), np.repeat([0.72, 0.66], [6, 4])
    made = counted_by(own, np.stack([first, 1 - first], axis=1), np.zeros(10, dtype=int), 10)
    assert np.count_nonzero(made.point.confidence) == 1
    assert of_models([own], {"light": made}).figures["light"]["reported"] == pytest.approx(0.6)


KINDS = (
    LABELS[0],
    Label(code="BCC", name="Basal cell carcinoma", malignancy="malignant"),
    LABELS[1],
)
BELOW, FROM = at_log_odds(-1), at_log_odds(1)


def model(name, *, below=BELOW, urgent_from=FROM, lesions=(60, 40), concluded=True):
    """A calibrated model of so many melanomas and basal cell carcinomas, none of them missed."""
    ruled_out = RuledOut(below, tuple(Share.of(0, n) for n in lesions), 0.2, 0.1)
    fit = TriageFit(0.1, 0.1, ruled_out, Urgent(urgent_from, Share.of(2, 80), 0.3, 0.1))
    return calibrated(name, triage=fit, conclusions=concluding(1.0) if concluded else Conclusions())


def block(own):
    """Ten of each class: melanomas at .9 and .5, carcinomas at .5, naevi at .5 and .1, and one at .9."""
    malignancy = np.repeat([0.9, 0.5, 0.5, 0.9, 0.5, 0.1], [5, 5, 10, 1, 4, 5])
    labels = np.repeat([0, 1, 2], 10)
    probabilities = np.stack([malignancy, 0 * malignancy, 1 - malignancy], axis=1)
    nodes = tuple(own.conclusions.thresholds(Tree(KINDS)).tolist())
    rules = Thresholds(0, None, own.triage.ruled_out.below, own.triage.urgent.from_bin, nodes)
    malignant = malignant_classes(KINDS)
    concluded = Tree(KINDS).count(probabilities, labels, malignant, rules)
    of = {"malignant": malignant, "kinds": kind_of_each(KINDS), "concluded": concluded}
    return count(probabilities, labels, thresholds=rules, **of)


def answered(*models, **changes):
    return of_models(models, {one.subgroup: block(one) for one in models}, KINDS, **changes)


TONES = {"dark": {"fitzpatrick": ("5", "6")}}


def test_what_is_ruled_out_urgent_or_concluded_is_what_the_release_does():
    found = release(answered(model("light")))
    ((name, (ruled_out, urgent, concluded)),) = found.does
    assert name == "light"
    assert ruled_out.startswith(f"rules out 50.0{PERCENT} (18.7 to 81.3) of the lesions that are not")
    assert ruled_out.endswith("(in the test Melanoma 0 of 10 and Basal cell carcinoma 0 of 10)")
    assert urgent.startswith(f"calls 25.0{PERCENT} (8.7 to 49.1) of the malignant lesions urgent")
    assert "(Melanoma 5 of 10 and Basal cell carcinoma 0 of 10)" in urgent
    assert concluded.startswith(f"concludes something of 20.0{PERCENT}")
    assert found.does_not == ()


def test_a_declared_skin_tone_without_a_model_of_its_own_is_not_said_to_be_ruled_out():
    everybody = model("global")
    data = of_models([everybody], {"dark": block(everybody)}, KINDS)
    assert release(data).does, "the control: a subgroup that nobody declares"
    found = release(replace(data, tones=TONES))
    assert found.does == ()
    assert found.does_not[0].startswith("dark (fitzpatrick 5, 6): it has no model of its own.")


def test_what_it_does_not_do_is_said_with_the_reason():
    dark = model("dark", below=0, urgent_from=SCORE_BINS, lesions=(60, 16), concluded=False)
    found = release(answered(model("light"), dark, tones=TONES))
    assert [name for name, _ in found.does] == ["light"]
    for said, expected in zip(
        found.does_not,
        ("nothing is ruled out. ", "no malignant lesion is called urgent.", "nothing is concluded."),
        strict=True,
    ):
        assert said.startswith(f"dark (fitzpatrick 5, 6): {expected}")
    assert (
        "takes 29 calibration lesions of it, and there were fewer of: Basal cell carcinoma (16)."
        in (found.does_not[0])
    )
    (enough,) = release(answered(model("dark", below=0))).does_not
    assert enough.startswith("dark: nothing is ruled out. No threshold was shown")


def test_without_calibration_nothing_is_said():
    found = release(of_models([], {"light": block(model("light"))}, KINDS))
    assert (found.does, found.does_not) == ((), ())


def test_the_tables_have_the_counts_of_calibration_beside_those_of_the_test():
    run = answered(model("light"), model("dark", below=0, concluded=False))
    light, dark = triage_table(run).rows
    assert texts(light) == [f"26.9{PERCENT}", "0 of 60", "0 of 40", f"73.1{PERCENT}", "2 of 80"]
    assert light.cells[1].note == f"at most 4.9{PERCENT}"
    assert dark.cells[0].text == "nothing"
    concluded = {"light: Melanoma": ["diagnosis", f"73.1{PERCENT}", "3 of 102", "1 of 6"]}
    assert lines(conclusions_table(run)) == concluded
