"""The stage `probe`: both figures of an encoder against scikit-learn's, and a model that nobody touched."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from training.algorithms.client import KEPT, ClientFeatures
from training.models import initial_model
from training.models.classifier import float_state
from training.rounds.client import embed

PROBE = {"stage": "probe", "rounds": 3}
PRETRAIN = {
    "stage": "pretrain",
    "rounds": 1,
    "objective": {"name": "simclr", "batch_size": 6},
    "aggregator": {"name": "fedavg"},
}
FULL_BATCHES = {
    "name": "supervised",
    "sampling": "uniform",
    "batch_size": 1000,
    "optimizer": {"name": "sgd", "lr": 1.0, "momentum": 0.9, "state": "keep"},
}
ALONE = {"alone": (300, 2, 2, 200)}


@pytest.fixture
def make_job(begun_job):
    """Jobs whose encoder begins with weights from a file, and that probe it unless they say otherwise."""
    return lambda **changes: begun_job(**{"stages": [PROBE], **changes})


@pytest.fixture
def make_dataset(make_dataset):
    """`make_dataset(sizes, unseen=())`: pictures of one subgroup alone, so many in each split, by client."""

    def build(sizes, unseen=()):
        data = make_dataset({name: {"light": counts} for name, counts in sizes.items()})
        return replace(data, subgroups=("light",), unseen=unseen)

    return build


@pytest.fixture
def drawn_features(monkeypatch):
    """`drawn_features(shift)`: in place of an encoder's, 32 numbers of noise, some moved by the class."""

    def draw(shift):
        def made(local_model, images, rows, *given):
            rng = np.random.default_rng(int(images.sum()))
            malignant = (rows % 3 == 0)[:, None]
            noise = rng.normal(0, 1, (len(rows), 32))
            return ClientFeatures((noise + shift * malignant * (np.arange(32) < 4)).astype(np.float16), rows)

        monkeypatch.setattr(embed, "make_features", made)

    return draw


def plain(weights):
    return {name: tensor.numpy().tobytes() for name, tensor in weights.items()}


def facts_of(ran, key="0-probe"):
    return ran.result.stages[key].outcome.facts


def kept_of(ran, client, split):
    """The features that a client keeps, in double precision."""
    return ran.store.load(client, f"{KEPT}/0-probe/{split}", 1).tensors["features"].double().numpy()


def normalised(features):
    apart = features - features.mean(axis=1, keepdims=True)
    return apart / np.sqrt(features.var(axis=1, keepdims=True) + 1e-5)


def test_the_model_is_the_same_to_the_byte(make_job, run_job):
    job = make_job(stages=[PRETRAIN, PROBE])
    ran = run_job(job)
    assert plain(ran.weights("1-probe")) == plain(ran.weights("0-pretrain"))
    first = run_job(make_job(), out=ran.out / "first")
    initial = float_state(initial_model(job.model, job.seed, 16, 2))
    assert plain(first.weights("0-probe")) == plain(initial)


def test_the_linear_probe_of_one_client_is_logistic_regression(
    make_job, make_dataset, run_job, drawn_features
):
    drawn_features(0.7)
    data = make_dataset(ALONE)
    probe = {"stage": "probe", "rounds": 150, "objective": FULL_BATCHES, "neighbours": None}
    ran = run_job(make_job(stages=[probe]), data)
    train, test = (normalised(kept_of(ran, "alone", split)) for split in ("train", "test"))
    labels = {split: data.examples("alone", split).labels for split in ("train", "test")}
    exact = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000).fit(train, labels["train"])
    least = log_loss(labels["train"], exact.predict_proba(train))
    assert 0.1 < least < 0.6, "neither separable nor without a trace"
    assert ran.lines[-1]["loss"] == pytest.approx(least, abs=1e-4)
    found = facts_of(ran)["linear"]
    assert found["accuracy"] == exact.score(test, labels["test"])
    scores = exact.predict_proba(test)[:, 1]
    assert found["malignancy_auroc"] == pytest.approx(roc_auc_score(labels["test"], scores), abs=0.01)
    assert "neighbours" not in facts_of(ran)


def test_neighbours_of_one_client_are_scikit_learns(make_job, make_dataset, run_job, drawn_features):
    drawn_features(0.7)
    data = make_dataset(ALONE)
    ran = run_job(make_job(stages=[{**PROBE, "neighbours": 15, "temperature": 0.2}]), data)
    nearest = KNeighborsClassifier(
        15, metric="cosine", algorithm="brute", weights=lambda far: np.exp((1 - far) / 0.2)
    )
    labels = {split: data.examples("alone", split).labels for split in ("train", "test")}
    nearest.fit(kept_of(ran, "alone", "train"), labels["train"])
    shown = kept_of(ran, "alone", "test")
    found = facts_of(ran)["neighbours"]
    assert found["n"] == 200
    assert found["accuracy"] == nearest.score(shown, labels["test"])
    scores = nearest.predict_proba(shown)[:, 1]
    assert found["malignancy_auroc"] == pytest.approx(roc_auc_score(labels["test"], scores), abs=0.01)


def test_an_encoder_that_sees_the_class_is_told_from_one_that_does_not(
    make_job, make_dataset, run_job, drawn_features, tmp_path
):
    data = make_dataset(dict.fromkeys(("north", "south"), (90, 3, 3, 90)))
    found = {}
    for shift in (0, 3):
        drawn_features(shift)
        ran = run_job(make_job(stages=[{**PROBE, "rounds": 20}]), data, out=tmp_path / f"{shift}")
        found[shift] = {name: facts_of(ran)[name]["malignancy_auroc"] for name in ("linear", "neighbours")}
    for name in ("linear", "neighbours"):
        assert 0.35 < found[0][name] < 0.65
        assert found[3][name] > 0.97


def test_both_figures_are_judged_as_a_final_test_is(make_job, run_job):
    ran = run_job(make_job(evaluation={"intersections": []}))
    facts, summary = facts_of(ran), ran.result.summary
    (stage,) = summary["stages"]
    assert stage["facts"]["linear"] == stage["test"] == summary["test"]
    for figures in (facts["linear"], facts["neighbours"]):
        assert figures["n"] == 20
        assert figures["by_subgroup"].keys() == {"light", "dark", "undeclared"}
        assert {
            "malignancy_auroc",
            "malignant_sensitivity",
            "malignant_specificity",
            "macro_f1",
        } <= figures.keys()
        assert None not in figures["intervals"]["accuracy"]
        assert "not_counted" not in figures
    assert facts["by_client"].keys() == {"north", "south", "west"}


def test_pictures_whose_hospital_may_not_answer_are_said_to_be_missing(
    make_job, make_dataset, run_job, tmp_path
):
    data = make_dataset({"many": (30, 5, 5, 9), "few": (4, 5, 5, 9)})
    facts = facts_of(run_job(make_job(privacy={"min_count": 5}), data))
    assert facts["linear"]["n"] == 18
    assert facts["neighbours"]["n"] == 9
    nobody = facts_of(run_job(make_job(privacy={"min_count": 30}), data, out=tmp_path / "nobody"))
    assert nobody["linear"] is nobody["neighbours"] is None
    assert facts["neighbours"]["not_counted"] == {"light": {"counted": 9, "held": 18}}


def test_only_the_linear_layer_travels(make_job, run_job):
    ran = run_job(make_job())
    layer = 4 * (2 * 32 + 2)
    for line in ran.lines:
        assert (line["bytes_up"], line["bytes_down"]) == (3 * layer, 3 * layer)


def test_sums_under_masks_are_the_counts_of_all(make_job, run_job, tmp_path):
    apart, masked = (
        run_job(make_job(privacy={"counts": {"masks": masks}}), out=tmp_path / f"{masks}")
        for masks in (False, True)
    )
    for name in ("linear", "neighbours"):
        assert facts_of(masked)[name] == facts_of(apart)[name]
    assert "by_client" not in facts_of(masked)


def test_clients_that_take_no_part_are_judged_by_the_linear_probe(make_job, make_dataset, run_job):
    data = make_dataset({"north": (20, 5, 5, 9), "away": (0, 0, 0, 12)}, unseen=("away",))
    ran = run_job(make_job(), data)
    facts = facts_of(ran)
    assert facts["unseen"]["away"]["n"] == 12
    assert facts["linear"]["n"] == facts["neighbours"]["n"] == 9


def test_what_follows_is_trained_and_exported_on_the_model_that_came(make_job, run_job):
    ran = run_job(make_job(stages=[PRETRAIN, PROBE, {"stage": "export"}]))
    exported = ran.result.stages["2-export"].outcome
    assert plain(exported.models["global"]) == plain(ran.weights("0-pretrain"))
    untrained = ran.result.summary["stages"][2]["test"]
    assert untrained["malignancy_auroc"] == 0.5, "the head is of zeros, whatever the probe's layer is"
