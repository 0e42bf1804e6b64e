""""""

import json

import numpy as np
import pytest
from sklearn import metrics as sk

from registry.bundle.counting import count
from registry.bundle.errors import CountsError
from registry.bundle.labels import Label
from registry.bundle.metrics.fairness import variance
from registry.bundle.metrics.summary import FEWEST, intersections, over_clients, summarise

LABELS = [
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
    Label(code="DF", name="Dermatofibroma", malignancy="benign"),
]
MALIGNANT = np.array([True, False, False])
SIZES = {"dark": 30, "medium": 80, "light": 55, "undeclared": 20}


@pytest.fixture
def drawn(predictions):
    """Probabilities and labels of each subgroup."""
    return {name: predictions(i, n, 3) for i, (name, n) in enumerate(SIZES.items())}


@pytest.fixture
def blocks(drawn):
    return {name: count(*given, malignant=MALIGNANT) for name, given in drawn.items()}


@pytest.fixture
def truth(drawn):
    """Labels and answers of all pictures."""
    probabilities, labels = (np.concatenate(each) for each in zip(*drawn.values(), strict=True))
    return labels, probabilities.argmax(axis=1)


def test_the_total_counts_everybody_and_fairness_only_the_named(blocks, truth):
    summary = summarise(blocks, LABELS, ["dark", "medium", "light"])
    labels, predicted = truth
    assert summary["n"] == 185
    malignant = int(MALIGNANT[labels].sum())
    assert (summary["n_malignant"], summary["n_other"]) == (malignant, 185 - malignant)
    assert summary["accuracy"] == pytest.approx(sk.accuracy_score(labels, predicted))
    named = {name: blocks[name].point for name in ("dark", "medium", "light")}
    assert summary["fairness"]["variance"] == pytest.approx(float(variance(named)))
    assert summary["by_subgroup"]["undeclared"]["n"] == 20


def test_figures_per_class(blocks, truth):
    summary = summarise(blocks, LABELS, [])
    labels, predicted = truth
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


def test_what_is_undefined_is_null_in_json_and_what_is_absent_is_named():
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


def test_what_cannot_be_summarised_is_refused(blocks):
    with pytest.raises(CountsError, match="nothing to summarise"):
        summarise({}, LABELS, [])
    with pytest.raises(CountsError, match="3 classes; 2 labels"):
        summarise(blocks, LABELS[:2], [])


def answered(right, wrong, confidence=0.75):
    """Two classes; pictures of the first come first, each answered at one confidence.

    `right` and `wrong` hold how many pictures of each class were answered so.
    """
    labels, answers = [], []
    for k in (0, 1):
        labels += [k] * (right[k] + wrong[k])
        answers += [k] * right[k] + [1 - k] * wrong[k]
    probabilities = np.full((len(labels), 2), 1 - confidence)
    probabilities[np.arange(len(labels)), np.array(answers, dtype=int)] = confidence
    return count(probabilities, np.array(labels, dtype=int), malignant=np.array([True, False]))


# Accuracies 0.5, 0.8 and 0.95.
THREE = {
    "a": answered((1, 1), (1, 1)),
    "b": answered((4, 4), (1, 1)),
    "c": answered((10, 9), (0, 1)),
}


def test_median_and_deviation_are_those_of_the_clients():
    told = over_clients(THREE)["over_clients"]["accuracy"]
    assert told["mean"] == pytest.approx(0.75)
    assert told["median"] == pytest.approx(0.8)
    # Deviations -0.25, 0.05 and 0.2: (0.0625 + 0.0025 + 0.04) / 3 = 0.035.
    assert told["std"] == pytest.approx(0.035**0.5)
    assert told["clients"] == 3
    assert told["interval"][0] < 0.75 < told["interval"][1]
    assert [row["n"] for row in over_clients(THREE)["by_client"].values()] == [4, 10, 20]


def test_what_a_client_cannot_tell_is_left_out_and_counted():
    metrics = over_clients({**THREE, "one class": answered((3, 0), (1, 0))})
    assert metrics["by_client"]["one class"]["auroc"] is None
    mean = metrics["over_clients"]["auroc"]
    assert mean["clients"] == 3
    assert mean["mean"] == pytest.approx(over_clients(THREE)["over_clients"]["auroc"]["mean"])


def test_without_clients_nothing_is_known():
    told = over_clients({}, {"north": ["a"]}, ["mel", "nv"])
    assert told["by_client"] == {}
    assert told["by_community"] == {}
    unknown = {"mean": None, "median": None, "std": None, "interval": None, "clients": 0}
    assert told["over_clients"]["macro_f1"] == unknown
    unknown = dict.fromkeys(("recall", "precision", "f1", "auroc", "auprc"))
    assert told["by_class"]["mel"] == {"clients": 0, **unknown}


def test_a_community_counts_each_of_its_clients_once():
    communities = {"isic": ["c", "a", "not judged"], "pad": ["b"], "gone": ["nobody"]}
    told = over_clients(THREE, communities)["by_community"]
    assert list(told) == ["isic", "pad"]
    assert told["isic"]["clients"] == ["c", "a"]
    assert told["isic"]["n"] == 24
    assert told["isic"]["accuracy"] == pytest.approx((0.5 + 0.95) / 2)
    assert told["pad"]["accuracy"] == pytest.approx(0.8)


def test_a_class_is_averaged_over_the_clients_that_have_it():
    # North: 6 of 8 of class 0 and 1 of 2 of class 1 right. South has class 0 alone, 1 of 4 right.
    told = over_clients(
        {"north": answered((6, 1), (2, 1)), "south": answered((1, 0), (3, 0))}, codes=["x", "y"]
    )
    x, y = told["by_class"]["x"], told["by_class"]["y"]
    assert (x["clients"], y["clients"]) == (2, 1)
    assert x["recall"] == pytest.approx((6 / 8 + 1 / 4) / 2)
    assert x["precision"] == pytest.approx((6 / 7 + 1) / 2)
    assert x["f1"] == pytest.approx((12 / 15 + 2 / 5) / 2)
    assert y["recall"] == pytest.approx(1 / 2)
    assert y["precision"] == pytest.approx(1 / 3)
    assert y["f1"] == pytest.approx(2 / 5)
    # South has pictures of one class alone, so it defines no curve: these are north's.
    north = np.repeat([1, 0], [8, 2]), np.array([0.75] * 6 + [0.25] * 2 + [0.25] + [0.75])
    assert x["auroc"] == pytest.approx(sk.roc_auc_score(*north))
    assert x["auprc"] is None  # of 8 pictures


CELL_MALIGNANT, CELL_LABELS = MALIGNANT[:2], LABELS[:2]


@pytest.fixture
def cell_blocks(predictions):
    """Dark: 90 pictures, of which the first 40 are women's; light: 50, of which 20 are."""
    made = {}
    for name, n, women in (("dark", 90, 40), ("light", 50, 20)):
        first = np.arange(n) < women
        parts = {("sex", "female"): first, ("sex", "male"): ~first, ("age", "under 40"): first}
        made[name] = count(*predictions(n, n, 2), malignant=CELL_MALIGNANT, parts=parts)
    return made


def told(cell_blocks, known):
    return intersections(cell_blocks, ["dark", "light", "absent"], CELL_MALIGNANT, known)


def test_figures_are_those_of_the_pictures_that_share_the_trait(cell_blocks, predictions):
    probabilities, labels = predictions(90, 90, 2)
    answers = probabilities.argmax(axis=1)[:40]
    women = told(cell_blocks, {"sex": ()})["sex"]["female"]["dark"]
    assert women["n"] == 40
    assert women["accuracy"] == pytest.approx((answers == labels[:40]).mean())
    assert women["malignant_sensitivity"] == pytest.approx((answers[labels[:40] == 0] == 0).mean())
    assert set(women["intervals"]) == {"accuracy", "balanced_accuracy", "malignant_sensitivity"}
    low, high = women["intervals"]["accuracy"]
    assert low < women["accuracy"] < high


def test_few_and_none_are_unknown(cell_blocks):
    assert FEWEST == 30
    by_sex = told(cell_blocks, {"sex": ()})["sex"]
    assert by_sex["female"]["light"] is None  # 20 pictures
    assert by_sex["male"]["light"]["n"] == 30
    assert by_sex["male"]["absent"] is None


def test_a_summary_tells_them_where_they_were_asked_for(cell_blocks):
    assert "intersections" not in summarise(cell_blocks, CELL_LABELS, ["dark", "light"])
    summary = summarise(cell_blocks, CELL_LABELS, ["dark", "light"], traits={"sex": ()})
    assert list(summary["intersections"]["sex"]["male"]) == ["dark", "light"]
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
