"""The report of the field: what versions promise, and what is known of which."""

import math

import numpy as np
import pytest

from registry.bundle.manifest import Conformal
from registry.outcomes.monitoring import field_report, promises
from registry.outcomes.records import Outcome
from registry.outcomes.store import OutcomeStore
from tests.registry.kept_answers import FIRST, kept_answer

WHERE = "sensitivity_at_threshold"


def figures(low):
    row = {"n": 50, WHERE: low + 0.05, "intervals": {WHERE: [low, low + 0.1]}}
    return {"n": 50, "by_subgroup": {"dark": row}, **row}


def conformal(guarantee="subgroup", n=99, alpha=0.1):
    return Conformal(alpha=alpha, threshold_bin=0 if guarantee == "none" else 20, n=n, guarantee=guarantee)


def test_the_lower_end_of_the_test_is_promised_and_the_coverage_that_sets_are_sure_of(bundle, dark):
    sensitivity, coverage = promises(bundle(dark, figures(0.8), conformal=conformal()).manifest, "dark")
    assert (sensitivity.what, sensitivity.least) == ("sensitivity", 0.8)
    assert coverage.what == "coverage"
    assert 0.8 < coverage.least < 0.9


def test_to_whom_nothing_is_promised_nothing_is(bundle, dark):
    everybody = bundle(metrics=figures(0.8)).manifest
    assert [one.what for one in promises(everybody, "dark")] == ["sensitivity"]
    assert promises(everybody, "light") == ()  # it was not tested on them
    assert promises(None, "dark") == ()


def test_sets_that_are_full_promise_no_coverage(bundle, dark):
    manifest = bundle(dark, figures(0.8), conformal=conformal("none")).manifest
    assert [one.what for one in promises(manifest, "dark")] == ["sensitivity"]


@pytest.mark.parametrize("n", [30, 99, 400])
def test_but_for_one_in_forty_calibrations_cover_what_is_promised(bundle, dark, n):
    (coverage,) = promises(bundle(dark, conformal=conformal(n=n)).manifest, "dark")
    scores = np.sort(np.random.default_rng(n).random((4000, n)), axis=1)
    covered = scores[:, math.ceil((n + 1) * 0.9) - 1]  # of uniform scores, the threshold is the coverage
    assert 0.015 < (covered < coverage.least).mean() < 0.035
    assert (covered < 0.9).mean() > 0.3  # what the sets aim at, so many miss


@pytest.fixture
def store(tmp_path):
    with OutcomeStore.open(f"sqlite:///{tmp_path / 'outcomes.db'}") as opened:
        yield opened


def test_a_model_without_a_working_point_is_told_no_sensitivity_and_no_specificity(store):
    answer = kept_answer(side="none", malignancy=0.0, label="NV")
    store.record([answer])
    store.give([Outcome(answer.id, "NV", "follow-up", FIRST)], "k1", FIRST)
    (one,) = field_report(store, "demo", lambda number: None)
    told = one.figures
    assert (told.answered, told.confirmed) == (1, 1)
    for figure in (told.sensitivity, told.specificity, told.seen_specificity):
        assert np.isnan(figure.value)
