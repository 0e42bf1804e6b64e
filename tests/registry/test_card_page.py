import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

from registry.bundle.familiarity import Gaussians
from registry.bundle.manifest.codings import SYSTEMS
from registry.bundle.manifest.labels import Coding, Label
from registry.bundle.manifest.schema import Abstention, Conformal, Lineage, OutOfDistribution, Temperature
from registry.card.contents import Entry, release_card
from registry.card.page import card_page
from registry.card.tables import figure, figure_table, interval
from registry.records import Release, Version
from tests.thresholds import at_log_odds

EVIL = '"><script>alert("x")</script>&'
EMPTY = {"meta", "link", "br", "img"}


class Page(HTMLParser):
    """A page as the list of its elements, checked to be closed in the order they were opened."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.text = [], [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open:
            self.text.setdefault(self.open[-1], []).append(text)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def row(n, accuracy):
    return {"n": n, "accuracy": accuracy, "intervals": {"accuracy": [accuracy - 0.1, accuracy + 0.05]}}


def metrics_of(name="dark"):
    return {
        **row(90, 0.8),
        "by_subgroup": {"light": row(60, 0.9), name: row(25, 0.7)},
        "by_class": {"MEL": {"n": 12, "recall": 0.5}},
        "fairness": {"spread": 0.2, "variance": 0.00046, "intervals": {"spread": [0.02, 0.4]}},
        "differences": [
            {
                "between": [name, "light"],
                "figure": "accuracy_standardised",
                "value": -0.2,
                "interval": [-0.4, 0],
            }
        ],
        "intersections": {name: {"female": {name: row(40, 0.75), "light": None}}},
        "absent": [name],
    }


@pytest.fixture(scope="module")
def release(bundle, dark):
    """The card of a release of two versions."""
    calibrated = {
        "conformal": Conformal(alpha=0.1, threshold_bin=at_log_odds(-1.5), n=60, guarantee="global"),
        "abstention": Abstention(threshold_bin=at_log_odds(0.5), n=80, risk=0.05),
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
        for said in (version["digest"], version["lineage"]["job"], *version["limits"]):
            assert said in text
        assert all(sentence in text for sentence in version["intended_use"]["not_for"])
        assert all(sentence in text for sentence in version["how_to_use"].values())
    for part in ("Release 7, production", "0.900 <small>(0.800 to 0.950)</small>", "25 <small>few</small>"):
        assert part in text
    for part in ("too few to tell", "dark − light", "−0.200 <small>(−0.400 to 0.000)</small>", "0.00046"):
        assert part in text
    assert "90.2 %" in text  # ceil(61 * 0.9) / 61
    assert "accuracy is highest for light, 0.900 on 60 pictures" in text


def test_what_a_stage_told_of_a_subgroup_has_a_title_and_its_place():
    told = {"n": 40, "zest": 1.0, "epoch": 3, "reported_risk": 0.1, "reported": 0.6, "set_size": 1.4}
    table = figure_table("key", "caption", {"dark": told | {"coverage": 0.9, "accuracy": 0.8}}, head="Skin")
    assert table.header == (
        "Skin",
        "Test pictures",
        "Accuracy",
        "Coverage of sets",
        "Mean set size",
        "Share reported",
        "Wrong among reported",
        "zest",
    )
    assert [one.text for one in table.rows[0].cells][2:] == ["0.900", "1.400", "0.600", "0.100", "1.000"]


def test_training_pictures_are_those_that_gaussians_are_known_to_rest_on(bundle):
    gaussians = Gaussians(np.zeros((1, 2), np.float32), np.eye(2, dtype=np.float32))
    known = OutOfDistribution.of(gaussians, ("MEL",), trained_on=12345, rate=0.05, n=4)
    text = card_page(release_card([Entry.of_bundle(bundle(out_of_distribution=known))]))
    assert "at least 12,345, in the classes that have a Gaussian" in text
    assert "in the classes that have a Gaussian" not in card_page(release_card([Entry.of_bundle(bundle())]))


def test_the_page_loads_nothing_and_runs_nothing(release):
    text = card_page(release)
    for part in ("<script", "http:", "https:", "//", "@import", "url(", "onload", "<img", "<link"):
        assert part not in text


def test_headings_are_in_order_and_tables_have_captions_and_scopes(release):
    page = Page(card_page(release))
    assert page.all("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    tables = len(page.all("table"))
    assert tables == 12
    assert tables == len(page.all("caption")) == len(page.all("thead"))
    assert all(one.get("scope") in ("col", "row") for one in page.all("th"))


def test_wide_tables_scroll_in_a_region_that_has_a_name_and_the_focus(release):
    page = Page(card_page(release))
    names = [one["id"] for _, one in page.elements if "id" in one]
    assert len(names) == len(set(names))
    regions = [one for one in page.all("div") if one.get("class") == "scroll"]
    assert len(regions) == len(page.all("table"))
    for region in regions:
        assert (region["role"], region["tabindex"]) == ("region", "0")
        assert set(region["aria-labelledby"].split()) <= set(names)
    assert len({one["aria-labelledby"] for one in regions}) == len(regions)
    for section in page.all("section"):
        assert section["aria-labelledby"] in names
    for link in page.all("a"):
        assert link["href"].removeprefix("#") in names


def test_every_row_has_as_many_cells_as_the_header(release):
    for table in re.findall(r"<table>.*?</table>", card_page(release), flags=re.DOTALL):
        header, *rows = re.findall(r"<tr>.*?</tr>", table, flags=re.DOTALL)
        widths = {len(re.findall(r"<t[hd][ >]", one)) for one in (header, *rows)}
        assert len(widths) == 1
        assert rows


def test_a_code_that_a_terminologist_has_to_look_at_is_marked(bundle):
    certain, other = (
        Coding(system=SYSTEMS[key], version="1", code=code, display="x", certain=sure)
        for key, code, sure in (("icd10", "C43.9", True), ("snomed", "93655004", False))
    )
    labels = (
        Label(
            code="MEL",
            name="Melanoma",
            codings=(certain, other),
        ),
        Label(code="NV", name="Naevus"),
    )
    text = card_page(release_card([Entry.of_bundle(bundle(labels=labels))]))
    assert "icd10 C43.9, snomed 93655004 (to be checked)<" in text


def test_whatever_is_in_a_bundle_is_escaped(bundle, tones):
    evil = {
        "labels": (
            Label(
                code=EVIL,
                name=EVIL,
                malignancy="malignant",
                codings=(Coding(system=EVIL, code=EVIL, display=EVIL),),
            ),
            Label(code="b", name="b"),
        ),
        "metrics": {**metrics_of(EVIL), EVIL: 0.5, "ece": EVIL},
        "lineage": Lineage(
            job="sha256:" + "0" * 64, recipe=EVIL, data={EVIL: EVIL}, seed=0, code_version=EVIL, created=EVIL
        ),
    }
    for subgroup in (None, tones(EVIL, EVIL, scale="x" + EVIL)):
        text = card_page(release_card([Entry.of_bundle(bundle(subgroup, model=EVIL, **evil))], alias=EVIL))
        assert "<script" not in text
        assert text.count("&lt;script&gt;") >= 20
        Page(text)


def luminance(colour):
    """Relative luminance (WCAG 2.2)."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_text_stands_out_from_its_ground_in_light_dark_and_print():
    style = files("registry.card").joinpath("card.css").read_text(encoding="utf-8")
    schemes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", one)) for one in re.findall(r":root \{[^}]*\}", style)
    ]
    assert len(schemes) == 3
    for scheme in schemes:
        for ink in ("ink", "muted", "accent"):
            for ground in ("paper", "panel"):
                bright, dark = sorted((luminance(scheme[ink]), luminance(scheme[ground])), reverse=True)
                assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_colours_are_named_once():
    style = files("registry.card").joinpath("card.css").read_text(encoding="utf-8")
    rest = re.sub(r":root \{[^}]*\}", "", style)
    assert not re.search(r"#[0-9a-f]{3,8}\b|rgb|opacity", rest)


def test_labels_and_picture_are_shown_once_where_all_versions_have_them_alike(bundle, dark, release):
    assert card_page(release).count("What it answers with") == 1
    others = release_card([Entry.of_bundle(bundle()), Entry.of_bundle(bundle(dark, codes=("A", "B", "C")))])
    assert card_page(others).count("What it answers with") == 2


def test_a_figure_has_three_places_or_is_unknown():
    given = [0.12345, 1.0, 7, None, "x", True, -0.25, 0.0, 0.00046, float("nan")]
    shown = ["0.123", "1.000", "7", "unknown", "unknown", "unknown", "−0.250", "0.000", "0.00046", "unknown"]
    assert [figure(value) for value in given] == shown
    assert interval((0.1, 0.25)) == "(0.100 to 0.250)"
    assert interval(None) == ""


def test_all_together_is_a_row_only_where_it_says_more(bundle):
    both, one = ({"light": row(50, 0.9), "dark": row(40, 0.7)}, {"dark": row(90, 0.8)})
    for rows, shown in ((both, 1), (one, 0)):
        text = card_page(
            release_card([Entry.of_bundle(bundle(metrics={**row(90, 0.8), "by_subgroup": rows}))])
        )
        assert text.count("all together") == shown
