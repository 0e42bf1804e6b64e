"""Sound pictures as hospitals' archives and phones have them, for a mutator: DICOM, HEIC and AVIF."""

import io

import jpeg_ls
import numpy as np
from PIL import Image
from pydicom import dcmread, uid

from tests.dicom_files import dicom_file, noise, saved
from tests.heif_files import heic, quarters

SIZE = (96, 64)


def packed_by_run_lengths(content: bytes) -> bytes:
    """The same file with its pixels as RLE, by pydicom."""
    dataset, file = dcmread(io.BytesIO(content)), io.BytesIO()
    dataset.compress(uid.RLELossless)
    dataset.save_as(file)
    return file.getvalue()


def archived() -> list[bytes]:
    """One of each kind."""
    image = Image.fromarray(noise(8, 12, 3)).resize(SIZE, Image.Resampling.BICUBIC)
    pixels = np.asarray(image)
    jpeg = saved(image, "JPEG")
    wavelets = saved(image, "JPEG2000", no_jp2=True, mct=1)
    return [
        heic(),
        heic(6),
        saved(quarters(), "AVIF"),
        saved(image.convert("RGBA"), "AVIF"),
        dicom_file(pixels),
        dicom_file(pixels, syntax=uid.ImplicitVRLittleEndian),
        dicom_file(pixels, syntax=uid.DeflatedExplicitVRLittleEndian),
        dicom_file(pixels, preamble=b"II*\0" + bytes(124)),
        dicom_file(pixels[..., 0], "MONOCHROME1"),
        dicom_file(jpeg, "YBR_FULL_422", uid.JPEGBaseline8Bit, size=SIZE),
        dicom_file(jpeg, "YBR_FULL_422", uid.JPEGExtended12Bit, size=SIZE),
        dicom_file(wavelets, "YBR_RCT", uid.JPEG2000Lossless, size=SIZE),
        packed_by_run_lengths(dicom_file(pixels)),
        dicom_file(pixels)[132:],
        dicom_file(
            bytes(jpeg_ls.encode_array(pixels, interleave_mode=2)), "RGB", uid.JPEGLSLossless, size=SIZE
        ),
    ]
