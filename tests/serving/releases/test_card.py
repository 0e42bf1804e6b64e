import re

import pytest

from registry.bundle.labels import Label, Subgroup
from tests.thresholds import concluding

PAGE = {"Accept": "text/html,application/xhtml+xml"}
EVIL = '<script>alert("x")</script>'


def test_the_card_says_what_the_bundles_say(service, released):
    card = service.client.get("/v1/models/skin-lesion/card").json()
    assert (card["name"], card["release"], card["alias"]) == ("skin-lesion", released.id, "production")
    assert [version["subgroup"]["name"] for version in card["versions"]] == ["global", "dark", "light"]
    for said, version in zip(card["versions"], released.versions, strict=True):
        assert (said["version"], said["digest"]) == (version.number, version.digest)
        assert said["registered"] == version.created.isoformat()
        assert said["by_subgroup"]["light"]["accuracy"] == 0.82
        assert said["by_subgroup"]["dark"]["intervals"]["accuracy"] == pytest.approx([0.7, 0.85])
        assert said["fairness"]["worst"] == 0.8
        assert said["metrics"] == {"accuracy": pytest.approx(0.81), "n": 800}
        assert said["calibration"]["conformal"]["n"] == 412
        assert said["calibration"]["conclusions"]["nodes"][0]["n"] == 102
        assert said["lineage"]["recipe"] == "fedauto"
        assert said["picture"]["size"] == 8
        assert "reference" not in said
    assert card["versions"][1]["subgroup"]["values"] == ["V", "VI"]
    assert card["served"]["value"] == pytest.approx(0.02)


def test_the_page_shows_the_same_and_loads_nothing(service, released):
    answer = service.client.get("/v1/models/skin-lesion/card", headers=PAGE)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = answer.text
    for version in released.versions:
        assert version.digest in page
        assert f"{version.subgroup.name}: version {version.number}" in page
    for part in ("0.820", "(0.720 to 0.870)", "V, VI", "412"):
        assert part in page
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//""", page)


def test_whatever_is_in_a_bundle_is_escaped(serve, registry, promote, bundle, light):
    labels = (Label(code=EVIL, name=EVIL, malignancy="malignant"), *(Label(code=c, name=c) for c in "ab"))
    evil = Subgroup(name=EVIL, scale="fitzpatrick", values=(EVIL,))
    rules = concluding(0, EVIL)
    promote(registry, *(bundle(of, labels=labels, conclusions=rules) for of in (None, evil)))
    with serve() as service:
        page = service.client.get("/v1/models/skin-lesion/card", headers=PAGE).text
        assert "<script" not in page
        assert page.count("&lt;script&gt;") >= 8
        answer = service.client.get("/v1/models/skin-lesion/card")
        assert answer.json()["versions"][0]["labels"][0]["name"] == EVIL
        assert answer.headers["content-type"] == "application/json"
