import numpy as np
import pytest
from sklearn import metrics as sk

from registry.bundle.counts import count
from registry.bundle.metrics.over_clients import over_clients

MALIGNANT = np.array([True, False, False])


@pytest.fixture
def drawn(predictions):
    return {name: predictions(i, n, 3) for i, (name, n) in enumerate({"north": 60, "south": 20}.items())}


@pytest.fixture
def blocks(drawn):
    return {
        name: count(*pair, malignant=MALIGNANT, replicates=40, seed=i)
        for i, (name, pair) in enumerate(drawn.items())
    }


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
    alone = count(probabilities[one_class], labels[one_class], malignant=MALIGNANT, replicates=40, seed=9)
    figures = over_clients({"north": blocks["north"], "south": alone})
    assert figures["by_client"]["south"]["auroc"] is None
    assert figures["over_clients"]["auroc"]["clients"] == 1
    assert figures["over_clients"]["auroc"]["mean"] == figures["by_client"]["north"]["auroc"]


def test_without_replicates_there_is_no_interval(drawn):
    plain = {name: count(*pair, malignant=MALIGNANT, replicates=0, seed=0) for name, pair in drawn.items()}
    assert over_clients(plain)["over_clients"]["accuracy"]["interval"] is None
