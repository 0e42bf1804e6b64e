"""Colours by the profile of the picture: what they become, where they stay, and what cannot be used."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pydicom import uid

from registry.bundle.pictures import colours, rule
from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import PictureRule, decode_picture, unused_profile
from tests import colour_profiles
from tests.dicom_files import dicom_file, saved

RULE = PictureRule(size=16)
P3, ADOBE = colour_profiles.display_p3(), colour_profiles.adobe_rgb()
SKIN = (200, 120, 90)  # of Display P3

# From linear Display P3 to linear sRGB, both of D65 (SMPTE EG 432-1, IEC 61966-2-1).
TO_SRGB = np.array([[1.22494, -0.22494, 0], [-0.04206, 1.04206, 0], [-0.01964, -0.07864, 1.09827]])


def in_srgb(colour: tuple[int, ...]) -> np.ndarray:
    """A colour of Display P3 as sRGB, 0 to 255: by the definitions of both, without LittleCMS."""
    coded = np.array(colour) / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    linear = np.clip(TO_SRGB @ linear, 0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def plain(colour: object, mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (32, 32), colour)


def told(content: bytes) -> str | None:
    return unused_profile(open_picture(content))


def unconverted(content: bytes, how: PictureRule = RULE) -> np.ndarray:
    """The pixels as though the picture had no colour profile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule, "conversion_of", lambda image, profile: None)
        return decode_picture(content, how)


def with_profile(dataset_profile: bytes):
    def edit(dataset):
        dataset.add_new(0x00282000, "OB", dataset_profile + bytes(len(dataset_profile) % 2))

    return edit


SKIN_JPEG = saved(plain(SKIN), "JPEG", quality=100, subsampling=0)
P3_FILES = {
    "JPEG": saved(plain(SKIN), "JPEG", quality=100, subsampling=0, icc_profile=P3),
    "PNG": saved(plain(SKIN), "PNG", icc_profile=P3),
    "palette": saved(plain(SKIN).quantize(8), "PNG", icc_profile=P3),
    "transparent": saved(plain((*SKIN, 255), "RGBA"), "PNG", icc_profile=P3),
    "WebP": saved(plain(SKIN), "WEBP", lossless=True, icc_profile=P3),
    "DICOM": dicom_file(np.asarray(plain(SKIN)), edit=with_profile(P3)),
    "deflated": dicom_file(
        np.asarray(plain(SKIN)), "RGB", uid.DeflatedExplicitVRLittleEndian, edit=with_profile(P3)
    ),
    "implicit": dicom_file(np.asarray(plain(SKIN)), "RGB", uid.ImplicitVRLittleEndian, edit=with_profile(P3)),
    "JPEG in DICOM": dicom_file(
        SKIN_JPEG, "YBR_FULL_422", uid.JPEGBaseline8Bit, size=(32, 32), edit=with_profile(P3)
    ),
}


@pytest.mark.parametrize("kind", P3_FILES)
def test_colours_become_those_of_srgb(kind):
    found = decode_picture(P3_FILES[kind], RULE).astype(float)
    assert np.abs(found - in_srgb(SKIN)).max() <= 2
    assert told(P3_FILES[kind]) is None
    old = unconverted(P3_FILES[kind]).astype(float)
    assert np.abs(old - SKIN).max() <= 2
    assert np.abs(old - found).max() > 10


def test_what_srgb_does_not_have_moves_to_its_border():
    green = saved(plain((0, 255, 0)), "PNG", icc_profile=P3)
    assert (decode_picture(green, RULE) == (0, 255, 0)).all()


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_a_picture_in_srgb_keeps_its_pixels_to_the_bit(form):
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 50, 3), dtype=np.uint8))
    expected = unconverted(saved(noise, form))
    marked = saved(noise, form, icc_profile=colour_profiles.srgb())
    for content in (saved(noise, form), marked):
        np.testing.assert_array_equal(decode_picture(content, RULE), expected)
    assert colours.conversion_of(open_picture(marked), colour_profiles.srgb()) is None


def test_the_profile_of_a_dicom_file_goes_before_that_of_the_jpeg_inside():
    jpeg = saved(plain(SKIN), "JPEG", quality=100, subsampling=0, icc_profile=P3)
    for own, converted in ((None, True), (colour_profiles.srgb(), False)):
        edit = with_profile(own) if own else (lambda dataset: None)
        content = dicom_file(jpeg, "YBR_FULL_422", uid.JPEGBaseline8Bit, size=(32, 32), edit=edit)
        found = decode_picture(content, RULE).astype(float)
        assert np.abs(found - (in_srgb(SKIN) if converted else SKIN)).max() <= 2


def test_greys_by_a_profile_of_grey():
    linear = colour_profiles.grey(1.0)
    for image in (
        plain(64, "L"),
        plain((64, 255), "LA"),
        Image.fromarray(np.full((32, 32), 64 * 257, np.uint16)),
    ):
        found = decode_picture(saved(image, "PNG", icc_profile=linear), RULE)
        assert np.abs(found.astype(int) - 137).max() <= 1  # 1.055 (64 / 255)^(1 / 2.4) - 0.055
    content = saved(plain(64, "L"), "JPEG", quality=100, icc_profile=linear)
    assert np.abs(decode_picture(content, RULE).astype(int) - 137).max() <= 1


def test_greys_by_a_profile_of_colours_stay_grey():
    content = saved(plain(64, "L"), "PNG", icc_profile=P3)
    assert told(content) is None
    assert np.abs(decode_picture(content, RULE).astype(int) - 64).max() <= 1


def test_inks_by_the_profile_of_a_printer():
    """Without one, Pillow takes light away as if inks were perfect."""
    red = plain((0, 255, 255, 0), "CMYK")
    content = saved(red, "JPEG", quality=100, icc_profile=colour_profiles.cmyk())
    assert told(content) is None
    found = decode_picture(content, RULE).astype(int)
    assert np.abs(found - (255, 89, 89)).max() <= 6  # a tenth of green and blue; tables of 8 bits
    bare = saved(red, "JPEG", quality=100)
    assert "of inks (CMYK)" in told(bare)
    np.testing.assert_array_equal(decode_picture(bare, RULE), unconverted(bare))
    assert np.abs(decode_picture(bare, RULE).astype(int) - (255, 0, 0)).max() <= 3


def broken() -> dict[str, tuple[bytes, str]]:
    tags = colour_profiles.matrix_tags(colour_profiles.DISPLAY_P3, colour_profiles.gamma_curve(2.2))
    make = colour_profiles.profile
    many = {b"t%03d" % number: b"text\0\0\0\0" for number in range(101)}
    return {
        "no profile": (b"hello", "its header alone"),
        "cut": (P3[:300], "damaged or incomplete"),
        "another mark": (P3.replace(b"acsp", b"xxxx"), "damaged or incomplete"),
        "no curves": (make({name: tags[name] for name in list(tags)[:6]}), "damaged or incomplete"),
        "of nothing": (make({}), "damaged or incomplete"),
        "a link": (make(tags, kind=b"link"), "not of a camera"),
        "named colours": (make(tags, kind=b"nmcl"), "not of a camera"),
        "seven colours": (make(tags, space=b"7CLR"), "not of a camera"),
        "many tags": (make(many), "101 tags, and 100"),
        "any work": (make({**tags, b"D2B0": b"mpet" + bytes(60)}), "any amount of work"),
        "large": (P3 + bytes(4 * 2**20), "4,194,304 are looked at"),
        "of inks": (colour_profiles.cmyk(), "for pictures of the mode CMYK"),
        "of grey": (colour_profiles.grey(1.8), "for pictures of the mode L"),
    }


@pytest.mark.parametrize("kind", broken())
def test_a_profile_that_cannot_be_used_leaves_the_colours_and_is_told(kind):
    profile, why = broken()[kind]
    content = saved(plain(SKIN), "WEBP", lossless=True, icc_profile=profile)
    assert why in (told(content) or "")
    assert (decode_picture(content, RULE) == SKIN).all()


def test_a_profile_of_which_a_segment_is_missing_is_told():
    """A JPEG holds a long one in several segments, each with its number and how many there are."""
    long = colour_profiles.profile(
        {**colour_profiles.matrix_tags(colour_profiles.DISPLAY_P3, b""), b"more": bytes(90_000)}
    )
    content = saved(plain(SKIN), "JPEG", icc_profile=long)
    at = content.index(b"ICC_PROFILE\0\x02") - 4
    without = content[:at] + content[at + 2 + int.from_bytes(content[at + 2 : at + 4], "big") :]
    assert told(without).endswith("cannot be used: it is damaged or incomplete")
    np.testing.assert_array_equal(decode_picture(without, RULE), unconverted(without))


def test_a_profile_in_a_dicom_file_that_is_none_is_told():
    content = dicom_file(
        np.asarray(plain(SKIN)), edit=lambda dataset: dataset.add_new(0x00282000, "UN", b"none")
    )
    assert "its header alone" in (told(content) or "")
    assert (decode_picture(content, RULE) == SKIN).all()


@given(
    source=st.sampled_from([P3, ADOBE, colour_profiles.grey(2.2), colour_profiles.cmyk()]),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=8),
    length=st.floats(0, 1),
)
@settings(max_examples=200, deadline=None)
def test_a_spoilt_profile_stops_no_picture(source, changes, length):
    spoilt = bytearray(source)
    for place, value in changes:
        spoilt[int(place * len(spoilt))] = value
    mode = {b"GRAY": "L", b"CMYK": "CMYK"}.get(source[16:20], "RGB")
    image = Image.new(mode, (20, 20), 90)
    image.info["icc_profile"] = bytes(spoilt[: int(length * len(spoilt))]) if length < 0.5 else bytes(spoilt)
    content = saved(image, "JPEG", icc_profile=image.info["icc_profile"])
    assert decode_picture(content, RULE).shape == (16, 16, 3)
