import json
from datetime import UTC, datetime
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.counts.counting import count
from registry.bundle.labels import Label, Subgroup
from registry.bundle.manifest import Abstention, Conformal, Temperature
from registry.bundle.metrics.summary import summarise
from registry.records import Release, Version
from registry.views.card import Entry, card_json, expected_coverage, release_card
from registry.views.card_page import card_page
from tests.represented import patients_of
from tests.thresholds import at_log_odds

NAMES = {
    "card_schema", "model", "version", "digest", "registered", "subgroup", "intended_use", "how_to_use",
    "labels",
    "picture", "data", "metrics", "intervals", "by_subgroup", "by_class", "fairness", "differences",
    "intersections", "calibration", "out_of_distribution", "limits", "not_understood", "file", "lineage",
    "measured_by", "tones",
}  # fmt: skip

METRICS = {
    "n": 90,
    "accuracy": 0.8,
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


def limits_of(bundle, **parts):
    return " ".join(card_json(bundle(**parts).manifest)["limits"])


def test_a_card_has_every_name_and_is_json(bundle):
    made = bundle(metrics=METRICS)
    card = card_json(made.manifest)
    assert set(card) == NAMES
    assert json.loads(json.dumps(card, allow_nan=False)) == card
    assert card["card_schema"] == 1
    assert (card["version"], card["registered"]) == (None, None)
    assert card["digest"] == made.digest
    assert card["file"]["sha256"] == made.manifest.file.sha256


def test_figures_are_those_of_the_bundle(bundle):
    card = card_json(bundle(metrics=METRICS).manifest)
    assert card["metrics"] == {"n": 90, "accuracy": 0.8, "ece": 0.05}
    assert card["intervals"] == METRICS["intervals"]
    for part in ("by_subgroup", "by_class", "fairness", "differences", "intersections"):
        assert card[part] == METRICS[part]
    assert card["data"] == {
        "clients": {}, "trained": None, "trained_at_least": None, "calibrated": 0, "tested": 90,
        "tested_by_subgroup": {"light": 60, "dark": 25, "undeclared": 5}, "absent": ["medium"],
    }  # fmt: skip
    assert card["not_understood"] == []


def test_what_is_unknown_or_too_small_is_said(bundle):
    said = limits_of(bundle, metrics=METRICS)
    assert "of the subgroups dark (25), undeclared (5)" in said
    assert "of the diseases MEL (12), AK (0)" in said
    assert "No test pictures of medium" in said
    assert "5 test pictures of undeclared skin tone" in said
    assert "calibrated on no pictures" in said
    assert "promise no coverage" in said
    assert "refers every picture" in said
    assert "does not notice pictures unlike" in said
    for unsaid in (
        "No figures by sex",
        "No test of differences",
        "No figure has an interval",
        "not understood",
    ):
        assert unsaid not in said


def test_what_a_run_writes_is_understood(bundle):
    """The test block of `summary.json`, as `summarise` makes it."""
    rng = np.random.default_rng(0)
    malignant = np.array([True, False, False])
    blocks = {
        name: count(rng.dirichlet(np.ones(3), size=n), rng.integers(0, 3, size=n), malignant=malignant)
        for name, n in {"dark": 12, "light": 40, "undeclared": 5}.items()
    }
    labels = (
        Label(code="MEL", name="Melanoma", malignancy="malignant"),
        *(Label(code=code, name=code) for code in ("NV", "AK")),
    )
    summary = summarise(blocks, labels, ["dark", "light", "medium"])
    card = card_json(bundle(labels=labels, metrics=summary).manifest)
    assert card["not_understood"] == []
    assert set(card["by_subgroup"]) == {"dark", "light", "undeclared"}
    page = card_page(release_card([Entry.of_bundle(bundle(labels=labels, metrics=summary))]))
    for part in ("dark − light", "Sensitivity, malignant", "Melanoma (MEL)", "Spread, one mix of diseases"):
        assert part in page


def test_a_bundle_without_figures_says_so(bundle):
    assert "no test figures: how well it answers is unknown" in limits_of(bundle, metrics={})
    said = limits_of(bundle, metrics={"n": 3, "accuracy": 0.5})
    for part in (
        "no figures by subgroup",
        "No figures by sex",
        "No test of differences",
        "No figure has an",
    ):
        assert part in said


def test_a_calibrated_model_tells_how_to_use_its_answers(bundle, dark):
    labels = (
        Label(code="MEL", name="Melanoma", malignancy="malignant"),
        Label(code="NV", name="Naevus", malignancy="benign"),
        Label(code="AK", name="Keratosis", malignancy="premalignant"),
    )
    card = card_json(
        bundle(
            dark,
            labels=labels,
            conformal=Conformal(alpha=0.05, threshold_bin=at_log_odds(-1.5), n=39, guarantee="subgroup"),
            abstention=Abstention(target_risk=0.1, threshold_bin=at_log_odds(0.5), n=80, risk=0.0625),
            temperature=Temperature(value=1.3, n=80, shrunk=True),
        ).manifest
    )
    use = card["how_to_use"]
    assert "at least 0.622" in use["report"]
    assert "80 pictures" in use["report"]
    assert "6.2 % of those reported were wrong; at most 10 % were allowed" in use["report"]
    assert "below 0.622" in use["refer"]
    assert "at least 95 % of lesions, for the skin tones it is for" in use["prediction_set"]
    assert use["malignancy"].startswith("The summed probability of Melanoma. Keratosis")
    assert card["calibration"]["confidence_threshold"] == pytest.approx(1 / (1 + exp(-0.5)))
    assert card["calibration"]["set_threshold"] == pytest.approx(1 / (1 + exp(1.5)))
    assert card["calibration"]["expected_coverage"] == pytest.approx(38 / 40)
    assert "fitzpatrick is 4, 5, 6" in card["intended_use"]["population"]
    assert any("other or undeclared skin tones" in one for one in card["intended_use"]["not_for"])
    assert "only 80 pictures" in " ".join(card["limits"])


@pytest.mark.parametrize(
    ("low", "reached", "said"),
    [
        (0.953, True, "(with 95 % confidence, chosen on 80 of them)"),
        (0.861, False, "(with 95 % confidence, chosen on 80 of them, too few to show the 95 % that"),
    ],
)
def test_a_model_with_a_working_point_tells_what_it_promises(bundle, low, reached, said):
    point = {"target": 0.95, "level": 0.95, "threshold_bin": at_log_odds(-1.5), "n": 80}
    labels = (Label(code="MEL", name="m", malignancy="malignant"), Label(code="NV", name="n"))
    card = card_json(
        bundle(labels=labels, working_point={**point, "sensitivity_low": low, "reached": reached}).manifest
    )
    use = card["how_to_use"]["malignancy"]
    assert f"From 0.182 on a lesion is suspicious: at least {100 * low:.1f} % of malignant lesions are" in use
    assert said in use


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
    assert [(one["version"], one["digest"]) for one in card["versions"]] == [
        (3, bundles[0].digest),
        (4, bundles[1].digest),
    ]
    assert card["versions"][0]["registered"] == "2026-01-02T00:00:00+00:00"
    # Dark is answered by its own version: 0.9 - 0.84, where the global one alone would have 0.2.
    assert card["served"]["value"] == pytest.approx(0.06)
    assert card["served"]["worst"]["subgroup"] == "dark"
    assert release_card(entries[1:])["served"] is None


NUMBERS = (
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats(allow_nan=False, allow_infinity=False)
)
ANY = st.recursive(
    NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ROW = st.dictionaries(st.sampled_from(["n", "accuracy", "ece", "x"]), ANY, max_size=4) | ANY
ROWS = st.dictionaries(st.sampled_from(["light", "dark", "MEL", "undeclared"]), ROW, max_size=3) | ANY
INTERVALS = st.dictionaries(st.sampled_from(["accuracy", "spread"]), ANY, max_size=2) | ANY
FORMS = st.fixed_dictionaries(
    {},
    optional={
        "n": ANY,
        "accuracy": ANY,
        "intervals": INTERVALS,
        "by_subgroup": ROWS,
        "by_class": ROWS,
        "fairness": ROW,
        "absent": ANY,
        "differences": st.lists(
            st.fixed_dictionaries(
                {"between": st.just(["a", "b"]), "figure": st.just("x")}, optional={"p": ANY}
            )
            | ANY,
            max_size=2,
        )
        | ANY,
        "intersections": st.dictionaries(st.text(max_size=3), ROWS | st.dictionaries(st.just("f"), ROWS))
        | ANY,
    },
)


@given(FORMS)
@settings(max_examples=150)
def test_figures_in_any_form_give_a_card_and_a_page(bundle, metrics):
    entry = Entry.of_bundle(bundle(metrics=metrics))
    card = release_card([entry])
    json.dumps(card, allow_nan=False)
    assert "<h1>skin-lesion</h1>" in card_page(card)


def test_a_card_says_which_tones_of_a_subgroup_it_has_seen(bundle):
    four = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "VI"))
    card = card_json(bundle(four, patients_by_tone=patients_of(four, 12, without="6")).manifest)
    assert [(one["tone"], one["calibration"], one["test"]) for one in card["tones"]] == [
        ("3", 12, 12),
        ("4", 12, 12),
        ("5", 12, 12),
        ("6", None, None),
    ]
    use = card["intended_use"]
    assert use["population"] == "People whose declared skin tone on the scale fitzpatrick is 3, 4, 5."
    not_six = "Not for skin tone 6 (fitzpatrick): too few patients of it, or none, were in the calibration."
    assert not_six in use["not_for"]
    page = card_page(
        release_card([Entry(bundle(four, patients_by_tone=None).manifest, "sha256:" + "0" * 64)])
    )
    assert "too few to tell" in page
    whole = card_json(bundle(four).manifest)["intended_use"]
    assert "3, 4, 5, VI" in whole["population"]
    assert not any("too few patients" in sentence for sentence in whole["not_for"])
