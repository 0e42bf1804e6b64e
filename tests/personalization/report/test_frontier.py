"""What the price of fairness shows is what the selection weighed."""

import re

import pytest

from personalization.report import FineTuning, render_report
from personalization.report.figures.frontier import frontier_curves, frontier_key
from personalization.report.tables.frontier import frontier_table, steps_table
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


def test_every_step_is_told_below_the_figure(tuned):
    panel = frontier_curves(tuned(rule="paper"))

    assert panel.numbers == steps_table(tuned(rule="paper"))
    assert [row.header for row in panel.numbers.rows] == [f"{n}.0{POINTS}" for n in (0, 10, 20, 30)]


def test_the_text_alternative_says_what_the_marks_say(tuned):
    svg = frontier_curves(tuned()).svg
    (alternative,) = re.findall('aria-label="([^"]+)"', svg)

    assert f"selected: spread 10.0{POINTS}, lowest 60.0{PERCENT}, mean 65.0{PERCENT}" in alternative
    assert f"the global model for all: spread 20.0{POINTS}" in alternative
    assert "<text" in svg


def test_the_key_names_the_lines_that_are_drawn(tuned):
    with_floor, without = frontier_key(tuned()), frontier_key(tuned(rule="paper"))

    assert [entry.name for entry in with_floor] == ["lowest", "mean", "both without the floor"]
    assert [entry.name for entry in without] == ["lowest", "mean"]
    assert with_floor[0].dashes != with_floor[1].dashes


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


def test_clients_with_models_of_their_own_are_no_subgroups(report, tuned):
    """They have a colour beside their curves and nowhere else."""
    clients = {"north": {0: 0.5, 1: 0.6}, "south": {0: 0.7}}
    page = render_report(report(fine_tuning=tuned(accuracies=clients, per="client")))
    keys = re.findall('<ul class="key".*?</ul>', page, flags=re.DOTALL)

    assert ["north" in key for key in keys] == [True, False, False]
    assert '<th scope="col">client</th><th scope="col">validation pictures</th>' in page
