import pytest

from personalization.report.run_tables import client_tables
from registry.bundle.metrics.summary import over_clients


@pytest.fixture
def facts(block):
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


def test_clients_stand_by_community_then_means_of_communities_then_the_mean_of_all(report, facts):
    (table,) = client_tables(report("federate", facts))
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
def test_the_title_says_whose_models_they_are(report, facts, kind, title):
    (table,) = client_tables(report(kind, facts))
    assert table.caption == title
