"""Every kind of DICOM file that is accepted: against the picture it was made of, or another library."""

import io

import gdcm
import jpeg_ls
import numpy as np
import pytest
from PIL import Image
from pydicom import dcmread, uid
from pydicom.encaps import get_frame
from pydicom.pixels import apply_color_lut

from registry.bundle.errors import DamagedPicture, PictureError, TruncatedPicture, UnsupportedPicture
from registry.bundle.pictures.dicom import SOP_CLASSES, is_dermoscopic
from registry.bundle.pictures.open_file import open_picture, picture_format
from registry.bundle.pictures.rule import PictureRule, decode_picture, unused_profile
from tests import colour_profiles
from tests.dicom_files import dicom_file, noise, saved

RULE = PictureRule(size=16)
SIZE = (16, 16)
COLOURS, GREYS, DEEP = noise(16, 16, 3), noise(16, 16), noise(16, 16, dtype=np.uint16)


def seen(content, frame=None):
    return decode_picture(content, RULE, frame).astype(int)


def jpeg_2000(pixels, **options):
    return saved(pixels, "JPEG2000", no_jp2=True, **options)


def run_lengths(pixels):
    planes = [pixels] if pixels.ndim == 2 else list(pixels.transpose(2, 0, 1))
    raw = [np.packbits(np.unpackbits(plane)).tobytes() for plane in planes]
    segments = []
    for plane in raw:
        pieces = [plane[at : at + 128] for at in range(0, len(plane), 128)]
        segments.append(b"".join(bytes([len(piece) - 1]) + piece for piece in pieces))
    starts, at = [], 64
    for segment in segments:
        starts.append(at)
        at += len(segment)
    head = np.array([len(segments), *starts] + [0] * (15 - len(starts)), "<u4").tobytes()
    return head + b"".join(segments)


J2K, LS, RLE = uid.JPEG2000Lossless, uid.JPEGLSLossless, uid.RLELossless
PACKED = {
    "JPEG 2000, RGB": (jpeg_2000(COLOURS, mct=0), "RGB", J2K, COLOURS),
    "JPEG 2000, YBR_RCT": (jpeg_2000(COLOURS, mct=1), "YBR_RCT", J2K, COLOURS),
    "JPEG 2000, grey": (jpeg_2000(GREYS), "MONOCHROME2", J2K, GREYS),
    "JPEG-LS, RGB": (jpeg_ls.encode_array(COLOURS, interleave_mode=2), "RGB", LS, COLOURS),
    "JPEG-LS, grey": (jpeg_ls.encode_array(GREYS), "MONOCHROME2", LS, GREYS),
    "RLE, RGB": (run_lengths(COLOURS), "RGB", RLE, COLOURS),
    "RLE, grey": (run_lengths(GREYS), "MONOCHROME2", RLE, GREYS),
}


@pytest.mark.parametrize("kind", PACKED)
def test_what_is_packed_without_loss_is_the_picture_it_was_made_of(kind):
    packed, photometric, syntax, pixels = PACKED[kind]
    found = seen(dicom_file(bytes(packed), photometric, syntax, size=SIZE))
    np.testing.assert_array_equal(found, seen(saved(pixels)))


def lossless_jpeg(content, tmp_path):
    """The same file with its pixels as JPEG Lossless, by GDCM."""
    (tmp_path / "open.dcm").write_bytes(content)
    reader, change, writer = gdcm.ImageReader(), gdcm.ImageChangeTransferSyntax(), gdcm.ImageWriter()
    reader.SetFileName(str(tmp_path / "open.dcm"))
    assert reader.Read()
    change.SetTransferSyntax(gdcm.TransferSyntax(gdcm.TransferSyntax.JPEGLosslessProcess14_1))
    change.SetInput(reader.GetImage())
    assert change.Change()
    writer.SetFileName(str(tmp_path / "packed.dcm"))
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    assert writer.Write()
    return (tmp_path / "packed.dcm").read_bytes()


@pytest.mark.parametrize(("photometric", "pixels"), [("RGB", COLOURS), ("MONOCHROME2", GREYS)])
def test_jpeg_lossless_is_the_picture_it_was_made_of(tmp_path, photometric, pixels):
    content = lossless_jpeg(dicom_file(pixels, photometric), tmp_path)
    assert dcmread(io.BytesIO(content)).file_meta.TransferSyntaxUID == uid.JPEGLosslessSV1
    np.testing.assert_array_equal(seen(content), seen(saved(pixels)))


def test_a_lossless_jpeg_that_does_not_say_its_colours_has_those_that_libjpeg_takes_it_for(tmp_path):
    packed = dcmread(io.BytesIO(lossless_jpeg(dicom_file(COLOURS), tmp_path))).PixelData
    marked = get_frame(packed, 0, number_of_frames=1)
    assert marked[2:4] == b"\xff\xee"
    bare = marked[:2] + marked[4 + int.from_bytes(marked[4:6], "big") :]
    found = seen(dicom_file(bare, "RGB", uid.JPEGLosslessSV1, size=SIZE))
    np.testing.assert_array_equal(found, seen(saved(COLOURS)))
    with pytest.raises(DamagedPicture, match="the JPEG does not say so"):
        seen(dicom_file(bare, "YBR_FULL", uid.JPEGLosslessSV1, size=SIZE))


@pytest.mark.parametrize("syntax", [uid.JPEGBaseline8Bit, uid.JPEGExtended12Bit])
def test_a_grey_jpeg_is_white_where_it_is_zero_if_the_file_says_so(syntax):
    smooth = Image.fromarray(noise(4, 4)).resize(SIZE, Image.Resampling.BICUBIC)
    jpeg = saved(smooth, "JPEG", quality=95)
    shown = seen(dicom_file(jpeg, "MONOCHROME1", syntax, size=SIZE))
    np.testing.assert_array_equal(shown, 255 - seen(jpeg))


@pytest.mark.parametrize("kind", ["extended", "lossless"])
def test_a_jpeg_that_is_cut_is_refused_whatever_mark_it_ends_with(tmp_path, kind):
    """libjpeg fills what is missing; GDCM, which has the same library, says nothing of it."""
    whole, photometric, syntax = saved(Image.fromarray(COLOURS), "JPEG", subsampling=0), "YBR_FULL", "51"
    if kind == "lossless":
        packed = dcmread(io.BytesIO(lossless_jpeg(dicom_file(COLOURS), tmp_path))).PixelData
        whole, photometric, syntax = get_frame(packed, 0, number_of_frames=1), "RGB", "70"
    syntax = f"1.2.840.10008.1.2.4.{syntax}"
    assert seen(dicom_file(whole, photometric, syntax, size=SIZE)).shape == (16, 16, 3)
    for share in (0.5, 0.7, 0.9):
        for mark in (b"", b"\xff\xd9"):
            cut = dicom_file(whole[: int(share * len(whole))] + mark, photometric, syntax, size=SIZE)
            with pytest.raises(PictureError):
                seen(cut)


@pytest.mark.parametrize("bits", [12, 16])
def test_of_packed_greys_of_many_bits_the_upper_eight_are_kept(bits):
    pixels = DEEP >> (16 - bits)
    options = {"size": SIZE, "stored": bits, "BitsAllocated": 16, "HighBit": bits - 1, "BitsStored": bits}
    found = seen(dicom_file(bytes(jpeg_ls.encode_array(pixels)), "MONOCHROME2", LS, **options))
    np.testing.assert_array_equal(found[..., 0], pixels >> (bits - 8))


def test_lossy_ones_are_what_another_library_makes_of_them():
    """JPEG 2000 and JPEG-LS by GDCM, JPEG Extended by Pillow."""
    smooth = np.asarray(Image.fromarray(noise(4, 4, 3)).resize(SIZE, Image.Resampling.BICUBIC))
    lossy = jpeg_2000(smooth, irreversible=True, quality_layers=[20])
    near = bytes(jpeg_ls.encode_array(smooth, lossy_error=3, interleave_mode=2))
    for packed, photometric, syntax in (
        (lossy, "YBR_ICT", uid.JPEG2000),
        (near, "RGB", uid.JPEGLSNearLossless),
    ):
        content = dicom_file(packed, photometric, syntax, size=SIZE)
        dataset = dcmread(io.BytesIO(content))
        dataset.pixel_array_options(decoding_plugin="gdcm")
        assert np.abs(seen(content) - dataset.pixel_array).max() <= 1, syntax
    jpeg = saved(smooth, "JPEG", quality=95, subsampling=0)
    content = dicom_file(jpeg, "YBR_FULL", uid.JPEGExtended12Bit, size=SIZE)
    assert np.abs(seen(content) - np.asarray(Image.open(io.BytesIO(jpeg)))).max() <= 1


def test_monochrome1_is_white_where_it_is_zero():
    np.testing.assert_array_equal(seen(dicom_file(GREYS, "MONOCHROME1")), seen(saved(255 - GREYS)))
    found = seen(dicom_file(DEEP, "MONOCHROME1"))
    np.testing.assert_array_equal(found[..., 0], 255 - (DEEP >> 8))


def with_palette(bits, entries=256, first=0, short=0):
    colours = np.random.default_rng(3).integers(0, 2**bits, (3, entries))

    def edit(dataset):
        for name, column in zip(("Red", "Green", "Blue"), colours, strict=True):
            setattr(dataset, f"{name}PaletteColorLookupTableDescriptor", [entries % 65536, first, bits])
            data = column.astype("<u2" if bits == 16 else np.uint8).tobytes()
            setattr(dataset, f"{name}PaletteColorLookupTableData", data[: len(data) - short])

    return edit


@pytest.mark.parametrize(("bits", "entries", "first"), [(8, 256, 0), (16, 256, 0), (16, 100, 40)])
def test_a_palette_is_what_pydicom_makes_of_it(bits, entries, first):
    content = dicom_file(GREYS, "PALETTE COLOR", edit=with_palette(bits, entries, first))
    expected = apply_color_lut(GREYS, dcmread(io.BytesIO(content)))
    assert np.abs(seen(content) - (expected >> 8 if bits == 16 else expected)).max() <= 1


def test_a_palette_that_is_cut_is_refused():
    content = dicom_file(GREYS, "PALETTE COLOR", edit=with_palette(16, short=400))
    with pytest.raises(DamagedPicture, match="no whole palette"):
        seen(content)


def test_ycbcr_of_television_is_widened():
    """PS3.3, C.7.6.3.1.2: black is 16, white 235."""
    pixels = np.full((2, 4, 3), 128, np.uint8)
    pixels[0, :, 0], pixels[1, :, 0] = 16, 235
    packed = bytes(value for y in (16, 235) for _ in range(2) for value in (y, y, 128, 128))
    content = dicom_file(packed, "YBR_PARTIAL_422", size=(4, 2))
    found = decode_picture(content, PictureRule(size=8))
    assert (found[0] == 0).all()
    assert (found[-1] == 255).all()


@pytest.mark.parametrize("name", SOP_CLASSES)
def test_each_class_is_accepted_and_one_alone_is_dermoscopic(name):
    content = dicom_file(COLOURS, SOPClassUID=name)
    np.testing.assert_array_equal(seen(content), seen(saved(COLOURS)))
    assert is_dermoscopic(content) == (name == uid.DermoscopicPhotographyImageStorage)


FRAMES = [noise(16, 16, 3, seed=seed) for seed in range(3)]


def several(packed=False, **values):
    values = {"NumberOfFrames": 3, **values}
    if packed:
        return dicom_file([jpeg_2000(one) for one in FRAMES], "YBR_RCT", J2K, size=SIZE, **values)
    return dicom_file(b"".join(one.tobytes() for one in FRAMES), size=SIZE, **values)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("frame", [1, 2, 3])
def test_a_frame_is_chosen_by_its_number(packed, frame):
    content = several(packed)
    assert open_picture(content, frame).info["frames"] == 3
    np.testing.assert_array_equal(seen(content, frame), seen(saved(FRAMES[frame - 1])))


def test_frames_that_are_not_named_or_not_there_are_refused():
    with pytest.raises(UnsupportedPicture, match=r"holds 3 frames; name the one .*from 1 to 3.*`frame=all`"):
        seen(several())
    with pytest.raises(UnsupportedPicture, match=r"frame 4 .* holds 3"):
        seen(several(), 4)
    with pytest.raises(DamagedPicture, match="4 times 16 x 16"):
        seen(several(NumberOfFrames=4), 1)
    with pytest.raises(DamagedPicture, match=r"not those of 4 frames|no number"):
        seen(several(packed=True, NumberOfFrames=4), 4)


def test_a_file_may_have_a_preamble_of_another_format_or_none():
    whole = dicom_file(COLOURS, preamble=b"II*\0" + bytes(124))
    implicit = dicom_file(COLOURS, syntax=uid.ImplicitVRLittleEndian)
    expected = seen(saved(COLOURS))

    def data_set(content):
        return content[144 + int.from_bytes(content[140:144], "little") :]

    for content in (whole, whole[132:], data_set(whole), data_set(implicit)):
        assert picture_format(content) == "DICOM"
        np.testing.assert_array_equal(seen(content), expected)
    with pytest.raises(PictureError):
        seen(whole[132:-20])


def test_a_jpeg_2000_that_is_cut_is_refused_and_not_filled_with_green():
    whole = jpeg_2000(np.asarray(Image.fromarray(noise(8, 8, 3)).resize((64, 64))))
    for share in (0.3, 0.6, 0.95):
        content = dicom_file(whole[: int(share * len(whole))], "YBR_RCT", J2K, size=(64, 64))
        with pytest.raises(TruncatedPicture, match="JPEG 2000 Lossless in the DICOM file ends early"):
            seen(content)


@pytest.mark.parametrize("kind", PACKED)
def test_packed_pixels_that_are_cut_are_refused(kind):
    packed, photometric, syntax, _ = PACKED[kind]
    for share in (0.3, 0.6, 0.9):
        content = dicom_file(bytes(packed)[: int(share * len(packed))], photometric, syntax, size=SIZE)
        with pytest.raises(PictureError):
            seen(content)


@pytest.mark.parametrize("said", ["YES", "NO", None])
def test_texts_in_the_pixels_are_known_where_the_file_says_so(said):
    content = dicom_file(COLOURS, **({"BurnedInAnnotation": said} if said else {}))
    assert open_picture(content).info["burned_in"] == (said == "YES")


def test_a_colour_space_without_a_profile_is_converted_or_told():
    adobe = dicom_file(COLOURS, ColorSpace="ADOBERGB")
    twin = saved(Image.fromarray(COLOURS), icc_profile=colour_profiles.adobe_rgb())
    assert np.abs(seen(adobe) - seen(twin)).max() <= 1
    assert unused_profile(open_picture(adobe)) is None
    assert "ROMMRGB" in unused_profile(open_picture(dicom_file(COLOURS, ColorSpace="ROMMRGB")))
    assert unused_profile(open_picture(dicom_file(COLOURS, ColorSpace="SRGB"))) is None
