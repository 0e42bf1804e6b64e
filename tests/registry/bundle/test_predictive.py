"""Predictive values of triage at a stated prevalence: by hand, whom they are given, and what is said."""

import json

import numpy as np
import pytest

from registry.bundle.decision import PredictiveValues, decide
from registry.bundle.labels import Subgroup
from registry.bundle.manifest import Conformal, KindMissed, Triage
from registry.bundle.score_bins import SCORE_BINS
from tests.thresholds import at_log_odds

DARK = Subgroup(name="dark", scale="fitzpatrick", values=("5", "6"))
FOR_DARK = Conformal(alpha=0.1, threshold_bin=at_log_odds(-1.5), n=412, guarantee="subgroup")
RULES = Triage(
    missed=0.1,
    false_alarms=0.1,
    level=0.95,
    ruled_out_below=at_log_odds(-1.0),
    kinds=(KindMissed(kind="Melanoma", n=90, missed=2, high=0.068),),
    ruled_out_low=0.2,
    missed_high=0.08,
    urgent_from=at_log_odds(1.0),
    n_other=200,
    false_alarms_seen=10,
    false_alarms_high=0.09,
    urgent_low=0.45,
)


@pytest.mark.parametrize(
    ("changes", "prevalence", "negative", "positive"),
    [
        ({}, 0.08, 0.2 * 0.92 / (0.2 * 0.92 + 0.08 * 0.08), 0.45 * 0.08 / (0.45 * 0.08 + 0.09 * 0.92)),
        ({}, 0.5, 0.2 / 0.28, 0.45 / 0.54),
        ({"ruled_out_below": 0}, 0.5, None, 0.45 / 0.54),
        ({"urgent_from": SCORE_BINS}, 0.5, 0.2 / 0.28, None),
        ({"ruled_out_low": 0.0, "missed_high": 0.0, "urgent_low": 0.0}, 0.5, 0.0, 0.0),
    ],
)
def test_values_are_those_of_the_formula(changes, prevalence, negative, positive):
    found = PredictiveValues.of(RULES.model_copy(update=changes), prevalence)
    assert found.negative == (None if negative is None else pytest.approx(negative))
    assert found.positive == (None if positive is None else pytest.approx(positive))


def test_it_is_said_with_what_is_assumed():
    assert PredictiveValues.of(RULES, 0.08).words == (
        "Where 8 % of lesions are malignant, as was stated for this place, at least 96.6 % of those ruled "
        "out are not malignant and at least 30.3 % of urgent ones are malignant. Lesions of each class are "
        "assumed to look as in calibration."
    )
    nothing = RULES.model_copy(update={"ruled_out_below": 0, "urgent_from": SCORE_BINS})
    assert "stated for this place, nothing is predicted. Lesions" in PredictiveValues.of(nothing, 0.08).words


@pytest.mark.parametrize(
    ("parts", "tone", "prevalence", "given"),
    [
        ({}, "5", {"dark": 0.08}, True),
        ({}, "5", {"light": 0.08}, False),  # none stated for this tone
        ({}, "5", None, False),
        ({}, None, {"dark": 0.08}, False),  # no tone was declared
        ({}, "1", {"dark": 0.08}, False),  # not calibrated for this one
        ({"conformal": Conformal()}, "5", {"dark": 0.08}, False),  # nothing is guaranteed
        ({"subgroup": Subgroup(), "conformal": Conformal()}, None, {"global": 0.08}, False),
    ],
)
def test_only_a_declared_tone_with_a_guarantee_and_a_prevalence_has_them(
    manifest, parts, tone, prevalence, given
):
    made = manifest(**{"subgroup": DARK, "conformal": FOR_DARK, "triage": RULES, **parts})
    scale = "fitzpatrick" if tone else None
    decided = decide(
        np.array([0.05, 0.9, 0.05]), made, skin_tone=tone, skin_tone_scale=scale, prevalence=prevalence
    )
    found = decided.to_json()["triage_evidence"]["predictive"]
    assert json.loads(json.dumps(found)) == found
    assert (found is not None) == given
    if given:
        assert set(found) == {"prevalence", "negative", "positive", "words"}
        assert (found["prevalence"], found["negative"]) == (0.08, pytest.approx(0.9664, abs=1e-4))
