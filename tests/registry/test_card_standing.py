"""The first screen of a card: whether anything is wrong, and the figures that are asked for first."""

import pytest

from registry.bundle.manifest import Abstention, Conformal
from registry.views.card import Entry, release_card, standing
from tests.thresholds import at_log_odds

SURE = {
    "conformal": Conformal(alpha=0.1, threshold_bin=at_log_odds(-1.5), n=412, guarantee="global"),
    "abstention": Abstention(target_risk=0.1, threshold_bin=at_log_odds(0.25), n=412, risk=0.08),
}


def figures(sensitivity, n=400, **others):
    ends = [round(sensitivity - 0.1, 3), round(sensitivity + 0.05, 3)]
    return {
        "n": n,
        "accuracy": 0.8,
        "malignant_sensitivity": sensitivity,
        "malignant_specificity": 0.7,
        "malignancy_auroc": 0.85,
        "auroc": 0.81,
        "intervals": {"malignant_sensitivity": ends},
        **others,
    }


def metrics(**rows):
    return {"n": 800, "accuracy": 0.8, "by_subgroup": rows}


@pytest.fixture
def card(bundle):
    """The card of bundles, each given by the parts of its manifest."""

    def made(*parts, **known):
        entries = [Entry.of_bundle(bundle(**{**SURE, **one})) for one in parts]
        return release_card([Entry(one.manifest, one.digest, **known) for one in entries])

    return made


GOOD = {"metrics": metrics(light=figures(0.9), dark=figures(0.8))}


def test_nothing_wrong_is_said_in_a_sentence(card):
    found = standing(card(GOOD))
    assert (found.level, found.sentence, found.matters) == ("fine", "Nothing is known to be wrong.", ())


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"metrics": {}}, "Without test figures"),
        ({"abstention": Abstention(target_risk=0.1, threshold_bin=320, n=412, risk=None)}, "never reports"),
        ({"conformal": Conformal(alpha=0.1, threshold_bin=0, n=3, guarantee="none")}, "promise nothing"),
        ({"metrics": {**GOOD["metrics"], "absent": ["medium"]}}, "Never tested on medium."),
        ({"metrics": metrics(dark=figures(0.8, n=29))}, "Fewer than 30 test pictures of dark (29)"),
    ],
)
def test_what_has_to_be_known_is_said_with_what_to_do(card, parts, said):
    found = standing(card({**GOOD, **parts}))
    assert found.level == "look"
    assert found.sentence.startswith("Nothing is broken. ")
    (matter,) = [one for one in found.matters if said in one.text]
    assert matter.todo.endswith(".")


def test_what_is_wrong_comes_first(card):
    found = standing(card({**GOOD, "metrics": {}}, withdrawn="Withdrawn on a day: it harms"))
    assert found.level == "wrong"
    assert found.sentence == "Something is wrong: one thing to act on."
    assert [one.wrong for one in found.matters] == [True, False]


def test_an_open_alarm_is_wrong_and_among_the_limits(card):
    made = card(GOOD, alarms=("alarm 1: version 1 broke its promise to dark",))
    (matter,) = standing(made).matters
    assert (matter.text, matter.wrong) == ("Alarm 1: version 1 broke its promise to dark.", True)
    assert "alarm 1: version 1 broke its promise to dark." in made["versions"][0]["limits"]
    assert "alarms" not in card(GOOD)["versions"][0]
