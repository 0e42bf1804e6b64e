"""Attack: whoever edits `bundle.json` lifts a figure and computes the digest anew; `add` refuses each."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.manifest import BundleManifest, ModelFile, canonical
from registry.bundle.metrics.intervals import clopper_pearson
from registry.errors import BundleRefused
from registry.releases.validate_bundle import check_bundle
from tests.measured import FIVE, TWO, blocks_of, manifest_of

pytestmark = pytest.mark.sqlite  # nothing here depends on the database
SIZES = {"light": 120, "dark": 50, "undeclared": 20}
Record = dict[str, Any]


@pytest.fixture(scope="module")
def honest(graph) -> dict[str, tuple[Record, bytes]]:
    """The manifests of models of two classes and of five, as plain records, and a graph for each."""
    found = {}
    for name, labels, smallest in (("two", TWO, 5), ("five", FIVE, 5), ("unmerged", FIVE, 1)):
        model = graph(classes=len(labels))
        blocks = blocks_of(np.random.default_rng(7), labels, SIZES, smallest=smallest)
        manifest = manifest_of(blocks, labels, smallest=smallest, file=ModelFile.of(model))
        found[name] = (json.loads(canonical(manifest)), model)
    return found


def bundle_of(record: Record, model: bytes) -> Bundle:
    manifest = BundleManifest.model_validate(record)
    return Bundle(manifest, model, bundle_digest(manifest))


def lift(row: Record, name: str, n: int, by: int) -> None:
    """So many pictures more are right, and the interval fits."""
    row[name] = (round(row[name] * n) + by) / n
    row["intervals"][name] = list(clopper_pearson(row[name] * n, n))


def dark(record: Record) -> Record:
    return record["metrics"]["by_subgroup"]["dark"]


def sensitivity(record: Record) -> None:
    lift(dark(record), "malignant_sensitivity", dark(record)["n_malignant"], 5)


def sensitivity_everywhere(record: Record) -> None:
    for row in (dark(record), record["metrics"]):
        lift(row, "malignant_sensitivity", row["n_malignant"], 5)


def accuracy(record: Record) -> None:
    lift(dark(record), "accuracy", dark(record)["n"], 9)


def accuracy_everywhere(record: Record) -> None:
    for row in (dark(record), record["metrics"]):
        lift(row, "accuracy", row["n"], 9)


def malignant_pictures(record: Record) -> None:
    """More malignant pictures than were tested, found as often: `required_subgroups` asks for them."""
    row, n = dark(record), dark(record)["n_malignant"]
    found = round(row["malignant_sensitivity"] * n) + 10
    row |= {"n_malignant": n + 10, "n_other": row["n_other"] - 10, "malignant_sensitivity": found / (n + 10)}
    cleared = min(round(row["malignant_specificity"] * (row["n_other"] + 10)), row["n_other"])
    row["malignant_specificity"] = cleared / row["n_other"]
    for name in ("sensitivity_at_threshold", "specificity_at_threshold"):
        row[name] = 1.0
    row["intervals"] = {}


def pictures(record: Record) -> None:
    record["metrics"]["n"] += 10
    record["metrics"]["n_other"] += 10


def half_a_picture(record: Record) -> None:
    dark(record)["n"] = 99.5


def recall(record: Record) -> None:
    row = record["metrics"]["by_class"]["MEL"]
    row["recall"] = (round(row["recall"] * row["n"]) + 3) / row["n"]


def a_class_is_left_out(record: Record) -> None:
    del record["metrics"]["by_class"]["NV"]


def balanced(record: Record) -> None:
    row = dark(record)
    row["balanced_accuracy"] += 0.1
    row["intervals"]["balanced_accuracy"][1] = 0.99


def balanced_of_all(record: Record) -> None:
    record["metrics"]["balanced_accuracy"] += 0.05
    record["metrics"]["intervals"]["balanced_accuracy"] = [0.4, 0.99]


def auroc(record: Record) -> None:
    record["metrics"]["auroc"] = 0.97
    record["metrics"]["intervals"]["auroc"] = [0.9, 0.99]


def auroc_of_a_class(record: Record) -> None:
    for row in (record["metrics"]["by_class"]["MEL"], record["metrics"]["by_class"]["NV"]):
        row["auroc"] = 1.0
    rows = record["metrics"]["by_class"].values()
    record["metrics"]["auroc"] = float(np.mean([row["auroc"] for row in rows]))
    record["metrics"]["intervals"]["auroc"] = [0.4, 1.0]


def calibration(record: Record) -> None:
    dark(record)["ece"] = 0.001
    dark(record)["intervals"]["ece"] = [0.0, 0.2]


def coverage(record: Record) -> None:
    lift(dark(record), "coverage", dark(record)["n"], 100 - round(100 * dark(record)["coverage"]))


def answered(record: Record) -> None:
    """Everybody is said to be answered, of each subgroup and so of all."""
    rows = (record["metrics"], *record["metrics"]["by_subgroup"].values())
    for row in rows:
        row["reported"] = 1.0
        row["reported_risk"] = 0.0
        for name in ("reported", "reported_risk"):
            row["intervals"][name] = [0.0, 1.0]


def nobody_is_answered(record: Record) -> None:
    """So that the gate `risk` has nothing to judge."""
    for row in (record["metrics"], *record["metrics"]["by_subgroup"].values()):
        row |= {"reported": 0.0, "reported_risk": None}
        row["intervals"] |= {"reported": [0.0, 1.0], "reported_risk": None}
    record["working_point"] = None


def risk(record: Record) -> None:
    dark(record)["reported_risk"] = 0.0
    dark(record)["intervals"]["reported_risk"] = [0.0, 0.9]


def caught(record: Record) -> None:
    row = dark(record)
    row["sensitivity_at_threshold"] = 1.0
    row["intervals"]["sensitivity_at_threshold"] = list(
        clopper_pearson(row["n_malignant"], row["n_malignant"])
    )


def caught_everywhere(record: Record) -> None:
    """Of each subgroup and of all, and specificity with it: the histogram of malignancy contradicts."""
    for row in (record["metrics"], *record["metrics"]["by_subgroup"].values()):
        for name in ("sensitivity_at_threshold", "specificity_at_threshold"):
            row[name] = 1.0 if name.startswith("sens") else 0.0
            row["intervals"][name] = [0.0, 1.0]


def sets(record: Record) -> None:
    for row in (record["metrics"], *record["metrics"]["by_subgroup"].values()):
        row["set_size"] = 1.0
        row["intervals"]["set_size"] = [0.9, 1.1]


def spread(record: Record) -> None:
    record["metrics"]["fairness"]["spread"] = 0.0
    record["metrics"]["fairness"]["intervals"]["spread"] = [0.0, 0.2]


def spread_limits(record: Record) -> None:
    record["metrics"]["fairness"]["intervals"]["spread"][1] -= 0.05


def difference(record: Record) -> None:
    record["metrics"]["differences"][0]["value"] = 0.9


def narrow(record: Record) -> None:
    row = dark(record)
    row["intervals"]["malignant_sensitivity"] = [row["malignant_sensitivity"] - 0.01] * 2
    row["intervals"]["malignant_sensitivity"][1] += 0.02


def elsewhere(record: Record) -> None:
    dark(record)["intervals"]["accuracy"] = [0.97, 0.99]


def beyond(record: Record) -> None:
    dark(record)["intervals"]["accuracy"] = [0.1, 1.2]


def histogram(record: Record) -> None:
    given = record["reference"]["by_subgroup"][1]
    given["right"] = given["confidence"]


def histograms_and_accuracy(record: Record) -> None:
    histogram(record)
    dark(record)["accuracy"] = 1.0
    dark(record)["intervals"]["accuracy"] = list(clopper_pearson(100, 100))


def histogram_sum(record: Record) -> None:
    record["reference"]["confidence"][200] += 7


def negative(record: Record) -> None:
    counts = record["reference"]["scores"][0]
    counts[3] -= 900
    counts[4] += 900


def left_out(record: Record) -> None:
    """The subgroup served worst is in no row any more."""
    del record["metrics"]["by_subgroup"]["dark"]
    kept = [one for one in record["reference"]["by_subgroup"] if one["subgroup"]["name"] != "dark"]
    record["reference"]["by_subgroup"] = kept


def never_missed(record: Record) -> None:
    record["working_point"] |= {"target": 0.99, "sensitivity_low": 0.995}


ATTACKS: list[tuple[Callable[[Record], None], str, str]] = [
    (sensitivity, "two", "malignant_sensitivity"),
    (sensitivity, "five", "metrics.malignant_sensitivity"),
    (sensitivity_everywhere, "two", "malignant_sensitivity"),
    (sensitivity_everywhere, "five", "malignant_sensitivity"),
    (accuracy, "five", "metrics.accuracy"),
    (accuracy_everywhere, "five", "metrics.accuracy"),
    (malignant_pictures, "five", "n_malignant"),
    (pictures, "five", "metrics."),
    (half_a_picture, "five", "metrics.by_subgroup.dark.n "),
    (recall, "five", "metrics."),
    (a_class_is_left_out, "five", "metrics.by_class"),
    (balanced, "two", "metrics.by_subgroup.dark.balanced_accuracy"),
    (balanced_of_all, "five", "metrics.balanced_accuracy"),
    (auroc, "five", "metrics.auroc"),
    (auroc_of_a_class, "five", "metrics.by_class"),
    (calibration, "five", "metrics.by_subgroup.dark.ece"),
    (coverage, "five", "metrics.coverage"),
    (answered, "five", "reported"),
    (nobody_is_answered, "five", "reported"),
    (risk, "five", "reported_risk"),
    (caught, "five", "sensitivity_at_threshold"),
    (caught_everywhere, "five", "sensitivity_at_threshold"),
    (sets, "unmerged", "set_size"),
    (spread, "five", "metrics.fairness.spread"),
    (spread_limits, "five", "metrics.fairness.intervals.spread"),
    (difference, "five", "metrics.differences.0.value"),
    (narrow, "five", "metrics.by_subgroup.dark.intervals.malignant_sensitivity"),
    (elsewhere, "five", "metrics.by_subgroup.dark.accuracy"),
    (beyond, "five", "metrics.by_subgroup.dark.intervals.accuracy"),
    (histogram, "five", "metrics.by_subgroup.dark.accuracy"),
    (histograms_and_accuracy, "five", "accuracy"),
    (histogram_sum, "five", "reference.confidence"),
    (negative, "five", "reference.scores.0"),
    (left_out, "five", "metrics.n "),
    (never_missed, "five", "working_point.sensitivity_low"),
]


@pytest.mark.parametrize("name", ["two", "five"])
def test_what_was_measured_is_taken(honest, name):
    record, model = honest[name]
    assert check_bundle(bundle_of(record, model)) == canonical(BundleManifest.model_validate(record))


@pytest.mark.parametrize(
    ("attack", "name", "figure"), ATTACKS, ids=[f"{one.__name__}-{name}" for one, name, _ in ATTACKS]
)
def test_a_lifted_figure_is_refused_and_named(honest, attack, name, figure):
    record, model = honest[name]
    record = json.loads(json.dumps(record))
    attack(record)
    with pytest.raises(BundleRefused) as refused:
        check_bundle(bundle_of(record, model))
    said = str(refused.value)
    assert f"{figure}" in said
    assert " says " in said
    assert said.endswith("Add the bundle as the run wrote it, or test the model anew")


def test_nothing_of_it_is_kept(registry, honest, folders):
    record, model = honest["five"]
    record = json.loads(json.dumps(record))
    sensitivity_everywhere(record)
    with pytest.raises(BundleRefused, match="figures that cannot be right"):
        registry.add_folders(folders(bundle_of(record, model)))
    assert registry.versions() == ()
