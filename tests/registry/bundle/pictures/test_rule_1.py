"""Rule 1, which older bundles name: its pixels and their answers stay what they were, to the bit."""

import hashlib
import json

import pytest

from registry.bundle.diagnose import diagnose
from registry.bundle.folder import read_bundle
from registry.bundle.pictures.rule import PictureRule, decode_picture
from tests.fixtures.making.picture_rule_1 import BUNDLE, FOLDER, RULES

EXPECTED = json.loads((FOLDER / "expected.json").read_text())


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_pixels_of_rule_1_are_those_of_the_version_that_knew_no_other(name):
    content = (FOLDER / name).read_bytes()
    pixels = [decode_picture(content, PictureRule.model_validate(rule)) for rule in RULES]
    assert [hashlib.sha256(one.tobytes()).hexdigest() for one in pixels] == EXPECTED[name]["pixels"]


def test_a_bundle_of_rule_1_answers_as_it_did():
    bundle = read_bundle(BUNDLE)
    assert bundle.manifest.picture.version == 1
    for name, said in EXPECTED.items():
        answer = diagnose(bundle, (FOLDER / name).read_bytes()).to_json()
        found = [one["probability"] for one in answer["findings"]]
        assert found == pytest.approx([one["probability"] for one in said["answer"]["findings"]], abs=1e-6)
        assert {**answer, "findings": [], "confidence": {}, "malignancy": {}} == {
            **said["answer"],
            "findings": [],
            "confidence": {},
            "malignancy": {},
        }
