"""Opens a photograph in a DICOM file as a Pillow image, which is then a picture like any other.

A JPEG inside goes the way of every JPEG, draft mode and all. Pixels that lie as they are are unpacked by
pydicom's decoders, once the picture rule's ceiling has been held against Rows and Columns. The lowest
`BitsStored` bits are the sample; of more than eight the upper eight are kept, as of a deep PNG. YCbCr
becomes RGB by the equations of JPEG. Look-up tables and windows are not applied. The file's colour profile
goes where Pillow keeps that of other files; the file's goes before that of a JPEG inside.

pydicom comes with the extra `dicom`, and is imported when the first such file is. Its parser is not used: it
builds whatever a file asks for (`registry.bundle.pictures.dicom.elements` does not).
"""

import io
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin

from registry.bundle.errors import DamagedPicture, PictureError, UnsupportedPicture
from registry.bundle.pictures.dicom.frame import EXPLICIT, Frame, RawPixels, read_frame
from registry.bundle.pictures.piece_limits import refuse_many_parts

EXTRA: Final = 'pip install "dermfed[dicom]"'
"""The command that installs pydicom."""


def open_dicom(content: bytes) -> Image.Image:
    """Opens the picture in a DICOM file: its header is read, and nothing decoded.

    Raises:
        UnsupportedPicture: pydicom is not installed, or a file that holds no photograph of one frame.
        DamagedPicture: it lacks what it must have, or contradicts itself.
        TruncatedPicture: it ends early.
        PictureTooLarge: it would inflate to too much.
    """
    decoder = _decoder()
    frame = read_frame(content)
    if isinstance(frame.pixels, RawPixels):
        image: Image.Image = _Unpacked(frame, frame.pixels, decoder)
    else:
        image = _open_jpeg(frame, frame.pixels)
    if frame.profile is not None:
        image.info["icc_profile"] = frame.profile
    return image


def is_dermoscopic(content: bytes) -> bool:
    """Whether this is a DICOM file that says of itself that it is a dermoscopic picture."""
    if content[128:132] != b"DICM":
        return False
    try:
        _decoder()
        return read_frame(content).dermoscopic
    except PictureError:
        return False  # whoever decodes it says what is wrong


def _decoder() -> Any:
    """The decoder that pydicom has for pixels that lie as they are."""
    try:
        import pydicom  # noqa: F401 - it may be there in parts
        from pydicom.pixels import get_decoder
    except ImportError as error:
        raise UnsupportedPicture(
            f"the picture is DICOM, which is read where the extra `dicom` is installed ({EXTRA}); JPEG, PNG "
            "and WebP are accepted without it"
        ) from error
    return get_decoder(EXPLICIT)


class _Unpacked(Image.Image):
    """A picture whose pixels are unpacked when they are first asked for, as Pillow's own files are."""

    format = "DICOM"

    def __init__(self, frame: Frame, pixels: RawPixels, decoder: Any) -> None:
        super().__init__()
        self._size = (frame.columns, frame.rows)
        self._mode = {"RGB": "RGB", "MONOCHROME2": "L"}.get(frame.photometric, "YCbCr")
        self._packed: tuple[Frame, RawPixels, Any] | None = (frame, pixels, decoder)

    def load(self) -> Any:
        """Unpacks the pixels, the first time.

        Raises:
            DamagedPicture: they are not as many as there are said to be.
            TruncatedPicture: they end early.
        """
        if self._packed is not None:
            samples = _samples(*self._packed)
            self.im = Image.frombuffer(self.mode, self.size, samples, "raw", self.mode, 0, 1).im
            self._packed = None
        return super().load()


def _samples(frame: Frame, pixels: RawPixels, decoder: Any) -> NDArray[np.uint8]:
    """The samples of a frame, `(rows, columns)` or `(rows, columns, 3)`, eight bits each."""
    if pixels.length not in (frame.length, frame.length + frame.length % 2):
        raise DamagedPicture(
            f"the DICOM file has {pixels.length:,} bytes of pixels; {frame.columns} x {frame.rows} "
            f"{frame.photometric} has {frame.length:,}. Write the file anew"
        )
    found, _ = decoder.as_array(
        pixels.read(),
        index=0,
        raw=True,
        view_only=frame.photometric != "YBR_FULL_422",
        rows=frame.rows,
        columns=frame.columns,
        samples_per_pixel=frame.samples,
        photometric_interpretation=frame.photometric,
        planar_configuration=int(frame.planar),
        bits_allocated=frame.bits_allocated,
        # Which bits are said to be unused is seen to below; pydicom would warn of them.
        bits_stored=frame.bits_allocated,
        number_of_frames=1,
        pixel_representation=0,
        pixel_keyword="PixelData",
    )
    if frame.bits_allocated == 16:
        found = found >> (frame.bits_stored - 8) & 0xFF
    return np.ascontiguousarray(found, dtype=np.uint8)


def _open_jpeg(frame: Frame, content: bytes) -> Image.Image:
    """The JPEG of a frame, if it is what the file says of it."""
    if not content.startswith(b"\xff\xd8\xff"):
        raise DamagedPicture(
            "the DICOM file's pixels are said to be a JPEG and are none; write the file anew"
        )
    refuse_many_parts(content)
    image = JpegImagePlugin.JpegImageFile(io.BytesIO(content))
    if image.size != (frame.columns, frame.rows) or image.layers != frame.samples:
        raise DamagedPicture(
            f"the JPEG in the DICOM file has {image.width} x {image.height} pixels of {image.layers} "
            f"samples; the file says {frame.columns} x {frame.rows} of {frame.samples}. Write it anew"
        )
    if frame.samples == 3 and not _says_its_colours(image):
        # Without a mark the decoder goes by the names of the samples, and libraries differ in what they do.
        rgb = [layer[0] for layer in image.layer] == list(b"RGB")
        if rgb != (frame.photometric == "RGB"):
            raise DamagedPicture(
                f"the DICOM file says that its JPEG is {frame.photometric}; the JPEG does not say so, and "
                "would be taken for something else. Write it anew, or send the JPEG alone"
            )
    return image


def _says_its_colours(image: JpegImagePlugin.JpegImageFile) -> bool:
    """Whether a JPEG of three samples is marked as YCbCr or RGB: then that holds (PS3.5, 8.2.1)."""
    return "jfif" in image.info or "adobe_transform" in image.info
