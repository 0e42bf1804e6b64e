"""What a run's log and its stages' facts come to: clients, traffic, probes, and who the subgroups are."""

from dataclasses import replace

import pytest

from personalization.report.data import Round
from personalization.report.page import render_report
from personalization.report.run_tables import client_tables, communication_tables, facts, probe_tables
from registry.bundle.metrics.summary import over_clients, summarise
from tests.personalization.report.conftest import LABELS, columns, lines


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


def test_clients_stand_by_community_then_means_of_communities_then_the_mean_of_all(report, of_clients):
    (table,) = client_tables(report("federate", of_clients))
    assert table.header[1:3] == ("test pictures", "accuracy")
    assert {name: texts[:2] for name, texts in lines(table).items()} == {
        "isic-0": ["10", "0.800"],
        "isic-1": ["20", "0.900"],
        "ham": ["10", "0.600"],
        "pad": ["10", "0.500"],
        "isic, mean over 2 clients": ["30", "0.850"],
        "ham, mean over 1 client": ["10", "0.600"],
        # (0.5 + 0.6 + 0.8 + 0.9) / 4 = 0.7; deviations 0.2, 0.1, 0.1, 0.2: sqrt(0.1 / 4) = 0.158.
        "mean over clients (median) ± deviation": ["50", "0.700 (0.700) ±\u202f0.158"],
    }
    assert [row.total for row in table.rows] == [False] * 4 + [True] * 3


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


def test_bytes_and_additional_cost_by_hand(report, rounds):
    (table,) = communication_tables(report(rounds=rounds))
    found = lines(table)
    assert table.header[-1] == "in the 2 rounds with an exchange"
    assert list(found) == ["a", "b", "c", "all clients", "server, in no sum"]
    mega, percent = "\u202fMB", "\u202f%"
    sizes = [f"{number}{mega}" for number in ("6.0", "4.0", "2.0", "4.0")]
    assert found["a"] == [*sizes, f"50.0{percent}", f"100.0{percent}"]
    assert found["c"][4:] == [f"0.0{percent}", f"0.0{percent}"]
    # Weights to a four times, to b three times and to c once; models beside to a twice and to b once.
    sizes = [f"{number}{mega}" for number in ("11.0", "8.0", "3.0", "8.0")]
    # In rounds 3 and 4: three beside, four weights.
    assert found["all clients"] == [*sizes, f"37.5{percent}", f"75.0{percent}"]
    assert found["server, in no sum"][:2] == [f"7.0{mega}", f"4.0{mega}"]


def test_stages_are_counted_apart_and_clients_stand_by_community(report, line):
    facts = {"by_community": {"late": {"clients": ["b"]}}}
    rounds = [
        line(1, stage="finetune", bytes_by_client={"a": told()}),
        line(1, bytes_by_client={"a": told(), "b": told(times=2)}),
    ]
    first, second = map(lines, communication_tables(report(facts=facts, rounds=rounds)))
    assert (list(first), list(second)) == (["a", "all clients"], ["b", "a", "all clients"])
    assert second["b"][0] == "2.0\u202fMB"


@pytest.fixture
def probed(report, block):
    """A report of one probe: two subgroups' pictures were answered linearly, those of one by neighbours."""
    linear = summarise({"light": block(40, 10, 80, 20), "dark": block(6, 4, 9, 5)}, LABELS, ("light", "dark"))
    near = summarise({"light": block(30, 20, 70, 30)}, LABELS, ("light", "dark"))
    return report("probe", {"linear": linear, "neighbours": near})


def test_a_probe_has_a_line_for_all_and_for_each_subgroup(probed, report):
    (table,) = probe_tables(probed)
    linear = [f"linear, {name}" for name in ("all pictures", "light", "dark")]
    near = ["neighbours, all pictures", "neighbours, light"]
    assert [row.head for row in table.rows] == [*linear, *near]
    assert columns(table, 4) == {
        "test pictures": "150",
        "AUROC of malignancy": f"{0.6 * 0.7 + (0.6 * 0.3 + 0.4 * 0.7) / 2:.3f}",
        "sensitivity": "0.600",
        "specificity": "0.700",
        "balanced accuracy": "0.650",
        "macro F1": "–",  # told over all pictures alone
    }
    assert all(" to " in cell.note for cell in table.rows[4].cells[1:4])
    assert columns(table, 3)["macro F1"] == f"{(60 / 110 + 140 / 190) / 2:.3f}"
    assert "Of the encoder, by stage “probe”, with 95 % intervals" in render_report(probed)
    assert 'id="encoder"' not in render_report(report())


def test_subgroups_are_told_with_their_tones_on_every_scale(everything):
    tones = {"dark": {"fitzpatrick": ("5", "6"), "milk10k": ("0", "1")}, "light": {"fitzpatrick": ("1",)}}
    told = dict(facts(replace(everything, tones=tones)))
    assert told["Subgroups"] == "dark: 5, 6 (fitzpatrick) or 0, 1 (milk10k); light: 1 (fitzpatrick)"
    assert "Subgroups" not in dict(facts(everything))


def test_peers_scalars_and_bytes_of_the_global_model_are_read():
    exchange = {"a": {"peers": ["b", "c"], "refused": ["d"]}, "b": {"peers": [], "refused": ["a"]}, "c": {}}
    models = {
        "global": {"exchange": exchange, "scalars": {"a": {"kept": 0.4}}},
        "dark": {"exchange": {"x": {"peers": ["y"]}}},
    }
    sizes = {"a": {"down": 30, "beside": 20, "up": 10}, "b": {"down": 5, "up": 0}}
    line = {"stage": "federate", "round": 11, "asked": ["a", "b"], "answered": ["a"]}
    found = Round.from_line({**line, "models": models, "bytes_by_client": sizes})
    assert (found.peers, found.scalars) == ({"a": ("b", "c")}, {"a": {"kept": 0.4}})
    assert found.bytes_by_client == {"a": (30, 20, 10), "b": (5, 0, 0)}
