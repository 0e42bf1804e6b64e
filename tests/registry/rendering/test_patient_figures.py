"""What counts for a patient, on the card."""

import pytest

from registry.card.contents import Entry, release_card
from registry.card.sections import by_subgroup


def row(n_malignant, n_other, sensitivity, specificity=0.75):
    return {
        "n": n_malignant + n_other,
        "n_malignant": n_malignant,
        "n_other": n_other,
        "malignant_sensitivity": sensitivity,
        "malignant_specificity": specificity,
        "malignancy_auroc": None if sensitivity is None else 0.8,
        "balanced_accuracy": 0.7,
        "intervals": {} if sensitivity is None else {"malignant_sensitivity": [sensitivity - 0.1, 0.99]},
    }


@pytest.fixture
def everybody(bundle):
    return bundle(metrics={"by_subgroup": {"dark": row(21, 79, 0.333), "light": row(0, 12, None)}}).manifest


def test_the_card_puts_what_counts_first_and_hides_no_small_number(everybody):
    table = by_subgroup(release_card([Entry(everybody, "sha256:0")])["versions"][0])
    assert table.header[1:6] == (
        "Test pictures",
        "Sensitivity, malignant",
        "Specificity, malignant",
        "AUROC, malignancy",
        "Balanced accuracy",
    )
    dark, light = (dict(zip(table.header[1:], map(str, row.cells), strict=True)) for row in table.rows[:2])
    assert dark["Test pictures"] == "100 21 malignant, 79 other"
    assert dark["Sensitivity, malignant"] == "0.333 (0.233 to 0.990)"
    assert light["Sensitivity, malignant"] == light["AUROC, malignancy"] == "no malignant pictures"
    assert light["Specificity, malignant"] == "0.750"
