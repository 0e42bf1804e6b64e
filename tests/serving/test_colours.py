"""Colour profiles and pictures cut short, over HTTP."""

import pytest
from PIL import Image

from tests import colour_profiles
from tests.dicom_files import saved

P3 = colour_profiles.display_p3()
SKIN, SKIN_IN_P3 = (213, 115, 83), (200, 120, 90)  # one colour, as sRGB has it and as a phone does


def probabilities(answer) -> list[float]:
    assert answer.status_code == 200, answer.text
    findings = answer.json()["findings"]
    return [one["probability"] for one in sorted(findings, key=lambda one: one["code"])]


def plain(colour, mode="RGB") -> Image.Image:
    return Image.new(mode, (40, 30), colour)


def test_a_phones_picture_is_answered_as_the_same_colours_in_srgb(service):
    expected = probabilities(service.diagnose(saved(plain(SKIN)), "image/png"))
    phone = service.diagnose(saved(plain(SKIN_IN_P3), icc_profile=P3), "image/png")
    assert probabilities(phone) == pytest.approx(expected, abs=0.01)
    assert phone.json()["quality"] == {"acceptable": True, "issues": []}
    bare = probabilities(service.diagnose(saved(plain(SKIN_IN_P3)), "image/png"))
    assert bare != pytest.approx(expected, abs=0.01)


def test_a_profile_that_cannot_be_used_is_told_and_stops_nobody(service):
    bare = service.diagnose(saved(plain(SKIN)), "image/png")
    answer = service.diagnose(saved(plain(SKIN), icc_profile=P3[:200]), "image/png")
    assert probabilities(answer) == probabilities(bare)
    (issue,) = answer.json()["quality"]["issues"]
    assert issue.startswith("The picture has a colour profile that cannot be used: it is damaged")
    assert answer.json()["decision"] == bare.json()["decision"]
    assert answer.json()["reasons"] == bare.json()["reasons"]
