"""What a release is said to do, and what not, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from personalization.calibration.conformal import ConformalThreshold
from personalization.calibration.temperature import Temperature
from personalization.calibration.triage import RuledOut, Share, TriageFit, Urgent
from personalization.report.answers import conclusions_table, release, triage_table
from personalization.report.data import CalibratedModel, ReportData
from registry.bundle.conclusions import Conclusions, Tree
from registry.bundle.counts.counting import count
from registry.bundle.counts.counts import Thresholds
from registry.bundle.counts.score_bins import SCORE_BINS
from registry.bundle.labels import Label, kind_of_each, malignant_classes
from tests.thresholds import at_log_odds, concluding

PERCENT = "\u202f%"
LABELS = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="BCC", name="Basal cell carcinoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
)
BELOW, FROM = at_log_odds(-1), at_log_odds(1)


def model(name, *, below=BELOW, urgent_from=FROM, lesions=(60, 40), concluded=True):
    """A calibrated model of so many melanomas and basal cell carcinomas, none of them missed."""
    ruled_out = RuledOut(below, tuple(Share.of(0, n) for n in lesions), 0.2, 0.1)
    fit = TriageFit(0.1, 0.1, ruled_out, Urgent(urgent_from, Share.of(2, 80), 0.3, 0.1))
    conclusions = concluding(1.0) if concluded else Conclusions()
    sets = ConformalThreshold(0, 0.9, 50, 46)
    return CalibratedModel(name, Temperature(1.0, 1.0, 50), sets, triage=fit, conclusions=conclusions)


def block(own):
    """Ten of each class: melanomas at .9 and .5, carcinomas at .5, naevi at .5 and .1, and one at .9."""
    malignancy = np.repeat([0.9, 0.5, 0.5, 0.9, 0.5, 0.1], [5, 5, 10, 1, 4, 5])
    labels = np.repeat([0, 1, 2], 10)
    probabilities = np.stack([malignancy, 0 * malignancy, 1 - malignancy], axis=1)
    nodes = tuple(own.conclusions.thresholds(Tree(LABELS)).tolist())
    rules = Thresholds(0, None, own.triage.ruled_out.below, own.triage.urgent.from_bin, nodes)
    malignant = malignant_classes(LABELS)
    return count(
        probabilities,
        labels,
        malignant=malignant,
        thresholds=rules,
        kinds=kind_of_each(LABELS),
        concluded=Tree(LABELS).count(probabilities, labels, malignant, rules),
    )


@pytest.fixture
def run():
    def make(*models):
        blocks = {one.subgroup: block(one) for one in models}
        return ReportData({"job": "x"}, LABELS, {"calibrate": blocks}, calibration=models)

    return make


def test_what_is_ruled_out_urgent_or_concluded_is_what_the_release_does(run):
    found = release(run(model("light")))
    ((name, (ruled_out, urgent, concluded)),) = found.does
    assert name == "light"
    assert ruled_out.startswith(f"rules out 50.0{PERCENT} (18.7 to 81.3) of the lesions that are not")
    assert ruled_out.endswith("(in the test Melanoma 0 of 10 and Basal cell carcinoma 0 of 10)")
    assert urgent.startswith(f"calls 25.0{PERCENT} (8.7 to 49.1) of the malignant lesions urgent")
    assert "(Melanoma 5 of 10 and Basal cell carcinoma 0 of 10)" in urgent
    assert concluded.startswith(f"concludes something of 20.0{PERCENT}")
    assert found.does_not == ()


def test_a_subgroup_is_named_with_its_skin_tones(run):
    data = replace(run(model("dark", below=0)), tones={"dark": {"fitzpatrick": ("5", "6")}})
    found = release(data)
    assert [name for name, _ in found.does] == ["dark (fitzpatrick 5, 6)"]
    assert found.does_not[0].startswith("dark (fitzpatrick 5, 6): nothing is ruled out.")


def test_a_declared_skin_tone_without_a_model_of_its_own_is_not_said_to_be_ruled_out():
    everybody = model("global")
    blocks = {"dark": block(everybody)}
    data = ReportData({"job": "x"}, LABELS, {"calibrate": blocks}, calibration=[everybody])
    assert release(data).does, "the control: a subgroup that nobody declares"
    found = release(replace(data, tones={"dark": {"fitzpatrick": ("5", "6")}}))
    assert found.does == ()
    assert found.does_not[0].startswith("dark (fitzpatrick 5, 6): it has no model of its own.")


def test_what_it_does_not_do_is_said_with_the_reason(run):
    dark = model("dark", below=0, urgent_from=SCORE_BINS, lesions=(60, 16), concluded=False)
    found = release(run(model("light"), dark))
    assert [name for name, _ in found.does] == ["light"]
    ruled_out, urgent, concluded = found.does_not
    assert ruled_out.startswith("dark: nothing is ruled out. ")
    assert (
        "takes 29 calibration lesions of it, and there were fewer of: Basal cell carcinoma (16)." in ruled_out
    )
    assert urgent.startswith("dark: no malignant lesion is called urgent.")
    assert concluded.startswith("dark: nothing is concluded.")


def test_where_lesions_are_enough_the_threshold_is_the_reason(run):
    (ruled_out,) = release(run(model("dark", below=0))).does_not
    assert ruled_out.startswith("dark: nothing is ruled out. No threshold was shown")


def test_without_calibration_nothing_is_said(run):
    found = release(ReportData({"job": "x"}, LABELS, {"federate": {"light": block(model("light"))}}))
    assert (found.does, found.does_not) == ((), ())


def test_the_tables_have_the_counts_of_calibration_beside_those_of_the_test(run):
    data = run(model("light"), model("dark", below=0, concluded=False))
    light, dark = triage_table(data.calibration, LABELS).rows
    assert [cell.text for cell in light.cells] == [
        f"26.9{PERCENT}", "0 of 60", "0 of 40", f"73.1{PERCENT}", "2 of 80"
    ]  # fmt: skip
    assert light.cells[1].note == f"at most 4.9{PERCENT}"
    assert dark.cells[0].text == "nothing"
    (melanoma,) = conclusions_table(data.calibration, data.counts["calibrate"], LABELS).rows
    assert melanoma.header == "light: Melanoma"
    assert [cell.text for cell in melanoma.cells] == ["diagnosis", f"73.1{PERCENT}", "3 of 102", "1 of 6"]
