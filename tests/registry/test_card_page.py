import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from registry.bundle.labels import Coding, Label
from registry.bundle.manifest import Abstention, Conformal, Lineage, Temperature
from registry.records import Release, Version
from registry.views.card import Entry, release_card
from registry.views.card_page import card_page
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


def test_the_page_loads_nothing_and_runs_nothing(release):
    text = card_page(release)
    for part in ("<script", "http:", "https:", "//", "@import", "url(", "onload", "<img", "<link"):
        assert part not in text


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
    style = files("registry.views").joinpath("card.css").read_text(encoding="utf-8")
    schemes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", one)) for one in re.findall(r":root \{[^}]*\}", style)
    ]
    assert len(schemes) == 3
    for scheme in schemes:
        for ink in ("ink", "muted", "accent"):
            for ground in ("paper", "panel"):
                bright, dark = sorted((luminance(scheme[ink]), luminance(scheme[ground])), reverse=True)
                assert (bright + 0.05) / (dark + 0.05) >= 4.5
