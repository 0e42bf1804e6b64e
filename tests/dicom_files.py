"""DICOM files to read, written by pydicom: photographs, and what only says that it is one."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image
from pydicom import uid
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate

PATIENT = "Doe^Jane"


def dicom_file(
    pixels: np.ndarray | bytes | list[bytes],
    photometric: str = "RGB",
    syntax: str = uid.ExplicitVRLittleEndian,
    *,
    size: tuple[int, int] | None = None,
    planar: int = 0,
    stored: int | None = None,
    fragments: int = 1,
    edit: Callable[[Dataset], Any] = lambda dataset: None,
    preamble: bytes = bytes(128),
    **values: Any,
) -> bytes:
    """A file that holds a photograph.

    Args:
        pixels: `(rows, columns)` or `(rows, columns, 3)`, or what a frame, or each of several, is packed as,
            or samples packed as they are to lie.
        photometric: what the samples are.
        syntax: the transfer syntax.
        size: columns and rows, where `pixels` does not say.
        planar: 1 lays one plane of samples after the other.
        stored: bits of a sample that say something; all of them by default.
        fragments: pieces that a JPEG is cut into.
        edit: changes the data set before it is written.
        preamble: the first 128 bytes.
        values: attributes by keyword; None leaves one out.
    """
    grey = photometric.startswith("MONOCHROME") or photometric == "PALETTE COLOR"
    deep = 16 if isinstance(pixels, np.ndarray) and pixels.itemsize == 2 else 8
    about = FileMetaDataset()
    about.TransferSyntaxUID = uid.UID(syntax)
    about.MediaStorageSOPClassUID = uid.VLPhotographicImageStorage
    about.MediaStorageSOPInstanceUID = "1.2.3"
    dataset = FileDataset("", {}, file_meta=about, preamble=preamble)
    dataset.SOPClassUID = uid.VLPhotographicImageStorage
    dataset.SOPInstanceUID = "1.2.3"
    dataset.PatientName = PATIENT
    dataset.Rows, dataset.Columns = size[::-1] if size else pixels.shape[:2]
    dataset.SamplesPerPixel = 1 if grey else 3
    if not grey:
        dataset.PlanarConfiguration = planar
    dataset.PhotometricInterpretation = photometric
    dataset.BitsAllocated = deep
    dataset.BitsStored = stored or deep
    dataset.HighBit = dataset.BitsStored - 1
    dataset.PixelRepresentation = 0
    if isinstance(pixels, np.ndarray):
        pixels = (pixels.transpose(2, 0, 1) if planar else pixels).tobytes()
    encapsulated = uid.UID(syntax).is_encapsulated
    dataset.PixelData = (
        encapsulate(pixels if isinstance(pixels, list) else [pixels], fragments_per_frame=fragments)
        if encapsulated
        else pixels + bytes(len(pixels) % 2)
    )
    dataset["PixelData"].VR = "OW" if deep == 16 else "OB"
    dataset["PixelData"].is_undefined_length = encapsulated
    for name, value in values.items():
        if value is None:
            delattr(dataset, name)
        else:
            setattr(dataset, name, value)
    edit(dataset)
    file = io.BytesIO()
    dataset.save_as(file, enforce_file_format=True)
    return file.getvalue()


def noise(rows: int, columns: int, *samples: int, dtype: Any = np.uint8, seed: int = 0) -> np.ndarray:
    """Pixels of every value there is."""
    top = np.iinfo(dtype).max
    return np.random.default_rng(seed).integers(0, top, (rows, columns, *samples), dtype, endpoint=True)


def saved(image: Image.Image | np.ndarray, form: str = "PNG", **options: Any) -> bytes:
    """The bytes of a picture."""
    file = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(file, form, **options)
    return file.getvalue()
