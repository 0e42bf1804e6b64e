import numpy as np
import pytest
from sklearn import metrics as sk

from registry.bundle.counts.counting import count
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.metrics.summary import over_clients

MALIGNANT = np.array([True, False, False])


@pytest.fixture
def drawn(predictions):
    return {name: predictions(i, n, 3) for i, (name, n) in enumerate({"north": 60, "south": 20}.items())}


@pytest.fixture
def blocks(drawn):
    return {name: count(*pair, malignant=MALIGNANT) for name, pair in drawn.items()}


def test_a_mean_over_clients_counts_every_client_once(drawn, blocks):
    figures = over_clients(blocks)
    recalls = [
        sk.balanced_accuracy_score(labels, probabilities.argmax(axis=1))
        for probabilities, labels in drawn.values()
    ]
    own = [row["balanced_accuracy"] for row in figures["by_client"].values()]
    assert own == pytest.approx(recalls)
    assert [row["n"] for row in figures["by_client"].values()] == [60, 20]
    mean = figures["over_clients"]["balanced_accuracy"]
    assert mean["mean"] == pytest.approx(sum(recalls) / 2)
    assert mean["clients"] == 2
    low, high = mean["interval"]
    assert low < mean["mean"] < high


def test_what_a_client_cannot_tell_is_left_out_and_counted(drawn, blocks):
    probabilities, labels = drawn["south"]
    one_class = labels == labels[0]
    alone = count(probabilities[one_class], labels[one_class], malignant=MALIGNANT)
    figures = over_clients({"north": blocks["north"], "south": alone})
    assert figures["by_client"]["south"]["auroc"] is None
    assert figures["over_clients"]["auroc"]["clients"] == 1
    assert figures["over_clients"]["auroc"]["mean"] == figures["by_client"]["north"]["auroc"]


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


def test_figures_of_calibration_and_curves_are_told_of_every_client():
    own = over_clients(THREE)["by_client"]
    middle = LOGIT_BINS.middles[LOGIT_BINS.bin(0.75)]
    # All answers have one confidence, 0.75 (or the middle of its bin): one bin holds them all.
    for name, accuracy in (("a", 0.5), ("b", 0.8), ("c", 0.95)):
        assert own[name]["ece"] == pytest.approx(abs(accuracy - middle))
        assert own[name]["mce"] == pytest.approx(abs(accuracy - middle))
        assert own[name]["aurc"] == pytest.approx(1 - accuracy)
    assert own["b"]["auprc"] is None  # of 5 pictures a class


def test_without_clients_nothing_is_known():
    told = over_clients({}, {"north": ["a"]}, ["mel", "nv"])
    assert told["by_client"] == {}
    assert told["by_community"] == {}
    unknown = {"mean": None, "median": None, "std": None, "interval": None, "clients": 0}
    assert told["over_clients"]["macro_f1"] == unknown
    assert told["by_class"]["mel"] == {
        "clients": 0,
        "recall": None,
        "precision": None,
        "f1": None,
        "auroc": None,
        "auprc": None,
    }


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
