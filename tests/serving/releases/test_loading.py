import pytest

from serving.releases.loading import Loader
from tests.serving.releases.conftest import MODEL

CARD = f"/v1/models/{MODEL}/card"


def test_a_release_is_loaded_with_the_prevalence_that_was_stated(source):
    loader = Loader(source, None)
    (release,) = source.current().values()
    assert loader.load(release).prevalence == {}
    stated = {"prevalence": {"light": 0.12}, "override_gates": True, "reason": "t"}
    source.registry.promote(MODEL, [1, 2], to="production", **stated)
    (release,) = source.current().values()
    assert loader.load(release).prevalence == {"light": 0.12}


def test_the_card_says_what_the_bundles_say(service, released):
    card = service.client.get(CARD).json()
    assert (card["name"], card["release"], card["alias"]) == (MODEL, released.id, "production")
    assert [version["subgroup"]["name"] for version in card["versions"]] == ["global", "dark", "light"]
    assert card["versions"][1]["subgroup"]["values"] == ["V", "VI"]
    assert card["served"]["value"] == pytest.approx(0.02)
    for said, version in zip(card["versions"], released.versions, strict=True):
        assert (said["version"], said["digest"]) == (version.number, version.digest)
        assert said["registered"] == version.created.isoformat()
        assert said["by_subgroup"]["dark"]["intervals"]["accuracy"] == pytest.approx([0.7, 0.85])
        assert said["metrics"] == {"accuracy": pytest.approx(0.81), "n": 800}
        assert said["calibration"]["conformal"]["n"] == 412
        assert said["lineage"]["recipe"] == "fedauto"
        assert "reference" not in said


def test_the_page_of_the_card_shows_the_same(service, released):
    answer = service.client.get(CARD, headers={"Accept": "text/html,application/xhtml+xml"})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for version in released.versions:
        assert version.digest in answer.text
        assert f"{version.subgroup.name}: version {version.number}" in answer.text
    assert "(0.720 to 0.870)" in answer.text
