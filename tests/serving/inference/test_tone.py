"""A picture that contradicts the tone declared with it: a warning, only where that means something."""

from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from registry.bundle.cases import read_given
from registry.bundle.manifest import OutOfDistribution, canonical, read_manifest
from registry.bundle.model import Gaussians, Graph
from registry.bundle.pictures.rule import PictureRule
from registry.bundle.skin_tone import ToneRange, ToneRanges, skin_tone_angle
from registry.records import Version
from serving.inference.predictor import LoadedVersion, build_diagnosis, decode
from serving.inference.reasons import SIDE, skin_angle, tone_warnings
from serving.protocol.parameters import Parameters
from tests.case_bundles import case_bundle
from tests.serving.conftest import encode


def around(middle: float) -> ToneRange:
    return ToneRange(
        n=100, low=middle - 12, lower_quartile=middle - 4, upper_quartile=middle + 4, high=middle + 12
    )


# Fitzpatrick runs from light to dark, so that the angle falls.
RANGES = {str(tone): around(50 - 20 * (tone - 1)) for tone in range(1, 7)}
KNOWN = ToneRanges(scale="fitzpatrick", rank_correlation=0.5, ranges=RANGES)

NEAR = Gaussians(np.full((1, 3), 90, np.float32), np.eye(3, dtype=np.float32))
FAMILIAR = OutOfDistribution.of(NEAR, ["MEL"], trained_on=80, rate=0.1, n=40, threshold_bin=700)


@pytest.fixture(scope="module")
def manifest(bundle):
    def draw(known=KNOWN, size=64):
        return bundle(tones=known, picture=PictureRule(size=size)).manifest

    return draw


@pytest.mark.parametrize(
    ("angle", "tone", "look", "like"),
    [(50, "5", "lighter", "1"), (-50, "1", "darker", "6"), (10, "1", "darker", "3")],
)
def test_it_warns_of_a_picture_two_steps_away(manifest, angle, tone, look, like):
    (warning,) = tone_warnings(angle, Parameters(tone), manifest(), False)
    assert f"looks {look} than skin tone {tone} (fitzpatrick)" in warning
    assert f"more like {like}." in warning
    assert "does not depend on this" in warning


@pytest.mark.parametrize(
    ("angle", "declared", "unfamiliar"),
    [
        pytest.param(50, ("1",), False, id="of its tone"),
        pytest.param(50, ("2",), False, id="one step away"),
        pytest.param(30, ("1",), False, id="one step away the other way"),
        pytest.param(20, ("1",), False, id="amid the central half of no tone"),
        pytest.param(None, ("1",), False, id="without an angle"),
        pytest.param(50, (None,), False, id="of which no tone was declared"),
        pytest.param(50, ("5", "monk"), False, id="of a tone of another scale"),
        pytest.param(50, ("5",), True, id="of another kind, such as a dermoscopic one among close-ups"),
        pytest.param(50, ("5",), None, id="of which that is not known"),
    ],
)
def test_it_does_not_warn_of_a_picture(manifest, angle, declared, unfamiliar):
    assert tone_warnings(angle, Parameters(*declared), manifest(), unfamiliar) == []


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(None, id="a bundle that knows no ranges"),
        pytest.param(
            KNOWN.model_copy(update={"rank_correlation": 0.39}), id="one whose angles follow little"
        ),
        pytest.param(KNOWN.model_copy(update={"rank_correlation": -0.5}), id="one whose angles go against"),
    ],
)
def test_it_does_not_warn_where_angles_do_not_follow_tones(manifest, known):
    drawn = manifest(known)
    assert skin_angle(np.full((64, 64, 3), (220, 180, 150), np.uint8), drawn) is None
    assert tone_warnings(50, Parameters("5"), drawn, False) == []


@pytest.mark.parametrize("size", [64, 128, 224])
def test_the_angle_is_that_of_the_skin_at_any_size(manifest, size):
    pixels = np.full((size, size, 3), (220, 180, 150), np.uint8)
    expected = skin_tone_angle(np.full((SIDE, SIDE, 3), (220, 180, 150), np.uint8))
    assert skin_angle(pixels, manifest(size=size)) == pytest.approx(expected)


def test_too_few_pixels_have_no_angle(manifest):
    assert skin_angle(np.full((32, 32, 3), (220, 180, 150), np.uint8), manifest(size=32)) is None


def sent(*colour):
    return encode(Image.new("RGB", (64, 64), colour), "PNG")


def test_the_answer_is_the_same_but_for_the_warning(bundle):
    answers = []
    for known in (None, KNOWN):
        drawn = bundle(tones=known, picture=PictureRule(size=64), out_of_distribution=FAMILIAR)
        version = Version(drawn.manifest.model, 1, drawn.digest, drawn.manifest.subgroup, datetime.now(UTC))
        loaded = LoadedVersion.of(version, drawn)
        decoded = decode(loaded, [(sent(228, 190, 150), None)], 10**6)
        outputs = Graph(drawn.model).run(np.full((1, 8, 8, 3), 90, np.uint8))
        route = Parameters("6"), "no-model-for-subgroup"
        made = build_diagnosis(loaded, decoded, outputs, *route, request_id="1")
        answers.append(made.model_dump(exclude={"created": True, "model": {"digest"}}))
    without, warned = (one.pop("warnings") for one in answers)
    assert answers[0] == answers[1]
    assert warned[:-1] == without
    assert "looks lighter than skin tone 6" in warned[-1]


@pytest.mark.parametrize("known", [KNOWN, None])
def test_ranges_are_written_and_read(bundle, known):
    assert read_manifest(canonical(bundle(tones=known).manifest)).tones == known


def test_ranges_of_a_tone_that_is_none_are_refused():
    with pytest.raises(ValidationError, match="7 is no tone of the scale fitzpatrick"):
        ToneRanges(scale="fitzpatrick", rank_correlation=0.5, ranges={"7": around(0)})


@pytest.mark.parametrize(
    ("kinds", "of"),
    [(["dermoscopic", "close-up", "close-up"], 1), (["dermoscopic"], None), ([None], None)],
)
def test_of_a_case_the_first_close_up_has_the_angle(kinds, of):
    manifest = case_bundle(tones=KNOWN, picture=PictureRule(size=64)).manifest
    contents = [(sent(228, 190, blue), None) for blue in (110, 150, 190)][: len(kinds)]
    given = read_given(manifest.case, kinds, {})
    decoded = decode(SimpleNamespace(manifest=manifest), contents, 10**6, given)
    angles = [skin_angle(pixels, manifest) for pixels in decoded.question.images]
    assert len(set(angles)) == len(kinds)
    assert decoded.skin_angle == (None if of is None else angles[of])
