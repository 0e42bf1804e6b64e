"""The card as JSON: what it says of a bundle, what is unknown, and whether anything is wrong."""

import json
from datetime import UTC, datetime
from math import exp

import pytest

from registry.bundle.conclusions import Conclusions
from registry.bundle.labels import Label, Subgroup
from registry.bundle.manifest import Conformal, Temperature
from registry.records import Release, Version
from registry.views.card import Entry, entry_json, expected_coverage, release_card, standing
from registry.views.card_page import card_page
from tests.represented import patients_of
from tests.thresholds import at_log_odds, concluding

NAMES = {
    "card_schema", "model", "version", "digest", "registered", "subgroup", "intended_use", "how_to_use",
    "labels", "picture", "data", "metrics", "intervals", "by_subgroup", "by_class", "fairness",
    "differences", "intersections", "calibration", "out_of_distribution", "limits", "file",
    "lineage", "measured_by", "tones", "kinds",
}  # fmt: skip

METRICS = {
    "n": 90,
    "accuracy": 76 / 90,
    "ece": 0.05,
    "intervals": {"accuracy": [0.7, 0.9], "ece": None},
    "by_subgroup": {
        "light": {"n": 60, "accuracy": 0.9, "intervals": {"accuracy": [0.8, 0.95]}},
        "dark": {"n": 25, "accuracy": 0.7, "intervals": {"accuracy": [0.5, 0.85]}},
        "undeclared": {"n": 5, "accuracy": 0.6},
    },
    "by_class": {
        "MEL": {"n": 12, "recall": 0.5}, "NV": {"n": 78, "recall": 0.9}, "AK": {"n": 0, "recall": None}
    },
    "fairness": {"spread": 0.2, "intervals": {"spread": [0.02, 0.4]}},
    "differences": [
        {"between": ["dark", "light"], "figure": "accuracy_standardised", "value": -0.2,
         "interval": [-0.4, -0.02], "p": 0.03, "p_adjusted": 0.03}
    ],
    "intersections": {"sex": {"female": {"dark": {"n": 40, "accuracy": 0.75}, "light": None}}},
    "absent": ["medium"],
}  # fmt: skip
PARTS = ("by_subgroup", "by_class", "fairness", "differences", "intersections", "intervals")
SURE = {
    "conformal": Conformal(alpha=0.1, threshold_bin=at_log_odds(-1.5), n=412, guarantee="global"),
    "conclusions": concluding(0.25),
}
LABELS = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
    Label(code="AK", name="Keratosis", malignancy="premalignant"),
)


def card_of(made):
    return entry_json(Entry.of_bundle(made))


def test_a_card_has_every_name_and_the_figures_of_its_bundle(bundle):
    made = bundle(metrics=METRICS)
    card = card_of(made)
    assert set(card) == NAMES
    assert json.loads(json.dumps(card, allow_nan=False)) == card
    assert (card["card_schema"], card["version"], card["registered"]) == (1, None, None)
    assert (card["digest"], card["file"]["sha256"]) == (made.digest, made.manifest.file.sha256)
    metrics = made.manifest.metrics
    assert (card["metrics"]["n"], card["metrics"]["accuracy"], card["metrics"]["ece"]) == (90, 76 / 90, 0.05)
    assert {part: card[part] for part in PARTS} == {part: metrics[part] for part in PARTS}
    assert card["data"] == {
        "clients": {}, "trained": None, "trained_at_least": None, "calibrated": 0, "tested": 90,
        "tested_by_subgroup": {"light": 60, "dark": 25, "undeclared": 5}, "absent": ["medium"],
    }  # fmt: skip


UNKNOWN_PARTS = ("No figures by sex", "No test of differences", "No figure has an interval")


@pytest.mark.parametrize(
    ("parts", "said", "unsaid"),
    [
        (
            {"metrics": METRICS},
            [
                "of the subgroups dark (25), undeclared (5).", "of the diseases MEL (12), AK (0).",
                "No test pictures of medium", "5 test pictures of undeclared skin tone", "Intervals are of",
                "calibrated on no pictures", "promise no coverage", "refers every picture", "Maps of where",
                "does not notice pictures unlike",
            ],
            [*UNKNOWN_PARTS, "not understood", "holds no"],
        ),
        ({"metrics": {}}, ["no test figures: how well"], ["No figure has an", "by subgroup: "]),
        ({"metrics": {"n": 3, "accuracy": 0.5}}, ["no figures by subgroup", *UNKNOWN_PARTS], ["Fewer than"]),
        ({"temperature": Temperature(value=1.3, n=80, shrunk=True)}, ["on only 80 pictures"], ["on no "]),
        (SURE | {"basis": "cross-fitted"}, ["guarantees are cross-fitted"], ["refers every", "promise no"]),
        (SURE, [], ["cross-fitted"]),
    ],
)  # fmt: skip
def test_what_is_unknown_or_too_small_is_said(bundle, parts, said, unsaid):
    limits = " ".join(card_of(bundle(**parts))["limits"])
    assert [one for one in said if one not in limits] == []
    assert [one for one in unsaid if one in limits] == []


def test_a_calibrated_model_tells_how_to_use_its_answers(bundle, dark):
    made = bundle(
        dark,
        labels=LABELS,
        conformal=Conformal(alpha=0.05, threshold_bin=at_log_odds(-1.5), n=39, guarantee="subgroup"),
        conclusions=concluding(0.5),
    )
    card = card_of(made)
    use, calibration = card["how_to_use"], card["calibration"]
    for part, said in (
        (
            "report",
            "Melanoma from 0.622 on, wrong of 3 of 102 calibration lesions, at most 7.5 % of new ones",
        ),
        ("report", "At most 10 % of each conclusion may be wrong (with 95 % confidence"),
        ("refer", "No conclusion is sure enough"),
        ("prediction_set", "at least 95 % of lesions, for the skin tones it is for"),
        ("malignancy", "The summed probability of Melanoma. Keratosis: not malignant for certain"),
        ("unfamiliar", "is answered like any other."),
    ):
        assert said in use[part]
    assert calibration["set_threshold"] == pytest.approx(1 / (1 + exp(1.5)))
    assert calibration["expected_coverage"] == pytest.approx(38 / 40)
    assert "fitzpatrick is 4, 5, 6" in card["intended_use"]["population"]
    assert any("other or undeclared skin tones" in one for one in card["intended_use"]["not_for"])


@pytest.mark.parametrize(
    ("parts", "report", "refer"),
    [
        ({}, "It never reports.", "Every picture is referred"),
        (SURE, "from 0.562 on, wrong of 3 of 102", "No conclusion is sure enough"),
    ],
)
def test_when_an_answer_is_reported_and_when_referred(bundle, parts, report, refer):
    use = card_of(bundle(**parts))["how_to_use"]
    assert report in use["report"]
    assert refer in use["refer"]


@pytest.mark.parametrize(
    ("low", "reached", "said"), [(0.953, True, ")"), (0.861, False, ", too few to show")]
)
def test_a_model_with_a_working_point_tells_what_it_promises(bundle, low, reached, said):
    point = {"target": 0.95, "level": 0.95, "threshold_bin": at_log_odds(-1.5), "n": 80}
    made = bundle(labels=LABELS, working_point={**point, "sensitivity_low": low, "reached": reached})
    use = card_of(made)["how_to_use"]["malignancy"]
    assert f"From 0.182 on a lesion is suspicious: at least {100 * low:.1f} % of malignant lesions are" in use
    assert f"(with 95 % confidence, chosen on 80 of them{said}" in use


@pytest.mark.parametrize(("alpha", "n", "rank"), [(0.1, 25, 24), (0.1, 9, 9), (0.2, 10, 9), (0.05, 19, 19)])
def test_expected_coverage_by_hand(alpha, n, rank):
    """ceil((n + 1)(1 - alpha)): 23.4, 9, 8.8 and 19."""
    found = expected_coverage(Conformal(alpha=alpha, threshold_bin=1, n=n, guarantee="global"))
    assert found == pytest.approx(rank / (n + 1))


def test_the_card_of_a_release_holds_one_of_each_version(bundle, dark):
    bundles = [bundle(metrics=METRICS), bundle(dark, {"by_subgroup": {"dark": {"n": 25, "accuracy": 0.84}}})]
    added = datetime(2026, 1, 2, tzinfo=UTC)
    versions = [
        Version("skin-lesion", number, one.digest, one.manifest.subgroup, added)
        for number, one in enumerate(bundles, start=3)
    ]
    entries = [Entry.of(version, one.manifest) for version, one in zip(versions, bundles, strict=True)]
    card = release_card(entries, release=Release(7, "skin-lesion", tuple(versions)), alias="production")
    assert (card["name"], card["release"], card["alias"]) == ("skin-lesion", 7, "production")
    assert [one["version"] for one in card["versions"]] == [3, 4]
    assert card["versions"][0]["registered"] == "2026-01-02T00:00:00+00:00"
    # Dark is answered by its own version: 0.9 - 0.84, where the global one alone would have 0.2.
    assert (card["served"]["value"], card["served"]["worst"]["subgroup"]) == (pytest.approx(0.06), "dark")
    assert release_card(entries[1:])["served"] is None


def test_a_card_says_which_tones_of_a_subgroup_it_has_seen(bundle):
    four = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "VI"))
    card = card_of(bundle(four, patients_by_tone=patients_of(four, 12, without="6")))
    seen = [(one["tone"], one["calibration"], one["test"]) for one in card["tones"]]
    assert seen == [("3", 12, 12), ("4", 12, 12), ("5", 12, 12), ("6", None, None)]
    use = card["intended_use"]
    assert use["population"] == "People whose declared skin tone on the scale fitzpatrick is 3, 4, 5."
    assert any(one.startswith("Not for skin tone 6 (fitzpatrick): too few") for one in use["not_for"])
    unseen = bundle(four, patients_by_tone=None)
    assert card_of(unseen)["intended_use"]["population"].startswith("Nobody")
    assert "too few to tell" in card_page(release_card([Entry.of_bundle(unseen)]))
    assert not any("too few patients" in one for one in card_of(bundle(four))["intended_use"]["not_for"])


def metrics_of(**rows):
    return {"n": 800, "accuracy": 0.8, "by_subgroup": rows}


GOOD = {"metrics": metrics_of(light={"n": 400, "accuracy": 0.9}, dark={"n": 400, "accuracy": 0.8}), **SURE}


@pytest.fixture
def card(bundle):
    """The card of one bundle, given by the parts of its manifest and what is known of it."""

    def made(parts, **known):
        one = bundle(**parts)
        return release_card([Entry(one.manifest, one.digest, **known)])

    return made


def test_nothing_wrong_is_said_in_a_sentence(card):
    found = standing(card(GOOD))
    assert (found.level, found.sentence, found.matters) == ("fine", "Nothing is known to be wrong.", ())


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"metrics": {}}, "Without test figures"),
        ({"conclusions": Conclusions()}, "never reports"),
        ({"conformal": Conformal(alpha=0.1, threshold_bin=0, n=3, guarantee="none")}, "promise nothing"),
        ({"metrics": {**GOOD["metrics"], "absent": ["medium"]}}, "Never tested on medium."),
        ({"metrics": metrics_of(dark={"n": 29}, light={"n": 30})}, "30 test pictures of dark (29):"),
    ],
)
def test_what_has_to_be_known_is_said_with_what_to_do(card, parts, said):
    found = standing(card({**GOOD, **parts}))
    assert (found.level, found.sentence) == (
        "look",
        "Nothing is broken. One thing to know before relying on it.",
    )
    (matter,) = found.matters
    assert said in matter.text
    assert matter.todo.endswith(".")


def test_what_is_wrong_comes_first(card):
    made = card({**GOOD, "metrics": {}}, withdrawn="Withdrawn on a day: harm", alarms=("alarm 1: broken",))
    found = standing(made)
    assert (found.level, found.sentence) == ("wrong", "Something is wrong: 2 things to act on.")
    assert [one.wrong for one in found.matters] == [True, True, False]
    assert found.matters[1].text == "Alarm 1: broken."
    assert made["versions"][0]["limits"][:2] == [
        "Withdrawn on a day: harm. This version must not answer any more.",
        "alarm 1: broken.",
    ]
    assert {"alarms", "withdrawn"}.isdisjoint(card(GOOD)["versions"][0])
