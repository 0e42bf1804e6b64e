"""What the price of fairness shows is what the selection weighed."""

import re

import pytest

from personalization.report.data import FineTuning
from personalization.report.fine_tuning import frontier_curves, frontier_table
from personalization.report.page import render_report
from personalization.selection.select import SelectionConfig, select

ACCURACIES = {"light": {0: 0.7, 1: 0.9, 2: 0.8, 3: 0.6}, "dark": {0: 0.5, 1: 0.6, 2: 0.55}}
POINTS, PERCENT = "\u202fpts", "\u202f%"


@pytest.fixture
def tuned():
    """`tuned(band, rule, **changes)`: the fine-tuning above, selected from by this rule."""

    def make(band=0.05, rule="floor", accuracies=ACCURACIES, **changes):
        selection = select(accuracies, SelectionConfig(band=band, rule=rule))
        return FineTuning(accuracies, dict.fromkeys(accuracies, 40), selection, **changes)

    return make


def rows(table):
    return {row.header: [cell.text for cell in row.cells] for row in table.rows}


def test_the_named_choices_by_hand(tuned):
    """The floor keeps light at 0.7 or more, so the smallest spread is 0.1, which is selected."""
    found = rows(frontier_table(tuned()))

    assert found == {
        "smallest spread; selected": [f"10.0{POINTS}", f"60.0{PERCENT}", f"65.0{PERCENT}", "0", "1"],
        "the band without the floor": [f"0.0{POINTS}", f"60.0{PERCENT}", f"60.0{PERCENT}", "3", "1"],
        "every subgroup at its best": [f"30.0{POINTS}", f"60.0{PERCENT}", f"75.0{PERCENT}", "1", "1"],
        "the global model for all": [f"20.0{POINTS}", f"50.0{PERCENT}", f"60.0{PERCENT}", "0", "0"],
    }


def test_the_text_alternative_says_what_the_marks_say(tuned):
    svg = frontier_curves(tuned()).svg
    (alternative,) = re.findall('aria-label="([^"]+)"', svg)

    assert f"selected: spread 10.0{POINTS}, lowest 60.0{PERCENT}, mean 65.0{PERCENT}" in alternative
    assert f"the global model for all: spread 20.0{POINTS}" in alternative
    assert "<text" in svg


@pytest.mark.parametrize(
    "accuracies", [{"all": {0: 0.5}}, {"a": {0: 1.0}, "b": {0: 1.0}}, {"a": {0: 0.0}, "b": {0: 1.0}}]
)
def test_a_frontier_of_one_step_can_be_drawn(tuned, accuracies):
    assert len(rows(frontier_table(tuned(accuracies=accuracies)))) == 1
    assert "<path" in frontier_curves(tuned(accuracies=accuracies)).svg


def test_the_page_names_the_strategy_and_whose_models_they_are(report, tuned):
    of_subgroups = render_report(report(fine_tuning=tuned(strategy="head")))
    of_clients = render_report(report(fine_tuning=tuned(strategy="ditto", per="client")))

    assert "Strategy “head”, one model per subgroup." in of_subgroups
    assert "Strategy “ditto”, one model per client." in of_clients
    assert "Strategy" not in render_report(report(fine_tuning=tuned()))
