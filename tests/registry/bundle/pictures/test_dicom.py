import sys
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pydicom import uid
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

from registry.bundle.errors import (
    DamagedPicture,
    NotAPicture,
    PictureError,
    PictureTooLarge,
    TruncatedPicture,
    UnsupportedPicture,
)
from registry.bundle.pictures.dicom import is_dermoscopic
from registry.bundle.pictures.open_file import open_picture, picture_format
from registry.bundle.pictures.rule import PictureRule, decode_picture
from tests.dicom_files import PATIENT, dicom_file, noise, saved

RULE = PictureRule(size=16)
NATIVE = (uid.ExplicitVRLittleEndian, uid.ImplicitVRLittleEndian, uid.DeflatedExplicitVRLittleEndian)
JPEG = uid.JPEGBaseline8Bit


def same(dicom: bytes, other: bytes, rule: PictureRule = RULE) -> None:
    np.testing.assert_array_equal(decode_picture(dicom, rule), decode_picture(other, rule))


@pytest.mark.parametrize("syntax", NATIVE)
@pytest.mark.parametrize("planar", [0, 1])
@pytest.mark.parametrize("size", [(16, 16), (31, 47), (8, 1), (1, 1)])
@pytest.mark.parametrize("fit", ["squash", "crop"])
def test_colours_are_those_of_the_same_picture_as_png(syntax, planar, size, fit):
    pixels = noise(*size, 3)
    same(dicom_file(pixels, syntax=syntax, planar=planar), saved(pixels), PictureRule(size=16, fit=fit))


@pytest.mark.parametrize("syntax", NATIVE)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_greys_are_those_of_the_same_picture_as_png(syntax, dtype):
    pixels = noise(31, 47, dtype=dtype)
    same(dicom_file(pixels, "MONOCHROME2", syntax), saved(pixels))


def test_of_twelve_bits_the_upper_eight_are_kept_and_what_lies_above_is_not_looked_at():
    pixels = noise(16, 16, dtype=np.uint16)
    found = decode_picture(dicom_file(pixels, "MONOCHROME2", stored=12), RULE)
    np.testing.assert_array_equal(found[..., 0], (pixels % 4096) // 16)


@pytest.mark.parametrize("planar", [0, 1])
def test_ycbcr_becomes_rgb_by_the_equations_of_jpeg(planar):
    """JFIF 1.02: R = Y + 1.402 (Cr − 128), G = Y − 0.344136 (Cb − 128) − 0.714136 (Cr − 128), and so on."""
    pixels = noise(16, 16, 3)
    y, cb, cr = (pixels[..., n].astype(float) - (0, 128, 128)[n] for n in range(3))
    rgb = np.stack([y + 1.402 * cr, y - 0.344136 * cb - 0.714136 * cr, y + 1.772 * cb], axis=-1)
    found = decode_picture(dicom_file(pixels, "YBR_FULL", planar=planar), RULE)
    assert np.abs(found - rgb.clip(0, 255)).max() <= 1.5


@pytest.mark.parametrize("syntax", NATIVE)
def test_two_pixels_that_share_their_colour(syntax):
    """PS3.3, C.7.6.3.1.2: Y1 Y2 Cb Cr."""
    luma, colour = noise(16, 20), noise(16, 10, 2, seed=1)
    packed = bytearray()
    for row in range(16):
        for pair in range(10):
            packed += bytes([*luma[row, 2 * pair : 2 * pair + 2], *colour[row, pair]])
    whole = np.dstack([luma, colour.repeat(2, axis=1)])
    same(
        dicom_file(bytes(packed), "YBR_FULL_422", syntax, size=(20, 16)),
        dicom_file(whole, "YBR_FULL"),
    )


def photograph(width: int, height: int, mode: str = "RGB") -> Image.Image:
    coarse = noise(4, 4, 3)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


@pytest.mark.parametrize("draft", [True, False])
@pytest.mark.parametrize("fragments", [1, 3])
@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"subsampling": 0}, {"exif": turned()}, {"quality": 30}]
)
def test_a_jpeg_inside_is_decoded_as_the_jpeg_alone(draft, fragments, options):
    jpeg = saved(photograph(333, 251), "JPEG", **options)
    rule = PictureRule(size=16, draft=draft)
    same(dicom_file(jpeg, "YBR_FULL_422", JPEG, size=(333, 251), fragments=fragments), jpeg, rule)


def test_a_grey_jpeg_and_one_of_rgb_inside_are_too():
    grey = saved(photograph(40, 30, "L"), "JPEG")
    same(dicom_file(grey, "MONOCHROME2", JPEG, size=(40, 30)), grey)
    colours = saved(photograph(40, 30), "JPEG", keep_rgb=True)
    same(dicom_file(colours, "RGB", JPEG, size=(40, 30)), colours)


def unmarked(jpeg: bytes) -> bytes:
    """A JPEG without the segment that says what its samples are."""
    assert jpeg[2:4] in (b"\xff\xe0", b"\xff\xee")
    return jpeg[:2] + jpeg[4 + int.from_bytes(jpeg[4:6], "big") :]


def test_where_a_jpeg_says_nothing_of_its_colours_the_file_agrees_with_the_decoder():
    for options, photometric in (({}, "YBR_FULL_422"), ({"keep_rgb": True}, "RGB")):
        marked = saved(photograph(40, 30), "JPEG", **options)
        same(dicom_file(unmarked(marked), photometric, JPEG, size=(40, 30)), marked)


def test_sequences_private_elements_and_what_follows_the_pixels_are_stepped_over():
    def fill(dataset: Dataset) -> None:
        item = Dataset()
        item.CodeValue = "T-01000"
        item.is_undefined_length_sequence_item = True
        dataset.AnatomicRegionSequence = Sequence([item])
        dataset["AnatomicRegionSequence"].is_undefined_length = True
        dataset.private_block(0x0009, "SOMEBODY", create=True).add_new(1, "OB", bytes(100))
        dataset.DataSetTrailingPadding = bytes(10)

    pixels = noise(16, 16, 3)
    for syntax in NATIVE:
        same(dicom_file(pixels, syntax=syntax, edit=fill), saved(pixels))


def test_a_file_says_that_it_is_dermoscopic_before_its_first_sequence():
    dermoscopic = {"SOPClassUID": uid.DermoscopicPhotographyImageStorage}
    for syntax in NATIVE:
        assert is_dermoscopic(dicom_file(PIXELS, syntax=syntax, **dermoscopic))
        assert not is_dermoscopic(dicom_file(PIXELS, syntax=syntax))
    whole = dicom_file(PIXELS, **dermoscopic)
    many = b"\x08\0\6\0SQ\0\0\xff\xff\xff\xff" + b"\xfe\xff\0\xe0\0\0\0\0" * 100_000
    tracemalloc.start()
    assert not is_dermoscopic(head_of(whole) + many + data_set_of(whole))
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_a_header_tells_its_size_before_anything_is_decoded():
    image = open_picture(dicom_file(noise(30, 41, 3)))
    assert (image.width, image.height) == (41, 30)
    assert picture_format(dicom_file(noise(1, 1, 3))) == "DICOM"


PIXELS = noise(20, 24, 3)
SMALL = saved(photograph(24, 20), "JPEG")


def jpeg_file(jpeg: bytes = SMALL, photometric: str = "YBR_FULL_422", **options) -> bytes:
    return dicom_file(jpeg, photometric, JPEG, **{"size": (24, 20), **options})


def rewritten(content: bytes, tag: bytes, value: bytes) -> bytes:
    """Another value of the same length in an element with a short head."""
    at = content.index(tag) + 8
    return content[:at] + value + content[at + len(value) :]


def written_as(content: bytes, syntax: str) -> bytes:
    """Another transfer syntax, and all else as it is."""
    at = content.index(b"\x02\0\x10\0UI") + 6
    old = int.from_bytes(content[at : at + 2], "little")
    new = syntax.encode() + bytes(len(syntax) % 2)
    length = int.from_bytes(content[140:144], "little") + len(new) - old
    head = content[:140] + length.to_bytes(4, "little") + content[144:at] + len(new).to_bytes(2, "little")
    return head + new + content[at + 2 + old :]


def deflated(data_set: bytes) -> bytes:
    """A file with this data set, deflated."""
    whole = dicom_file(noise(1, 1, 3), syntax=uid.DeflatedExplicitVRLittleEndian)
    begin = 144 + int.from_bytes(whole[140:144], "little")
    deflate = zlib.compressobj(9, wbits=-15)
    return whole[:begin] + deflate.compress(data_set) + deflate.flush()


def head_of(content: bytes) -> bytes:
    return content[: 144 + int.from_bytes(content[140:144], "little")]


def data_set_of(content: bytes) -> bytes:
    return content[144 + int.from_bytes(content[140:144], "little") :]


ct = {"SOPClassUID": uid.CTImageStorage}
REFUSED = {
    "a CT": (
        lambda: dicom_file(PIXELS, **ct),
        UnsupportedPicture,
        "a CT Image Storage; accepted are VL Photo",
    ),
    "a class of nobody": (
        lambda: dicom_file(PIXELS, SOPClassUID="1.2.3.4"),
        UnsupportedPicture,
        "no name for",
    ),
    "no class": (lambda: dicom_file(PIXELS, SOPClassUID=None), DamagedPicture, r"SOPClassUID \(0008,0016\)"),
    "big endian": (
        lambda: written_as(dicom_file(PIXELS), uid.ExplicitVRBigEndian),
        UnsupportedPicture,
        "written as Explicit VR Big Endian; accepted are Implicit",
    ),
    "a JPEG that is said to be JPEG 2000": (
        lambda: dicom_file(SMALL, syntax=uid.JPEG2000Lossless, size=(24, 20)),
        DamagedPicture,
        "do not decode",
    ),
    "two frames": (lambda: dicom_file(PIXELS, NumberOfFrames=2), UnsupportedPicture, "holds 2 frames; name"),
    "a palette that is missing": (
        lambda: dicom_file(PIXELS[..., 0], "PALETTE COLOR"),
        DamagedPicture,
        "no whole palette",
    ),
    "colours of a printer": (lambda: dicom_file(PIXELS, "CMYK"), UnsupportedPicture, "is not one of RGB"),
    "colours of JPEG 2000 that lie open": (
        lambda: dicom_file(PIXELS, "YBR_ICT"),
        UnsupportedPicture,
        "not one that such pixels have",
    ),
    "deep colours": (
        lambda: dicom_file(noise(9, 9, 3, dtype=np.uint16)),
        UnsupportedPicture,
        "16 of 16 bits",
    ),
    "seven bits": (lambda: dicom_file(PIXELS, BitsStored=7), UnsupportedPicture, "7 of 8 bits"),
    "signed samples": (
        lambda: dicom_file(PIXELS, PixelRepresentation=1),
        DamagedPicture,
        "PixelRepresentation",
    ),
    "another high bit": (
        lambda: dicom_file(PIXELS, HighBit=5),
        DamagedPicture,
        r"HighBit \(0028,0102\) is 5",
    ),
    "four samples": (lambda: dicom_file(PIXELS, SamplesPerPixel=4), DamagedPicture, "SamplesPerPixel"),
    "no rows": (lambda: dicom_file(PIXELS, Rows=0), DamagedPicture, r"Rows \(0\)"),
    "shared colours of an odd width": (
        lambda: dicom_file(bytes(6 * 9), "YBR_FULL_422", size=(9, 3)),
        DamagedPicture,
        "YBR_FULL_422 can have",
    ),
    "too many rows": (lambda: dicom_file(PIXELS, Rows=21), DamagedPicture, "1,440 bytes of pixels; 24 x 21"),
    "no pixels": (lambda: dicom_file(PIXELS, PixelData=None), DamagedPicture, r"no PixelData \(7FE0,0010\)"),
    "pixels that end early": (lambda: dicom_file(PIXELS)[:-20], TruncatedPicture, "promises 1,440 bytes"),
    "something behind": (
        lambda: dicom_file(PIXELS) + b"MZ\x90\0",
        TruncatedPicture,
        "ends within an element",
    ),
    "deflated pixels that end early": (
        lambda: deflated(data_set_of(dicom_file(PIXELS))[:-20]),
        TruncatedPicture,
        "promises 1,440 bytes",
    ),
    "what does not inflate": (
        lambda: deflated(b"")[:-2] + b"\xff" * 50,
        DamagedPicture,
        "does not decode",
    ),
    "a JPEG that is said to lie open": (
        lambda: written_as(jpeg_file(), uid.ExplicitVRLittleEndian),
        DamagedPicture,
        "as its transfer syntax says",
    ),
    "a JPEG that is a PNG": (lambda: jpeg_file(saved(PIXELS)), DamagedPicture, "are none"),
    "a JPEG of another size": (lambda: jpeg_file(size=(24, 21)), DamagedPicture, "has 24 x 20 pixels"),
    "a JPEG of other samples": (lambda: jpeg_file(photometric="MONOCHROME2"), DamagedPicture, "of 3 samples"),
    "a JPEG of unsaid colours": (
        lambda: jpeg_file(unmarked(SMALL), "RGB"),
        DamagedPicture,
        "is RGB; the JPEG does not say so",
    ),
    "a JPEG cut short": (lambda: jpeg_file(SMALL[: len(SMALL) // 2]), TruncatedPicture, "end early"),
    "no JPEG": (lambda: jpeg_file(b"\xff\xd8\xff" + bytes(99)), DamagedPicture, "does not decode"),
    "a number of two": (
        lambda: dicom_file(PIXELS, edit=lambda d: d.add_new(0x00280010, "US", [20, 20])),
        DamagedPicture,
        "is not one number",
    ),
    "a number that is a text": (
        lambda: dicom_file(PIXELS, edit=lambda d: d.add_new(0x00280010, "SH", "20")),
        DamagedPicture,
        "value representation US",
    ),
    "a class that is none": (
        lambda: rewritten(dicom_file(PIXELS), b"\x08\0\x16\0UI", b"Doe^Jane"),
        DamagedPicture,
        "SOPClassUID .* is no UID",
    ),
    "no preamble, and the mark alone": (lambda: dicom_file(PIXELS)[128:], NotAPicture, "no picture"),
    "no more than the mark": (lambda: bytes(128) + b"DICM", DamagedPicture, "no TransferSyntaxUID"),
    "sequences without end": (
        lambda: (
            head_of(dicom_file(PIXELS))
            + b"\x08\0\0\1SQ\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\xff\xff\xff\xff" * 9000
        ),
        UnsupportedPicture,
        "nests sequences",
    ),
    "an element twice": (
        lambda: dicom_file(PIXELS).replace(b"\x28\0\x11\0US", b"\x28\0\x10\0US"),
        DamagedPicture,
        r"\(0028,0010\) stands where it must not",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why_and_nothing_of_the_patient(name, caplog):
    make, error, said = REFUSED[name]
    with pytest.raises(error, match=said) as refused:
        decode_picture(make(), RULE)
    assert type(refused.value) is error
    assert PATIENT.partition("^")[0] not in str(refused.value)
    assert not caplog.records


@pytest.mark.parametrize(
    "name",
    sorted(
        {"SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "Rows", "Columns"}
        | {"BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"}
    ),
)
@pytest.mark.parametrize("syntax", NATIVE)
def test_what_a_file_must_have_is_named_where_it_is_missing(name, syntax):
    with pytest.raises(DamagedPicture, match=f"has no {name} .0028,"):
        decode_picture(dicom_file(PIXELS, syntax=syntax, **{name: None}), RULE)


def test_pixels_are_counted_before_any_is_looked_at():
    claims = {"Rows": 65_000, "Columns": 65_000}
    tracemalloc.start()
    for syntax in NATIVE:
        with pytest.raises(PictureTooLarge, match="65000 x 65000"):
            decode_picture(dicom_file(PIXELS, syntax=syntax, **claims), RULE)
    jpeg = SMALL.replace(b"\0\x14\0\x18", b"\xfd\xe8\xfd\xe8", 1)
    with pytest.raises(PictureTooLarge, match="65000 x 65000"):
        decode_picture(jpeg_file(jpeg, **claims), RULE)
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    small = PictureRule(size=16, max_pixels=20 * 24 - 1)
    with pytest.raises(PictureTooLarge, match="24 x 20"):
        decode_picture(dicom_file(PIXELS), small)


def test_what_inflates_without_end_is_not_inflated(monkeypatch):
    monkeypatch.setattr("registry.bundle.pictures.dicom.MAX_INFLATED", 2**22)
    bomb = deflated(b"\x09\0\x01\0OB\0\0" + (2**26).to_bytes(4, "little") + bytes(2**26))
    tracemalloc.start()
    with pytest.raises(PictureTooLarge):
        decode_picture(bomb, RULE)
    assert tracemalloc.get_traced_memory()[1] < 3 * 2**22
    tracemalloc.stop()
    same(dicom_file(PIXELS, syntax=NATIVE[2]), saved(PIXELS))


FILES = {
    "raw": dicom_file(PIXELS),
    "implicit": dicom_file(PIXELS, syntax=NATIVE[1]),
    "deflated": dicom_file(PIXELS, syntax=NATIVE[2]),
    "jpeg": jpeg_file(fragments=2),
    "paired": dicom_file(bytes(24 * 20 * 2), "YBR_FULL_422", size=(24, 20)),
    "deep": dicom_file(noise(20, 24, dtype=np.uint16), "MONOCHROME2"),
}


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # of damaged EXIF, and goes on
@given(
    name=st.sampled_from(sorted(FILES)),
    changes=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6
    ),
    reach=st.sampled_from([400, 10_000]),
)
@settings(max_examples=400)
def test_spoilt_bytes_give_a_picture_or_a_picture_error(name, changes, reach):
    content = bytearray(FILES[name])
    reach = min(reach, len(content) - 132)
    for place, value in changes:
        content[132 + int(place * reach)] = value
    try:
        pixels = decode_picture(bytes(content), PictureRule(size=8, max_pixels=10_000))
    except PictureError:
        return
    assert pixels.shape == (8, 8, 3)


@pytest.mark.parametrize("name", FILES)
def test_no_beginning_of_a_file_is_taken_for_it(name):
    content = FILES[name]
    # zlib's last bytes say no more than that the data end.
    whole = len(content) - (8 if name == "deflated" else 0)
    for length in [*range(0, min(whole, 700)), *range(700, whole, 37), whole - 1]:
        with pytest.raises(PictureError):
            decode_picture(content[:length], RULE)


def test_without_the_extra_the_way_to_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(UnsupportedPicture, match=r'pip install "dermfed\[dicom\]"'):
        decode_picture(FILES["raw"], RULE)
    assert not is_dermoscopic(FILES["raw"])
    same(SMALL, SMALL)
