"""

What a probe found, with intervals, over all pictures and in each subgroup.
"""

from dataclasses import replace

import pytest

from personalization.report.page import render_report
from personalization.report.run_tables import client_tables, communication_tables, facts, probe_tables
from registry.bundle.metrics.summary import over_clients, summarise
from tests.personalization.report.conftest import LABELS


@pytest.fixture
def of_clients(block):
    """Accuracies 0.5, 0.8, 0.6 and 0.9; pad comes first and is of no community."""
    blocks = {
        "pad": block(2, 2, 3, 3),
        "isic-0": block(4, 1, 4, 1),
        "ham": block(3, 2, 3, 2),
        "isic-1": block(9, 1, 9, 1),
    }
    return over_clients(blocks, {"isic": ["isic-0", "isic-1"], "ham": ["ham"]})


def column(table, title):
    at = table.columns.index(title) - 1
    return {row.header: row.cells[at].text for row in table.rows}


def test_clients_stand_by_community_then_means_of_communities_then_the_mean_of_all(report, of_clients):
    (table,) = client_tables(report("federate", of_clients))
    assert column(table, "accuracy") == {
        "isic-0": "0.800",
        "isic-1": "0.900",
        "ham": "0.600",
        "pad": "0.500",
        "isic, mean over 2 clients": "0.850",
        "ham, mean over 1 client": "0.600",
        # (0.5 + 0.6 + 0.8 + 0.9) / 4 = 0.7; deviations 0.2, 0.1, 0.1, 0.2: sqrt(0.1 / 4) = 0.158.
        "mean over clients (median) ± deviation": "0.700 (0.700) ±\u202f0.158",
    }
    assert list(column(table, "test pictures").values()) == ["10", "20", "10", "10", "30", "10", "50"]
    assert [row.is_total for row in table.rows] == [False] * 4 + [True] * 3


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("finetune", "Each client’s own model after stage “finetune”"),
        ("federate", "The global model at each client after stage “federate”"),
        ("elsewhere", "Each client’s test pictures after stage “elsewhere”"),
    ],
)
def test_the_title_says_whose_models_they_are(report, of_clients, kind, title):
    (table,) = client_tables(report(kind, of_clients))
    assert table.caption == title


WEIGHTS = 1_000_000


def told(beside=0, times=1):
    return {"down": times * (WEIGHTS + beside), "beside": times * beside, "up": times * WEIGHTS}


@pytest.fixture
def rounds(line):
    """Warm-up of two rounds, then two in which a and b get a model beside; b misses the third."""
    return [
        line(1, bytes_by_client={"a": told(), "b": told(), "server": told()}),
        line(2, bytes_by_client={"a": told(), "b": told(), "server": told()}),
        line(3, bytes_by_client={"a": told(WEIGHTS), "c": told(), "server": told()}),
        line(4, bytes_by_client={"a": told(WEIGHTS), "b": told(WEIGHTS), "server": told(3 * WEIGHTS)}),
    ]


def cells(table, header):
    row = next(row for row in table.rows if row.header == header)
    return [cell.text for cell in row.cells]


def test_bytes_and_additional_cost_by_hand(report, rounds):
    (table,) = communication_tables(report(rounds=rounds))
    assert table.columns[-1] == "in the 2 rounds with an exchange"
    assert cells(table, "a") == [
        "6.0\u202fMB",
        "4.0\u202fMB",
        "2.0\u202fMB",
        "4.0\u202fMB",
        "50.0\u202f%",
        "100.0\u202f%",
    ]
    assert cells(table, "c")[4:] == ["0.0\u202f%", "0.0\u202f%"]
    # Weights to a four times, to b three times and to c once; models beside to a twice and to b once.
    assert cells(table, "all clients") == [
        "11.0\u202fMB",
        "8.0\u202fMB",
        "3.0\u202fMB",
        "8.0\u202fMB",
        "37.5\u202f%",
        "75.0\u202f%",  # in rounds 3 and 4: three beside, four weights
    ]


def test_the_coordinators_own_client_is_apart_and_last(report, rounds):
    (table,) = communication_tables(report(rounds=rounds))
    assert [row.header for row in table.rows] == ["a", "b", "c", "all clients", "server, in no sum"]
    assert cells(table, "server, in no sum")[:2] == ["7.0\u202fMB", "4.0\u202fMB"]


def test_stages_are_counted_apart_and_clients_stand_by_community(report, line):
    facts = {"by_community": {"late": {"clients": ["b"]}}}
    rounds = [
        line(1, stage="finetune", bytes_by_client={"a": told()}),
        line(1, bytes_by_client={"a": told(), "b": told(times=2)}),
    ]
    first, second = communication_tables(report(facts=facts, rounds=rounds))
    assert [row.header for row in first.rows] == ["a", "all clients"]
    assert [row.header for row in second.rows] == ["b", "a", "all clients"]
    assert cells(second, "b")[0] == "2.0\u202fMB"


@pytest.fixture
def probed(report, block):
    """A report of one probe: two subgroups' pictures were answered linearly, those of one by neighbours."""
    linear = summarise({"light": block(40, 10, 80, 20), "dark": block(6, 4, 9, 5)}, LABELS, ("light", "dark"))
    near = summarise({"light": block(30, 20, 70, 30)}, LABELS, ("light", "dark"))
    return lambda facts=None: report("probe", facts or {"linear": linear, "neighbours": near})


def test_both_figures_have_a_line_for_all_and_for_each_subgroup(probed):
    (table,) = probe_tables(probed())
    rows = {row.header: row for row in table.rows}
    assert list(rows) == [
        "linear, all pictures",
        "linear, light",
        "linear, dark",
        "neighbours, all pictures",
        "neighbours, light",
    ]
    cells = dict(zip(table.columns[1:], rows["neighbours, light"].cells, strict=True))
    assert cells["test pictures"].text == "150"
    assert cells["sensitivity"].text == "0.600"
    assert cells["specificity"].text == "0.700"
    assert cells["AUROC of malignancy"].text == f"{0.6 * 0.7 + (0.6 * 0.3 + 0.4 * 0.7) / 2:.3f}"
    assert all(" to " in cells[name].note for name in ("sensitivity", "specificity", "AUROC of malignancy"))
    f1 = {name: row.cells[-1].text for name, row in rows.items()}
    assert f1["neighbours, all pictures"] == f"{(60 / 110 + 140 / 190) / 2:.3f}"
    assert f1["linear, light"] == "–", "told over all pictures alone"


def test_the_page_shows_them_and_no_others(probed, report):
    page = render_report(probed())
    assert '<h2 id="encoder">' in page
    assert "Of the encoder, by stage “probe”, with 95 % intervals" in page
    assert 'id="encoder"' not in render_report(report())
    assert probe_tables(report()) == ()


def test_subgroups_are_told_with_their_tones_on_every_scale(everything):
    tones = {"dark": {"fitzpatrick": ("5", "6"), "milk10k": ("0", "1")}, "light": {"fitzpatrick": ("1",)}}
    told = dict(facts(replace(everything, tones=tones)))
    assert told["Subgroups"] == "dark: 5, 6 (fitzpatrick) or 0, 1 (milk10k); light: 1 (fitzpatrick)"
    assert "Subgroups" not in dict(facts(everything))
