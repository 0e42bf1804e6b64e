"""A release whose subgroup has values of two scales: who is routed to it, and what is said of it."""

import pytest

from registry.bundle.labels import Subgroup

OVER = Subgroup(name="dark", tones={"fitzpatrick": ("V", "VI"), "milk10k": ("0", "1")})


@pytest.fixture
def asked(serve, registry, promote, bundle, light):
    promote(registry, bundle(), bundle(light), bundle(OVER))
    with serve() as service:
        yield service


def test_a_tone_on_any_of_its_scales_is_answered_by_its_model(asked, picture):
    found = {}
    for tone, scale in [
        ("5", "fitzpatrick"),
        ("0", "milk10k"),
        ("5", "milk10k"),
        ("1", "fitzpatrick"),
        ("1", "monk"),
    ]:
        told = asked.diagnose(picture(), params={"skin_tone": tone, "skin_tone_scale": scale}).json()
        found[tone, scale] = told["model"]["subgroup"], told["model"]["route"]
        last = told["reasons"][-1]["text"]
        if found[tone, scale][0] == "dark":
            assert last.endswith("is for skin tones V, VI (fitzpatrick) or 0, 1 (milk10k), answered.")
            assert f"skin tone {tone} ({scale}) was declared" in last
    assert found == {
        ("5", "fitzpatrick"): ("dark", "declared"),
        ("0", "milk10k"): ("dark", "declared"),
        ("5", "milk10k"): ("global", "no-model-for-subgroup"),
        ("1", "fitzpatrick"): ("light", "declared"),
        ("1", "monk"): ("global", "other-scale"),
    }
