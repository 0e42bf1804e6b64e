"""Colours and turns that a file declares without a colour profile: as browsers show them, or told."""

import io
import re
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from registry.bundle.errors import PictureError, TruncatedPicture, UnsupportedPicture
from registry.bundle.pictures.declared import ADOBE, SRGB, heif_boxes, profile_of
from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import PictureRule, decode_picture, unused_profile
from tests import colour_profiles
from tests.dicom_files import noise, saved
from tests.heif_files import heic, quarters

RULE = PictureRule(size=16)
SKIN = (200, 120, 90)
P3 = ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060), (0.3127, 0.3290))
PLAIN = Image.new("RGB", (16, 16), SKIN)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(*chunks, image=PLAIN, behind=False, **options):
    whole = saved(image, **options)
    at = whole.index(b"IEND") - 4 if behind else 33
    return whole[:at] + b"".join(chunk(*one) for one in chunks) + whole[at:]


def gamma(value):
    return (b"gAMA", struct.pack(">I", round(100_000 * value)))


def chroma(points):
    return (b"cHRM", struct.pack(">8I", *(round(100_000 * v) for xy in (points[3], *points[:3]) for v in xy)))


def cicp(primaries, transfer, full=1):
    return (b"cICP", bytes([primaries, transfer, 0, full]))


def with_exif(form="JPEG", *, space=None, interop=None, turn=None):
    exif = Image.Exif()
    if turn:
        exif[0x0112] = turn
    if space:
        exif.get_ifd(0x8769)[0xA001] = space
    if interop:
        exif.get_ifd(0x8769)[0xA005] = {1: interop}
    return saved(PLAIN, form, exif=exif, **({"quality": 100, "subsampling": 0} if form == "JPEG" else {}))


def avif(primaries, transfer):
    content = saved(PLAIN, "AVIF", quality=100, subsampling="4:4:4")
    at = content.index(b"colrnclx") + 8
    return content[:at] + struct.pack(">HH", primaries, transfer) + content[at + 4 :]


# What Chromium 150 draws of SKIN, read from its canvas.
ADOBE_SKIN, P3_SKIN = (224, 121, 88), (213, 115, 83)
SHOWN = {
    "nothing": (png(), SKIN),
    "sRGB before gAMA": (png((b"sRGB", b"\0"), gamma(1)), SKIN),
    "gAMA of sRGB": (png(gamma(0.45455)), SKIN),
    "cHRM alone": (png(chroma(ADOBE)), SKIN),
    "gAMA of light": (png(gamma(1)), (229, 183, 160)),
    "gAMA and cHRM": (png(gamma(1 / 2.19921875), chroma(ADOBE)), ADOBE_SKIN),
    "cICP of Display P3": (png(cicp(12, 13)), P3_SKIN),
    "cICP before a profile": (png(cicp(1, 13), icc_profile=colour_profiles.adobe_rgb()), SKIN),
    "a profile before gAMA": (png(gamma(1), icc_profile=colour_profiles.adobe_rgb()), ADOBE_SKIN),
    "cICP of television": (png(cicp(1, 1)), (197, 113, 81)),
    "AVIF of Display P3": (avif(12, 13), P3_SKIN),
    "AVIF of sRGB": (avif(1, 13), SKIN),
    # Chromium takes these for sRGB: the colours of the twin with Adobe's profile.
    "EXIF of Adobe RGB": (with_exif(space=2), ADOBE_SKIN),
    "EXIF of another space, R03": (with_exif(space=0xFFFF, interop="R03"), ADOBE_SKIN),
    "EXIF of sRGB": (with_exif(space=1), SKIN),
    "WebP of Adobe RGB": (with_exif("WEBP", space=2), ADOBE_SKIN),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_colours_are_converted_as_they_are_declared(kind):
    content, expected = SHOWN[kind]
    lossy = 4 if "WebP" in kind else 1  # as WebP keeps colours at all
    assert np.abs(decode_picture(content, RULE).astype(int) - expected).max() <= lossy
    assert unused_profile(open_picture(content)) is None


NOT_CONVERTED = {
    "PQ": (png(cicp(9, 16)), r"HDR \(PQ\)"),
    "HLG": (png(cicp(9, 18)), r"HDR \(HLG\)"),
    "a narrow range": (png(cicp(12, 13, full=0)), "narrow range"),
    "a curve without a name": (png(cicp(1, 200)), "1/200 of H.273"),
    "an exponent of no screen": (png(gamma(0.001)), "exponent"),
    "primaries without colours": (png(gamma(1), chroma((SRGB[0],) * 3 + (SRGB[3],))), "none that light"),
    "primaries of nothing": (png(gamma(1), chroma(((0, 0),) * 4)), "none that light"),
    "EXIF of a space without a name": (with_exif(space=0xFFFF), "not sRGB"),
    "inks without a profile": (saved(PLAIN.convert("CMYK"), "JPEG"), "of inks"),
    "HEIC in PQ": (heic(nclx=(9, 16)), r"HDR \(PQ\)"),
    "AVIF in HLG": (avif(9, 18), r"HDR \(HLG\)"),
}


@pytest.mark.parametrize("kind", NOT_CONVERTED)
def test_what_is_not_converted_is_told(kind):
    content, why = NOT_CONVERTED[kind]
    assert re.search(why, unused_profile(open_picture(content)) or "")
    assert decode_picture(content, RULE).shape == (16, 16, 3)


def test_an_avif_whose_parts_declare_several_colours_is_told():
    content = avif(1, 13)
    box = b"\0\0\0\x18freecolrnclx" + struct.pack(">HHHB", 12, 13, 6, 128) + b"\0"
    at, end = next((begin, end) for name, begin, end in heif_boxes(content) if name == b"meta")
    grown = struct.pack(">I", end - at + len(box))
    both = content[:at] + grown + content[at + 4 : end] + box + content[end:]
    assert "several colour spaces" in unused_profile(open_picture(both))


def test_the_colours_of_an_avif_are_found_wherever_its_pixels_lie():
    """The box of the pixels may come first; their places do not matter for what is declared."""
    content = avif(12, 13)
    begin, end = {name: (begin, end) for name, begin, end in heif_boxes(content)}[b"mdat"]
    first = {name: end for name, _, end in heif_boxes(content)}[b"ftyp"]
    moved = content[:first] + content[begin:end] + content[first:begin]
    assert open_picture(moved).info["declared"] == open_picture(content).info["declared"]
    assert open_picture(moved).info["declared"].profile is not None


def test_heic_in_display_p3_is_converted():
    plain, wide = (decode_picture(heic(nclx=(name, 13)), RULE)[0, 0].astype(int) for name in (1, 12))
    twin = saved(Image.new("RGB", (16, 16), tuple(plain)), icc_profile=colour_profiles.display_p3())
    assert np.abs(wide - decode_picture(twin, RULE)[0, 0]).max() <= 1
    assert np.abs(wide - plain).max() > 5


@given(
    points=st.tuples(*[st.tuples(st.floats(0.01, 0.9), st.floats(0.01, 0.9))] * 4),
    exponent=st.sampled_from([0.0, 0.2, 1.0, 2.2, 10.0]),
)
def test_a_profile_is_made_or_refused_of_whatever_is_declared(points, exponent):
    whole = png(gamma(1 / exponent if exponent else 0.45455), chroma(points))
    assert decode_picture(whole, RULE).shape == (16, 16, 3)


def test_a_profile_that_is_made_is_that_of_its_definition():
    made = saved(PLAIN, icc_profile=profile_of(P3, 0.0))
    known = saved(PLAIN, icc_profile=colour_profiles.display_p3())
    assert np.abs(decode_picture(made, RULE).astype(int) - decode_picture(known, RULE)).max() <= 1


def exif_of(turn):
    exif = Image.Exif()
    exif[0x0112] = turn
    return exif.tobytes().removeprefix(b"Exif\0\0")


def segment(turn):
    data = b"Exif\0\0" + exif_of(turn)
    return b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data


XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
WIDE = quarters()
JPEG = saved(WIDE, "JPEG")


def texted(name, value):
    info = PngImagePlugin.PngInfo()
    info.add_text(name, value)
    return saved(WIDE, pnginfo=info)


raw = f"\nexif\n{len(exif_of(6))}\n{(b'Exif' + bytes(2) + exif_of(6)).hex()}\n"
PLACES = {  # as Chromium 150 turns them
    "JPEG, the first EXIF": (JPEG[:2] + segment(6) + segment(1) + JPEG[2:], 6),
    "JPEG, the second EXIF": (JPEG[:2] + segment(1) + segment(6) + JPEG[2:], 1),
    "JPEG, EXIF behind the pixels": (JPEG[:-2] + segment(6) + JPEG[-2:], 1),
    "JPEG, a turn that is none": (JPEG[:2] + segment(9) + JPEG[2:], 1),
    "JPEG, XMP": (saved(WIDE, "JPEG", xmp=XMP), 1),
    "PNG, the first eXIf": (png((b"eXIf", exif_of(6)), (b"eXIf", exif_of(8)), image=WIDE), 6),
    "PNG, eXIf behind the pixels": (png((b"eXIf", exif_of(6)), image=WIDE, behind=True), 1),
    "PNG, EXIF in a text": (texted("Raw profile type exif", raw), 1),
    "PNG, XMP": (texted("XML:com.adobe.xmp", XMP.decode()), 1),
    "WebP, EXIF": (saved(WIDE, "WEBP", exif=exif_of(6)), 1),
    "WebP, XMP": (saved(WIDE, "WEBP", xmp=XMP), 1),
    "AVIF, irot": (saved(WIDE, "AVIF", exif=b"Exif\0\0" + exif_of(6)), 6),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_picture_is_turned_by_what_browsers_look_at(place):
    content, turn = PLACES[place]
    opened = open_picture(content)
    assert opened.info["declared"].turn == turn
    expected = WIDE.transpose(Image.Transpose.ROTATE_270) if turn == 6 else WIDE
    if turn in (1, 6):
        found = decode_picture(content, RULE).astype(int)
        assert (
            np.abs(found - decode_picture(saved(expected), RULE))[[1, 1, -2, -2], [1, -2, 1, -2]].max() <= 6
        )


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 6, 8])
def test_heic_is_turned_by_its_boxes(turn):
    """Its decoder has turned it: what is opened is as it is looked at."""
    how = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 6: "ROTATE_270", 8: "ROTATE_90"}
    expected = WIDE.transpose(Image.Transpose[how[turn]]) if turn > 1 else WIDE
    opened = open_picture(heic(turn))
    assert (opened.size, opened.info["declared"].turn) == (expected.size, 1)
    found = decode_picture(heic(turn), RULE).astype(int)
    assert np.abs(found - decode_picture(saved(expected), RULE))[[1, 1, -2, -2], [1, -2, 1, -2]].max() <= 2


@pytest.mark.parametrize("content", [heic(), saved(WIDE, "AVIF")], ids=["HEIC", "AVIF"])
def test_heic_and_avif_are_refused_where_they_are_cut(content):
    for length in range(len(content)):
        with pytest.raises(PictureError):
            decode_picture(content[:length], RULE)
    with pytest.raises(TruncatedPicture, match="that its boxes promise"):
        decode_picture(content[:-5], RULE)


@pytest.mark.parametrize("content", [heic(), saved(WIDE, "AVIF")], ids=["HEIC", "AVIF"])
@given(
    changes=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6
    )
)
def test_spoilt_heic_and_avif_give_a_picture_or_a_picture_error(content, changes):
    spoilt = bytearray(content)
    for place, value in changes:
        spoilt[int(place * len(spoilt))] = value
    try:
        pixels = decode_picture(bytes(spoilt), PictureRule(size=8, max_pixels=10_000))
    except PictureError:
        return
    assert pixels.shape == (8, 8, 3)


def test_sequences_are_refused():
    moving = saved(WIDE, "AVIF", save_all=True, append_images=[WIDE.rotate(90, expand=False)])
    for content in (moving, heic().replace(b"ftypheix", b"ftyphevx")):
        with pytest.raises(UnsupportedPicture, match="one frame that is meant"):
            decode_picture(content, RULE)


@pytest.mark.parametrize("form", ["PNG", "WEBP", "AVIF"])
def test_alpha_is_laid_over_white_whatever_lies_below(form):
    image, alpha = Image.fromarray(noise(16, 16, 3)), Image.new("L", (16, 16), 255)
    alpha.paste(0, (0, 0, 4, 16))
    clear = image.copy()
    clear.putalpha(alpha)
    options = {"PNG": {}, "WEBP": {"lossless": True, "exact": True}, "AVIF": {"quality": 100}}[form]
    found = decode_picture(saved(clear, form, **options), RULE)
    assert (found[:, :3] >= 254).all()
    opaque = image.convert("RGBA")
    assert np.array_equal(
        decode_picture(saved(opaque, form, **options), RULE),
        decode_picture(saved(image, form, **options), RULE),
    )


def test_a_palette_picture_without_its_palette_is_refused():
    whole = saved(WIDE.quantize(8))
    at = whole.index(b"PLTE") - 4
    length = int.from_bytes(whole[at : at + 4], "big")
    with pytest.raises(PictureError):
        decode_picture(whole[:at] + whole[at + 12 + length :], RULE)
    assert decode_picture(whole, RULE).shape == (16, 16, 3)


def test_what_is_opened_by_other_readers_is_no_concern_of_this_process():
    """HEIC is read by name: Pillow's own table of formats has no reader more."""
    decode_picture(heic(), RULE)
    with pytest.raises(Image.UnidentifiedImageError):
        Image.open(io.BytesIO(heic()))
