import re

import pytest

from registry.bundle.labels import Label
from registry.bundle.schema import Subgroup
from serving.card import figure, interval

PAGE = {"Accept": "text/html,application/xhtml+xml"}
EVIL = '<script>alert("x")</script>'


def test_the_card_says_what_the_bundles_say(service, released):
    card = service.client.get("/v1/models/skin-lesion/card").json()
    assert (card["name"], card["release"], card["alias"]) == ("skin-lesion", released.id, "production")
    assert [version["subgroup"]["name"] for version in card["versions"]] == ["global", "dark", "light"]
    for said, version in zip(card["versions"], released.versions, strict=True):
        assert (said["version"], said["digest"]) == (version.number, version.digest)
        assert said["by_subgroup"]["light"]["accuracy"] == 0.82
        assert said["by_subgroup"]["dark"]["intervals"]["accuracy"] == pytest.approx([0.7, 0.85])
        assert said["fairness"]["worst"] == 0.8
        assert said["metrics"] == {"accuracy": 0.8, "n": 100}
        assert said["calibration"]["conformal"]["n"] == 412
        assert said["calibration"]["confidence_threshold"] == 0.55
        assert said["lineage"]["recipe"] == "fedauto"
        assert "reference" not in said
    assert card["versions"][1]["subgroup"]["values"] == ["V", "VI"]


def test_the_page_shows_the_same_and_loads_nothing(service, released):
    answer = service.client.get("/v1/models/skin-lesion/card", headers=PAGE)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = answer.text
    for version in released.versions:
        assert version.digest in page
        assert f"{version.subgroup.name}: version {version.number}" in page
    assert "0.820" in page
    assert "(0.720 to 0.870)" in page
    assert "V, VI" in page
    assert "412" in page
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//""", page)
    assert "@import" not in page
    assert "url(" not in page


def test_whatever_is_in_a_bundle_is_escaped(serve, registry, promote, bundle, light):
    labels = (Label(code=EVIL, name=EVIL, malignancy="malignant"), *(Label(code=c, name=c) for c in "ab"))
    figures = {"by_subgroup": {EVIL: {"n": 3, "accuracy": EVIL, "intervals": {"accuracy": [EVIL, EVIL]}}}}
    evil = Subgroup(name=EVIL, scale="fitzpatrick", values=(EVIL,))
    promote(
        registry,
        bundle(labels=labels, metrics={**figures, "fairness": {"spread": EVIL}}),
        bundle(evil, labels=labels),
    )
    with serve() as service:
        page = service.client.get("/v1/models/skin-lesion/card", headers=PAGE).text
        assert "<script" not in page
        assert page.count("&lt;script&gt;") >= 8
        answer = service.client.get("/v1/models/skin-lesion/card")
        assert answer.json()["versions"][0]["labels"][0]["name"] == EVIL
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"by_subgroup": {}},
        {"by_subgroup": ["light"], "fairness": "good"},
        {"by_subgroup": {"light": None, "dark": 3}, "fairness": None},
        {"by_subgroup": {"light": {}}, "fairness": {}},
        {"by_subgroup": {"light": {"n": None, "accuracy": [1], "intervals": [1, 2]}}},
        {"by_subgroup": {"light": {"n": 1, "accuracy": 1, "intervals": {"accuracy": [0.5]}}}},
        {"fairness": {"spread": None, "worst": 1, "intervals": {"spread": [None, 0.5]}}},
    ],
)
def test_a_card_is_shown_of_figures_in_any_form(serve, registry, promote, bundle, metrics):
    promote(registry, bundle(metrics=metrics))
    with serve() as service:
        for headers in (PAGE, {}):
            assert service.client.get("/v1/models/skin-lesion/card", headers=headers).status_code == 200


def test_the_models_are_listed_with_their_versions(service, released):
    (listed,) = service.client.get("/v1/models").json()["models"]
    assert listed["labels"] == ["MEL", "NV", "AK"]
    assert (listed["name"], listed["release"], listed["alias"]) == ("skin-lesion", released.id, "production")
    assert listed["versions"] == [
        {
            "version": version.number,
            "subgroup": version.subgroup.name,
            "scale": version.subgroup.scale,
            "skin_tones": list(version.subgroup.values),
            "digest": version.digest,
        }
        for version in released.versions
    ]


def test_a_figure_has_three_places_or_a_dash():
    assert [figure(value) for value in (0.12345, 1.0, 7, None, "x")] == ["0.123", "1.000", "7", "–", "x"]
    assert interval({"intervals": {"a": [0.1, None]}}, "a") == "(0.100 to –)"
    assert interval({}, "a") == interval({"intervals": None}, "a") == interval({"intervals": {}}, "a") == ""
