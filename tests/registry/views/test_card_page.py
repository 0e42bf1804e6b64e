"""The card as a page: everything that the JSON says, escaped, and nothing from elsewhere."""

import re
from importlib.resources import files

import pytest

from registry.bundle.labels import Coding, Label, kinds_of
from registry.bundle.manifest import Conformal, KindMissed, Lineage, Temperature, Triage
from registry.records import Release, Version
from registry.views.card import Entry, release_card
from registry.views.card_page import by_kind, card_page, cell, figure, interval, key_figures, version_in_short
from registry.views.tables import Cell, draw
from tests.contrast import contrast
from tests.measured import of_kind
from tests.thresholds import at_log_odds, concluding

EVIL = '"><script>alert("x")</script>&'


def row(n, accuracy):
    return {"n": n, "accuracy": accuracy, "intervals": {"accuracy": [accuracy - 0.1, accuracy + 0.05]}}


def metrics_of(name="dark"):
    difference = {"between": [name, "light"], "figure": "accuracy_standardised", "value": -0.2}
    return {
        **row(90, 0.8),
        "by_subgroup": {"light": row(60, 0.9), name: row(20, 0.7)},
        "fairness": {"spread": 0.2, "intervals": {"spread": [0.02, 0.4]}},
        "differences": [{**difference, "interval": [-0.4, 0]}],
        "intersections": {name: {"female": {name: row(40, 0.75), "light": None}}},
        "absent": [name],
    }


@pytest.fixture(scope="module")
def release(bundle, dark):
    """The card of a release of two versions."""
    calibrated = {
        "conformal": Conformal(alpha=0.1, threshold_bin=at_log_odds(-1.5), n=60, guarantee="global"),
        "conclusions": concluding(0.5),
        "temperature": Temperature(value=1.2, n=80),
    }
    bundles = [bundle(metrics=metrics_of(), **calibrated), bundle(dark, metrics=metrics_of())]
    versions = [
        Version("skin-lesion", number, one.digest, one.manifest.subgroup, None)
        for number, one in enumerate(bundles, start=1)
    ]
    entries = [Entry.of(version, one.manifest) for version, one in zip(versions, bundles, strict=True)]
    return release_card(entries, release=Release(7, "skin-lesion", tuple(versions)), alias="production")


def test_the_page_says_what_the_card_says(release):
    text = card_page(release)
    for version in release["versions"]:
        use = [*version["intended_use"]["not_for"], *version["how_to_use"].values()]
        for said in (version["digest"], version["lineage"]["job"], *version["limits"], *use):
            assert said in text
    for part in (
        "Release 7, production",
        "0.900 <small>(0.800 to 0.950)</small>",
        "20 <small>few</small>",
        "too few to tell",
        "dark − light",
        "−0.200 <small>(−0.400 to 0.000)</small>",
        "90.2 %",  # ceil(61 * 0.9) / 61
        "accuracy is highest for light, 0.900 on 60 pictures",
        "<small>best accuracy minus worst</small>",
        "all together",
    ):
        assert part in text


def test_what_all_versions_have_alike_is_said_once(release):
    first, second = release["versions"]
    other = {**release, "versions": [first, {**second, "labels": second["labels"][:2]}]}
    assert [card_page(one).count("<caption>What it answers with") for one in (release, other)] == [1, 2]


def test_the_page_loads_nothing_and_runs_nothing(release):
    text = card_page(release)
    for part in ("<script", "http:", "https:", "//", "@import", "url(", "onload", "<img", "<link"):
        assert part not in text


def test_whatever_is_in_a_bundle_is_escaped(bundle, tones):
    coding = Coding(system=EVIL, code=EVIL, display=EVIL)
    labels = (
        Label(code=EVIL, name=EVIL, malignancy="malignant", codings=(coding,)),
        Label(code="b", name="b"),
    )
    lineage = Lineage(
        job="sha256:" + "0" * 64, recipe=EVIL, data={EVIL: EVIL}, seed=0, code_version=EVIL, created=EVIL
    )
    evil = {"labels": labels, "lineage": lineage, "metrics": {**metrics_of(EVIL), EVIL: 0.5}}
    for subgroup in (None, tones(EVIL, EVIL, scale="x" + EVIL)):
        text = card_page(release_card([Entry.of_bundle(bundle(subgroup, model=EVIL, **evil))], alias=EVIL))
        assert "<script" not in text
        assert text.count("&lt;script&gt;") >= 20


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.12345, "0.123"), (0.00046, "0.00046"), (0.001, "0.001"), (0, "0.000"), (-0.2, "−0.200"),
     (None, "unknown")],
)  # fmt: skip
def test_a_figure_in_words(value, text):
    assert figure(value) == text


def test_a_cell_has_its_interval_or_why_there_is_no_value():
    found = {"n_malignant": 0, "n_other": 5, "malignant_specificity": 0.5, "intervals": {"x": [0.1, 0.2]}}
    assert cell({"x": 0.15, **found}, "x") == Cell("0.150", "(0.100 to 0.200)")
    assert cell(found, "malignant_sensitivity") == Cell("no malignant pictures")
    assert interval(None) == ""


KINDS = (
    Label(code="MEL", name="Melanoma", malignancy="malignant", kind="melanoma and others"),
    Label(code="BCC", name="Basal", malignancy="malignant"),
    Label(code="SCC", name="Squamous", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
)


def test_sensitivity_stands_by_kind_wherever_it_stands(bundle):
    kinds = {"melanoma and others": of_kind(28, found=20, ruled_out=1), "Basal": of_kind(80, found=79)}
    rows = {"dark": {"n": 200, "malignant_sensitivity": 0.9, "by_kind": kinds}}
    made = bundle(metrics={"n": 200, "by_subgroup": rows}, labels=KINDS)
    card = release_card([Entry.of_bundle(made)])
    said = [(one.head, *map(str, one.cells)) for one in key_figures(card["versions"]).rows[1:]]
    assert said == [
        ("dark: melanoma and others", "0.714 (0.513 to 0.868)", "28 (few)"),
        ("dark: Basal", "0.988 (0.932 to 1.000)", "80"),
        ("dark: Squamous", "too few to tell", "too few to tell"),
    ]
    assert [(one.head, str(one.cells[2])) for one in by_kind(card["versions"][0]).rows] == [
        ("dark: melanoma and others", "0.036 (0.00090 to 0.183)"),
        ("dark: Basal", ""),
        ("dark: Squamous", "too few to tell"),
    ]
    assert "dark: melanoma and others" in card_page(card)


TRIAGE = Triage(
    missed=0.1,
    false_alarms=0.1,
    level=0.95,
    ruled_out_below=at_log_odds(-1.5),
    kinds=tuple(KindMissed(kind=one, n=90, missed=2, high=0.0684) for one in kinds_of(KINDS)),
    urgent_from=at_log_odds(1.5),
)


@pytest.mark.parametrize(
    ("triage", "said"),
    [
        (None, "It does not say who has to be seen first, and rules nothing out."),
        (TRIAGE, "Basal 2 of 90, at most 6.8 %; Squamous"),
        (TRIAGE, "Ruled out below 0.182, where no skin tone is declared: of each kind"),
        (TRIAGE, "Urgent from 0.818 of malignancy on: at most 10 % of lesions"),
        (TRIAGE.nothing_ruled_out.model_copy(update={"kinds": ()}), "Missed in calibration: too few to tell"),
        (TRIAGE.nothing_ruled_out, "Nothing is ruled out: of each kind"),
    ],
)
def test_a_card_says_what_triage_promises(bundle, triage, said):
    card = release_card([Entry.of_bundle(bundle(labels=KINDS, triage=triage))])
    assert said in card["versions"][0]["how_to_use"]["triage"]


def test_each_skin_tone_is_shown_with_the_version_that_answers_for_it(release):
    everybody, dark = release["versions"]
    rows = {"light": {"n": 9, "auroc": 0.8}, "dark": {"n": 9, "auroc": 0.1}}
    versions = [
        {**everybody, "by_subgroup": rows},
        {**dark, "by_subgroup": {"dark": {"n": 31, "auroc": 0.7}}},
    ]
    table = key_figures(versions)
    assert table.header == ("Skin tone", "AUROC", "Test pictures")
    assert [(one.head, one.note, *map(str, one.cells)) for one in table.rows] == [
        ("light", "version 1 (global)", "0.800", "9 (few)"),
        ("dark", "version 2 (dark)", "0.700", "31"),
    ]
    assert key_figures([{**everybody, "by_subgroup": {"dark": {"n": 9, "accuracy": 0.9}}}]) is None


def test_a_terminal_shows_what_a_version_rests_on(release):
    rows = {"dark": {"n": 9, "accuracy": 0.7, "macro_f1": 0.5}}
    version = {**release["versions"][1], "by_subgroup": rows, "intervals": {}}
    section = version_in_short(version, "signed by a", [("Tags", "reviewed")])
    assert section.title == "version 2 for dark, fitzpatrick 4, 5, 6"
    facts = dict(section.parts[-1].pairs)
    assert (facts["Figures"], facts["Tags"], facts["Seed"]) == ("signed by a", "reviewed", "0")
    header = draw(section).splitlines()[1]
    assert ("Accuracy" in header, "Macro" in header) == (True, False)
    assert "Macro F1" in card_page({**release, "versions": [version]})
    bare = {**release["versions"][1], "by_subgroup": {}, "withdrawn": "WITHDRAWN"}
    assert version_in_short(bare, "", []).parts[:2] == ("WITHDRAWN", "no test figures by subgroup")


def test_text_stands_out_from_its_ground_in_light_dark_and_print():
    style = files("registry.views").joinpath("card.css").read_text(encoding="utf-8")
    roots = re.findall(r":root \{[^}]*\}", style)
    schemes = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", one)) for one in roots]
    assert len(schemes) == 3
    for scheme in schemes:
        for ink in ("ink", "muted", "accent"):
            for ground in ("paper", "panel"):
                assert contrast(scheme[ink], scheme[ground]) >= 4.5
