"""A manifest of a model that takes cases: its schema, and the rules for what is given."""

import pytest
from pydantic import ValidationError

from registry.bundle.cases import AGE, CaseInput, read_pattern
from registry.bundle.manifest import Abstention, Conformal, PatternCalibration, Temperature

CASE = CaseInput(slots=2, kinds=("close-up", "dermoscopic"), facts=(AGE,))
CLOSE_UP = PatternCalibration(
    pattern=read_pattern("close-up"),
    temperature=Temperature(value=1.5, n=60),
    conformal=Conformal(threshold_bin=30, n=60, guarantee="global"),
    abstention=Abstention(threshold_bin=200, n=60, risk=0.05),
    set_size=1.4,
    reported=0.7,
)


@pytest.fixture
def of_cases(manifest):
    def make(**changes):
        return manifest(**{"case": CASE, "patterns": (CLOSE_UP,), **changes})

    return make


def test_a_pattern_that_cannot_be_given_is_refused(of_cases):
    overview = CLOSE_UP.model_copy(update={"pattern": read_pattern("overview")})
    with pytest.raises(ValidationError, match="pattern overview is none that this model can be given"):
        of_cases(patterns=(overview,))
    with pytest.raises(ValidationError, match="pattern close-up is there twice"):
        of_cases(patterns=(CLOSE_UP, CLOSE_UP))


def test_the_rules_of_a_pattern_are_its_own(of_cases):
    under = of_cases().under(read_pattern("close-up"))
    assert (under.temperature, under.conformal, under.abstention) == (
        CLOSE_UP.temperature,
        CLOSE_UP.conformal,
        CLOSE_UP.abstention,
    )


def test_nothing_is_promised_for_a_pattern_without_rules(of_cases):
    whole = of_cases(conformal=Conformal(threshold_bin=10, n=100, guarantee="global"))
    under = whole.under(read_pattern("close-up+dermoscopic"))
    assert under.conformal.guarantee == "none"
    assert under.conformal.threshold_bin == 0
    assert under.abstention == whole.abstention
