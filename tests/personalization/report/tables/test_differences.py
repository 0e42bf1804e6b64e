import pytest

from personalization.report.subgroups import differences_table, probability

TOLD = [
    {
        "between": ["light", "dark <V>"],
        "figure": "balanced_accuracy_standardised",
        "value": 0.125,
        "interval": [-0.02, 0.25],
        "p": 0.04,
        "p_adjusted": 0.12,
    },
    {
        "between": ["light", "dark <V>"],
        "figure": "malignant_sensitivity",
        "value": -0.3,
        "interval": None,
        "p": None,
        "p_adjusted": None,
    },
    {
        "between": ["light", "dark <V>"],
        "figure": "auroc",
        "value": 0.05,
        "interval": [0.01, 0.1],
        "p": 0.0002,
        "p_adjusted": 0.0006,
    },
]


def summary(*tests):
    return {"job": "small", "stages": [{"name": f"stage {at}", **test} for at, test in enumerate(tests)]}


def test_one_row_per_comparison(report):
    table = differences_table(report(summary=summary({"test": {"differences": TOLD}})))

    assert table.caption == "Differences between subgroups at one mix of diseases"
    assert {row.header for row in table.rows} == {"light − dark <V>"}
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["Balanced accuracy", "12.5\u202fpts", "0.040", "0.120"],
        ["Malignant sensitivity", "−30.0\u202fpts", "–", "–"],
        ["AUROC", "0.050", "<\u202f0.001", "<\u202f0.001"],
    ]
    assert [row.cells[1].note for row in table.rows] == ["−2.0 to 25.0", "", "0.010 to 0.100"]


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, "–"), (1.0, "1.000"), (0.001, "0.001"), (0.00099, "<\u202f0.001"), (0, "<\u202f0.001")],
)
def test_small_probabilities_are_only_said_to_be_small(value, written):
    assert probability(value) == written
