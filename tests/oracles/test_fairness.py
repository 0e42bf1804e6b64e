"""Figures over subgroups against fairlearn's MetricFrame, which sees every prediction."""

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame, false_positive_rate, true_positive_rate
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, recall_score

from registry.bundle.metrics import classification, fairness

SEEDS = given(seed=st.integers(0, 2**32), num_classes=st.integers(2, 5))
FEW = settings(max_examples=12, deadline=None)


def frame(metric, drawn, groups=None, **keywords):
    return MetricFrame(
        metrics=metric,
        y_true=drawn.labels,
        y_pred=drawn.answers,
        sensitive_features=drawn.groups if groups is None else groups,
        **keywords,
    )


def recall_of(k):
    def recall(y_true, y_pred):
        return recall_score(y_true, y_pred, labels=[k], average="macro")

    return recall


@SEEDS
@FEW
def test_accuracy_by_subgroup_and_its_spread_and_variance(cohort, seed, num_classes):
    drawn = cohort(seed, num_classes=num_classes)
    theirs = frame(accuracy_score, drawn)
    for name, counts in drawn.subgroups.items():
        assert classification.accuracy(counts) == pytest.approx(theirs.by_group[name])
    assert classification.accuracy(drawn.counts) == pytest.approx(theirs.overall)
    assert fairness.spread(drawn.subgroups) == pytest.approx(theirs.difference(method="between_groups"))
    assert fairness.variance(drawn.subgroups) == pytest.approx(theirs.by_group.var(ddof=0))
    each = [classification.accuracy(counts) for counts in drawn.subgroups.values()]
    assert min(each) == pytest.approx(theirs.group_min())
    assert min(each) / max(each) == pytest.approx(theirs.ratio(method="between_groups"))


@SEEDS
@FEW
def test_gap_and_worst_are_those_of_one_subgroup_against_the_rest(cohort, seed, num_classes):
    drawn = cohort(seed, num_classes=num_classes)
    names = list(drawn.subgroups)
    frames = [frame(accuracy_score, drawn, drawn.groups == name) for name in names]
    gaps = [one.difference(method="between_groups") for one in frames]
    worsts = [one.group_min() for one in frames]
    assert fairness.gap(drawn.subgroups) == pytest.approx(np.mean(gaps))
    assert fairness.worst(drawn.subgroups) == pytest.approx(np.mean(worsts))


@SEEDS
@FEW
def test_recalls_by_subgroup(cohort, seed, num_classes):
    drawn = cohort(seed, num_classes=num_classes)
    theirs = frame({str(k): recall_of(k) for k in range(num_classes)}, drawn).by_group
    balanced = frame(balanced_accuracy_score, drawn).by_group
    for name, counts in drawn.subgroups.items():
        np.testing.assert_allclose(classification.recalls(counts), theirs.loc[name].to_numpy(float))
        assert classification.balanced_accuracy(counts) == pytest.approx(balanced[name])


@given(seed=st.integers(0, 2**32))
@FEW
def test_recalls_of_two_classes_are_the_rates_of_equalised_odds(cohort, seed):
    drawn = cohort(seed, num_classes=2)
    rates = frame({"true": true_positive_rate, "false": false_positive_rate}, drawn).by_group
    for name, counts in drawn.subgroups.items():
        negative, positive = classification.recalls(counts)
        assert positive == pytest.approx(rates.loc[name, "true"])
        assert 1 - negative == pytest.approx(rates.loc[name, "false"])


@SEEDS
@FEW
def test_standardising_is_weighting_each_picture_by_how_its_class_is_over_represented(
    cohort, seed, num_classes
):
    """With the weight q_k / n_sk on pictures of class k in s, the weighted accuracy has the class mix q."""
    drawn = cohort(seed, num_classes=num_classes)
    q = np.bincount(drawn.labels, minlength=num_classes) / len(drawn.labels)
    weights = np.empty(len(drawn.labels))
    for name in drawn.subgroups:
        inside = drawn.groups == name
        held = np.bincount(drawn.labels[inside], minlength=num_classes)
        weights[inside] = (q / held)[drawn.labels[inside]]
    theirs = frame(accuracy_score, drawn, sample_params={"sample_weight": weights})
    np.testing.assert_allclose(
        fairness.standardised(drawn.subgroups, by_pictures=True), theirs.by_group.to_numpy(float)
    )
    assert fairness.spread_standardised(drawn.subgroups) == pytest.approx(
        theirs.difference(method="between_groups")
    )
