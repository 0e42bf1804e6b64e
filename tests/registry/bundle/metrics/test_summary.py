import json

import numpy as np
import pytest
from sklearn import metrics as sk

from registry.bundle.counts.counting import Block, count
from registry.bundle.counts.counts import Counts
from registry.bundle.errors import CountsError
from registry.bundle.labels import Label
from registry.bundle.metrics.fairness import variance
from registry.bundle.metrics.summary import summarise

LABELS = [
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
    Label(code="DF", name="Dermatofibroma", malignancy="benign"),
]
MALIGNANT = np.array([True, False, False])
SIZES = {"dark": 30, "medium": 80, "light": 55, "undeclared": 20}


@pytest.fixture
def blocks(predictions):
    return {
        name: count(*predictions(i, n, 3), malignant=MALIGNANT) for i, (name, n) in enumerate(SIZES.items())
    }


def test_every_key_that_was_promised_is_there(blocks):
    summary = summarise(blocks, LABELS, ["dark", "medium", "light"], {"dark": {"epoch": 3, "coverage": 0.9}})
    promised = (
        "n accuracy balanced_accuracy macro_precision macro_f1 specificity auroc auprc ece mce aurc fairness"
    )
    assert set(promised.split()) | {"by_subgroup"} <= set(summary)
    assert set(summary["fairness"]) == {
        "variance",
        "gap",
        "worst",
        "spread",
        "spread_standardised",
        "intervals",
    }
    dark = summary["by_subgroup"]["dark"]
    promised = (
        "n n_malignant n_other accuracy balanced_accuracy auroc malignancy_auroc ece mce "
        "malignant_sensitivity malignant_specificity coverage epoch intervals"
    )
    assert set(promised.split()) == set(dark)
    assert (dark["n"], dark["epoch"], dark["coverage"]) == (30, 3, 0.9)
    assert "epoch" not in summary["by_subgroup"]["light"]


def test_the_total_counts_everybody_and_fairness_only_the_named(blocks, predictions):
    summary = summarise(blocks, LABELS, ["dark", "medium", "light"])
    drawn = [predictions(i, n, 3) for i, n in enumerate(SIZES.values())]
    labels = np.concatenate([labels for _, labels in drawn])
    predicted = np.concatenate([probabilities for probabilities, _ in drawn]).argmax(axis=1)
    assert summary["n"] == 185
    malignant = int(MALIGNANT[labels].sum())
    assert (summary["n_malignant"], summary["n_other"]) == (malignant, 185 - malignant)
    assert summary["accuracy"] == pytest.approx(sk.accuracy_score(labels, predicted))
    named = {name: blocks[name].point for name in ("dark", "medium", "light")}
    assert summary["fairness"]["variance"] == pytest.approx(float(variance(named)))
    assert summary["by_subgroup"]["undeclared"]["n"] == 20


def test_figures_per_class(blocks, predictions):
    summary = summarise(blocks, LABELS, [])
    drawn = [predictions(i, n, 3) for i, n in enumerate(SIZES.values())]
    labels = np.concatenate([labels for _, labels in drawn])
    predicted = np.concatenate([probabilities for probabilities, _ in drawn]).argmax(axis=1)
    recall = sk.recall_score(labels, predicted, labels=[0, 1, 2], average=None)
    assert [summary["by_class"][label.code]["recall"] for label in LABELS] == pytest.approx(recall.tolist())
    assert [summary["by_class"][label.code]["n"] for label in LABELS] == np.bincount(labels).tolist()
    of_class = {"n", "recall", "precision", "f1", "specificity", "auroc", "auprc"}
    assert all(set(found) == of_class for found in summary["by_class"].values())


def test_every_figure_of_a_subgroup_has_an_interval(blocks):
    details = {"dark": {"coverage": 0.9, "intervals": {"coverage": [0.8, 0.95]}}}
    summary = summarise(blocks, LABELS, ["dark", "medium", "light"], details)
    for name, told in summary["by_subgroup"].items():
        figures = set(told) - {"n", "n_malignant", "n_other", "intervals"}
        assert figures == set(told["intervals"]), name
        for figure in figures:
            assert (told[figure] is None) == (told["intervals"][figure] is None), (name, figure)
    assert summary["by_subgroup"]["dark"]["intervals"]["coverage"] == [0.8, 0.95]
    assert "accuracy" in summary["by_subgroup"]["dark"]["intervals"]


def test_what_is_undefined_is_null_in_json_and_what_is_absent_is_named(blocks):
    empty = count(np.zeros((0, 3)), np.zeros(0, int), malignant=MALIGNANT)
    one_class = count(np.array([[0.2, 0.7, 0.1]]), np.array([1]), malignant=MALIGNANT)
    summary = summarise({"dark": empty, "light": one_class}, LABELS, ["dark", "medium", "light"])
    text = json.dumps(summary, allow_nan=False)
    assert json.loads(text) == summary
    assert summary["auroc"] is None
    assert summary["malignancy_auroc"] is None
    assert summary["fairness"]["spread"] is None
    assert summary["absent"] == ["dark", "medium"]
    assert list(summary["by_subgroup"]) == ["light"]
    assert summary["by_class"]["MEL"]["recall"] is None


def test_all_empty_is_a_summary_of_nothing():
    summary = summarise({"dark": Block(Counts.zeros(3))}, LABELS, ["dark"])
    assert (summary["n"], summary["accuracy"], summary["by_subgroup"]) == (0, None, {})


def test_what_cannot_be_summarised_is_refused(blocks):
    with pytest.raises(CountsError, match="nothing to summarise"):
        summarise({}, LABELS, [])
    with pytest.raises(CountsError, match="3 classes; 2 labels"):
        summarise(blocks, LABELS[:2], [])
