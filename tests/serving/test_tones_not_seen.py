"""A subgroup of four tones that has seen three: what somebody of the fourth is told, wherever it is read."""

import pytest

from registry.bundle.labels import Subgroup
from tests.represented import patients_of

FOUR = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "6"))
NO_GUARANTEE = (
    "There is no guarantee for skin tone 6 (fitzpatrick): too few patients of it, or none, were in the "
    "calibration."
)
WHY = (
    "Too few patients of skin tone 6 (fitzpatrick), or none, were in the calibration: version 1, which is "
    "for everybody, answered."
)


@pytest.fixture
def serving(serve, registry, promote, bundle):
    """Serves a release of everybody and of four tones, the last of which has too few patients or enough."""

    def start(*, seen):
        counted = patients_of(FOUR, without=() if seen else "6")
        promote(registry, bundle(), bundle(FOUR, patients_by_tone=counted))
        return serve()

    return start


def test_a_tone_that_was_not_seen_is_promised_nothing(serving, picture):
    with serving(seen=False) as service:
        for tone in ("VI", "6"):
            told = service.diagnose(picture(), params={"skin_tone": tone}).json()
            assert (told["model"]["subgroup"], told["model"]["route"]) == ("global", "unknown-tone")
            assert told["reasons"][-1] == {"code": "tone-not-represented", "text": WHY}
            assert NO_GUARANTEE in told["warnings"]
            assert told["prediction_set"]["guarantee"] == "global"
        five = service.diagnose(picture(), params={"skin_tone": "V"}).json()
        assert (five["model"]["subgroup"], five["model"]["route"]) == ("medium-dark", "declared")
        (listed,) = service.client.get("/v1/models").json()["models"]
        assert [one["skin_tones"] for one in listed["versions"]] == [[], ["3", "4", "5"]]


def test_with_patients_enough_it_is_its_own_subgroups(serving, picture):
    """The control: the same release, with patients of type VI behind it."""
    with serving(seen=True) as service:
        told = service.diagnose(picture(), params={"skin_tone": "VI"}).json()
        assert (told["model"]["subgroup"], told["model"]["route"]) == ("medium-dark", "declared")
        assert told["reasons"][-1]["code"] == "declared"
        assert NO_GUARANTEE not in told["warnings"]
        assert told["prediction_set"]["guarantee"] == "subgroup"
        (listed,) = service.client.get("/v1/models").json()["models"]
        assert listed["versions"][1]["skin_tones"] == ["3", "4", "5", "6"]
