"""A picture that contradicts the tone declared with it: a warning, only where that means something."""

import io
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
from serving.inference.tone import SIDE, skin_angle, tone_warnings
from serving.protocol.parameters import Parameters
from tests.case_bundles import case_bundle


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
    ("angle", "tone", "words"),
    [
        (50, "1", None),
        (50, "2", None),  # one step is no contradiction
        (30, "1", None),
        (50, "5", ("lighter", "1")),
        (-50, "1", ("darker", "6")),
        (20, "1", None),  # amid no tone's central half
        (10, "1", ("darker", "3")),
        (None, "1", None),
        (50, None, None),
    ],
)
def test_it_warns_of_a_picture_two_steps_away(manifest, angle, tone, words):
    said = tone_warnings(angle, Parameters(tone), manifest(), False)
    if words is None:
        assert said == []
        return
    (warning,) = said
    assert f"looks {words[0]} than skin tone {tone} (fitzpatrick)" in warning
    assert f"more like {words[1]}." in warning
    assert "does not depend on this" in warning


@pytest.mark.parametrize("unfamiliar", [True, None])
def test_it_does_not_warn_of_a_picture_of_another_kind(manifest, unfamiliar):
    """Such as a dermoscopic picture that is sent to a model of close-ups."""
    assert tone_warnings(50, Parameters("5"), manifest(), False) != []
    assert tone_warnings(50, Parameters("5"), manifest(), unfamiliar) == []


def test_it_does_not_warn_on_another_scale(manifest):
    assert tone_warnings(50, Parameters("5", "milk10k"), manifest(), False) == []


@pytest.mark.parametrize(
    "known",
    [
        None,
        KNOWN.model_copy(update={"rank_correlation": 0.39}),
        KNOWN.model_copy(update={"rank_correlation": -0.5}),
    ],
)
def test_it_does_not_warn_where_angles_do_not_follow_tones(manifest, known):
    """Such as of dermoscopic pictures, and of bundles that know no ranges."""
    told = manifest(known)
    pixels = np.full((64, 64, 3), (220, 180, 150), np.uint8)
    assert skin_angle(pixels, told) is None
    assert tone_warnings(50, Parameters("5"), told, False) == []


@pytest.mark.parametrize("size", [64, 128, 224])
def test_the_angle_is_that_of_the_skin_at_any_size(manifest, size):
    pixels = np.full((size, size, 3), (220, 180, 150), np.uint8)
    expected = skin_tone_angle(np.full((SIDE, SIDE, 3), (220, 180, 150), np.uint8))
    assert skin_angle(pixels, manifest(size=size)) == pytest.approx(expected)


def test_too_few_pixels_have_no_angle(manifest):
    assert skin_angle(np.full((32, 32, 3), (220, 180, 150), np.uint8), manifest(size=32)) is None


def test_the_answer_is_the_same_but_for_the_warning(bundle):
    file = io.BytesIO()
    Image.new("RGB", (64, 64), (228, 190, 150)).save(file, "PNG")
    answers = []
    for known in (None, KNOWN):
        drawn = bundle(tones=known, picture=PictureRule(size=64), out_of_distribution=FAMILIAR)
        version = Version(drawn.manifest.model, 1, drawn.digest, drawn.manifest.subgroup, datetime.now(UTC))
        loaded = LoadedVersion.of(version, drawn)
        decoded = decode(loaded, [file.getvalue()], 10**6)
        outputs = Graph(drawn.model).run(np.full((1, 8, 8, 3), 90, np.uint8))
        made = build_diagnosis(
            loaded, decoded, outputs, Parameters("6"), "no-model-for-subgroup", request_id="1"
        )
        answers.append(made.model_dump(exclude={"created"}))
    without, warned = (one.pop("warnings") for one in answers)
    for one in answers:
        one["model"].pop("digest")
    assert answers[0] == answers[1]
    assert warned[:-1] == without
    assert "looks lighter than skin tone 6" in warned[-1]


def test_ranges_are_written_and_read(bundle):
    content = canonical(bundle(tones=KNOWN).manifest)
    assert read_manifest(content).tones == KNOWN
    assert read_manifest(canonical(bundle().manifest)).tones is None


def test_ranges_of_a_tone_that_is_none_are_refused():
    with pytest.raises(ValidationError, match="7 is no tone of the scale fitzpatrick"):
        ToneRanges(scale="fitzpatrick", rank_correlation=0.5, ranges={"7": around(0)})


@pytest.mark.parametrize(
    ("kinds", "of"),
    [(["dermoscopic", "close-up", "close-up"], 1), (["dermoscopic"], None), ([None], None)],
)
def test_of_a_case_the_first_close_up_has_the_angle(kinds, of):
    manifest = case_bundle(tones=KNOWN, picture=PictureRule(size=64)).manifest
    contents = []
    for blue in (110, 150, 190):
        file = io.BytesIO()
        Image.new("RGB", (64, 64), (228, 190, blue)).save(file, "PNG")
        contents.append(file.getvalue())
    given = read_given(manifest.case, kinds, {})
    decoded = decode(SimpleNamespace(manifest=manifest), contents[: len(kinds)], 10**6, given)
    angles = [skin_angle(pixels, manifest) for pixels in decoded.question.images]
    assert len(set(angles)) == len(kinds)
    assert decoded.skin_angle == (None if of is None else angles[of])
