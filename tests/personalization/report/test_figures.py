"""What figures show: pseudo labels by round, what is between clients, and the price of fairness."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalization.report.data import FineTuning, Round, in_order, members_among
from personalization.report.figures import curves, maps, outline_caption, outlined, peer_shares
from personalization.report.fine_tuning import frontier_curves, frontier_table, selection_table
from personalization.report.page import render_report
from personalization.selection import Proof, SelectionConfig, select, with_proofs
from tests.personalization.report.conftest import lines, texts

POINTS, PERCENT = "\u202fpts", "\u202f%"


def kept(**of):
    return {"scalars": {client: {"kept": value} for client, value in of.items()}}


def test_pseudo_labels_have_the_mean_and_the_range_over_clients_by_round(report, line):
    rounds = [
        line(1, models=kept(a=0.1, b=0.3)),
        line(2, models={"scalars": {"a": {"other": 1.0}}}),
        line(3, models=kept(a=0.5, b=0.8, c=0.8)),
        line(1, stage="pretrain"),
        line(1, stage="1-federate", models=kept(a=0.0)),
    ]
    first, second = curves(report(rounds=rounds))
    assert lines(first.numbers) == {
        "1": [f"20.0{PERCENT}", f"10.0{PERCENT}", f"30.0{PERCENT}", "2"],
        "3": [f"70.0{PERCENT}", f"50.0{PERCENT}", f"80.0{PERCENT}", "3"],
    }
    assert f"from 20.0{PERCENT} to 70.0{PERCENT}" in first.svg
    assert (first.title, second.title) == ("Pseudo labels kept, federate", "Pseudo labels kept, 1-federate")
    assert texts(second.numbers.rows[0])[0] == f"0.0{PERCENT}", "nothing kept is told as nothing"


def test_losses_and_accuracies_by_round_begin_and_end_in_words(report, line):
    rounds = [
        line(at, loss=1 / at, metrics={"balanced_accuracy": at / 4}, by_subgroup={"light": {"loss": 2 / at}})
        for at in (1, 2)
    ]
    loss, accuracy = curves(report(rounds=rounds))
    assert lines(loss.numbers) == {"1": ["1.000", "2.000"], "2": ["0.500", "1.000"]}
    assert "all pictures from 1.000 to 0.500; light from 2.000 to 1.000" in loss.svg
    assert lines(accuracy.numbers)["2"] == [f"50.0{PERCENT}", "–"]
    marks = [set(re.findall(r">([\d.]+ ?%?)</text>", one.svg)) for one in (loss, accuracy)]
    assert marks[1] >= {"0 %", "100 %"}
    assert marks[0] >= {"0.00", "1.00", "2.00"}


COMMUNITIES = {"isic": ("i0", "i1"), "ham": ("h0", "h1"), "pad": ("p",)}
FACTS = {"by_community": {name: {"clients": list(of)} for name, of in COMMUNITIES.items()}}


@pytest.fixture
def rounds(line):
    """Four rounds; i0 was given i1 three times, h0 once; p was given h0 and i0 in the last round."""

    def peers(**of):
        return {"exchange": {client: {"peers": given} for client, given in of.items()}}

    return [
        line(1, models=peers(h0=[], i0=[])),
        line(2, models=peers(h0=["h1"], i0=["i1"])),
        line(3, models=peers(i0=["i1", "h0"], i1=["i0"])),
        line(4, models=peers(i0=["i1"], p=["h0", "i0"])),
    ]


def test_a_row_tells_how_often_a_client_was_given_each_other(rounds):
    assert peer_shares(rounds, ["i0", "i1", "h0", "h1", "p"]) == [
        [None, 0.75, 0.25, 0.0, 0.0],
        [1.0, None, 0.0, 0.0, 0.0],
        [0.0, 0.0, None, 1.0, 0.0],
        [None] * 5,  # h1 never took part
        [0.5, 0.0, 0.5, 0.0, None],
    ]


CLIENTS = st.sampled_from("abcd")


@given(st.lists(st.dictionaries(CLIENTS, st.lists(CLIENTS, max_size=3, unique=True), max_size=4), max_size=6))
def test_the_row_of_a_client_that_was_given_peers_sums_to_one(log):
    rounds, none = [], {"stage": "federate", "asked": [], "answered": []}
    for at, entry in enumerate(log, start=1):
        told = {client: {"peers": [peer for peer in of if peer != client]} for client, of in entry.items()}
        rounds.append(Round.from_line({**none, "round": at, "models": {"global": {"exchange": told}}}))
    for client, row in zip("abcd", peer_shares(rounds, "abcd"), strict=True):
        known = [share for share in row if share is not None]
        was_given = any(set(entry.get(client, ())) - {client} for entry in log)
        assert (sum(known) == pytest.approx(1)) if was_given else known == []


def test_the_map_of_peers_orders_clients_by_community_and_has_its_numbers(report, rounds):
    (panel,) = maps(report(facts=FACTS, rounds=rounds))
    assert panel.numbers.header == ("client", "i0", "i1", "h0", "h1", "p", "own community")
    shares = [f"{share}{PERCENT}" for share in ("75.0", "25.0", "0.0", "0.0", "75.0")]
    assert texts(panel.numbers.rows[0]) == ["–", *shares]
    assert "Outlined from the upper left: isic and ham." in panel.caption
    assert f"isic 87.5{PERCENT} and ham 100.0{PERCENT}" in panel.caption
    assert f"i0 was given i1 most often, 75.0{PERCENT}" in panel.svg
    for name in ("i0", "h1", "75.0", "100.0"):
        assert f">{name}<" in panel.svg


def test_the_similarity_matrix_is_put_in_order_by_community_and_a_name_is_no_formula(report):
    matrix = [[1.0, 0.2, 0.9], [0.2, 1.0, 0.3], [0.9, 0.3, 1.0]]
    facts = {**FACTS, "similarity": {"clients": ["i1", "$x^2$", "i0"], "matrix": matrix}}
    (panel,) = maps(report(facts=facts))
    assert panel.numbers.header == ("client", "i0", "i1", "$x^2$")
    assert [texts(row) for row in panel.numbers.rows] == [
        ["–", "0.900", "0.300"],
        ["0.900", "–", "0.200"],
        ["0.300", "0.200", "–"],
    ]
    assert "from 0.200 (no shade) to 0.900" in panel.caption
    assert "Outlined from the upper left: isic." in panel.caption
    assert ">$x^2$<" in panel.svg


def test_order_and_outlines_of_clients():
    assert in_order(["p", "h1", "new", "i1"], COMMUNITIES) == ("i1", "h1", "p", "new")
    assert members_among(["i1", "h1"], COMMUNITIES) == {"isic": ["i1"], "ham": ["h1"]}
    assert outlined(["i0", "i1", "h1"], COMMUNITIES) == {"isic": ["i0", "i1"]}
    assert outline_caption(["i0", "h1"], COMMUNITIES) == ""
    # A client of two communities counts in the first, so that outlines do not overlap.
    both = {"x": ["a", "b"], "y": ["b", "c"]}
    assert members_among(["a", "b", "c"], both) == {"x": ["a", "b"], "y": ["c"]}


ACCURACIES = {"light": {0: 0.7, 1: 0.9, 2: 0.8, 3: 0.6}, "dark": {0: 0.5, 1: 0.6, 2: 0.55}}


def tuned(accuracies=ACCURACIES, **changes):
    """The fine-tuning above, selected from by the default rule."""
    selection = select(accuracies, SelectionConfig())
    return FineTuning(accuracies, dict.fromkeys(accuracies, 40), selection, **changes)


def test_the_named_choices_by_hand():
    """The floor keeps light at 0.7 or more, so the smallest spread is 0.1, which is selected."""
    assert lines(frontier_table(tuned())) == {
        "smallest spread; selected": [f"10.0{POINTS}", f"60.0{PERCENT}", f"65.0{PERCENT}", "0", "1"],
        "the band without the floor": [f"0.0{POINTS}", f"60.0{PERCENT}", f"60.0{PERCENT}", "3", "1"],
        "every subgroup at its best": [f"30.0{POINTS}", f"60.0{PERCENT}", f"75.0{PERCENT}", "1", "1"],
        "the global model for all": [f"20.0{POINTS}", f"50.0{PERCENT}", f"60.0{PERCENT}", "0", "0"],
    }
    (alternative,) = re.findall('aria-label="([^"]+)"', frontier_curves(tuned()).svg)
    assert f"selected: spread 10.0{POINTS}, lowest 60.0{PERCENT}, mean 65.0{PERCENT}" in alternative
    assert f"the global model for all: spread 20.0{POINTS}" in alternative


def test_an_epoch_is_shown_with_its_proof():
    proofs = {"dark": Proof(1, True, {}, "a gain is shown")}
    of = tuned()
    proven = FineTuning(ACCURACIES, of.pictures, with_proofs(of.selection, ACCURACIES, proofs))
    light, dark = (row.cells[6] for row in selection_table(proven).rows)
    assert (light.text, light.note) == ("", "the rule chose the global model")
    assert (dark.text, dark.note) == ("epoch 1 is taken", "a gain is shown")


@pytest.mark.parametrize(
    "accuracies", [{"all": {0: 0.5}}, {"a": {0: 1.0}, "b": {0: 1.0}}, {"a": {0: 0.0}, "b": {0: 1.0}}]
)
def test_a_frontier_of_one_step_can_be_drawn(accuracies):
    assert len(frontier_table(tuned(accuracies)).rows) == 1
    assert "<path" in frontier_curves(tuned(accuracies)).svg


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"strategy": "head"}, "Strategy “head”, one model per subgroup."),
        ({"strategy": "ditto", "per": "client"}, "Strategy “ditto”, one model per client."),
        ({}, None),
    ],
)
def test_the_page_names_the_strategy_and_whose_models_they_are(report, changes, said):
    page = render_report(report(fine_tuning=tuned(**changes)))
    assert said in page if said else "Strategy" not in page
