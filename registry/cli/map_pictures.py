"""Reads the table of pictures that maps are judged on: a manifest, with masks beside it."""

import csv
import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from registry.bundle.cases.given import read_given
from registry.bundle.cases.kinds import read_kind
from registry.bundle.errors import BundleError
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.maps.judge import JudgedPicture
from registry.bundle.pictures.open_file import DECODER_ERRORS
from registry.bundle.pictures.rule import decode_picture
from registry.bundle.question import Question
from registry.bundle.skin_tone.scales import read_scale, read_tone
from registry.errors import InvalidName

IN_ZIP: Final = "::"
"""Between a zip archive and a picture in it."""

LESION_FROM: Final = 128
"""The grey of a mask from which on it says lesion."""


def judged_pictures(
    table: Path, manifest: BundleManifest, most: int, masks: Path | None
) -> Iterator[JudgedPicture]:
    """The pictures of a table, the first of each patient, or lesion where no patient is known.

    Args:
        table: CSV with the column `image`, and where they are known `skin_tone`, `skin_tone_scale`,
            `patient_id`, `lesion_id`, `image_kind` and `mask`; paths are beside the table.
        manifest: of the bundle whose maps are judged.
        most: how many pictures.
        masks: a folder with a mask of each picture's name, PNG; `_segmentation` may follow the name.

    Raises:
        InvalidName: a line of the table cannot be used, saying which and why.
        OSError: a file cannot be read.
    """
    seen: set[str] = set()
    for number, row in enumerate(_rows(table), start=2):
        who = row.get("patient_id") or row.get("lesion_id") or row["image"]
        if who in seen:
            continue
        seen.add(who)
        try:
            yield _picture(row, table.parent, manifest, masks)
        except (BundleError, ValueError, KeyError, zipfile.BadZipFile, *DECODER_ERRORS) as error:
            raise InvalidName(
                f"line {number} of {table} cannot be used ({error}); mend it or take it out"
            ) from error
        if len(seen) == most:
            return


def _rows(table: Path) -> Iterator[Mapping[str, str]]:
    with table.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        if "image" not in (reader.fieldnames or ()):
            raise InvalidName(
                f"{table} has the columns {', '.join(reader.fieldnames or ['none'])}; one has to be `image`: "
                "give a manifest as `dermfed-data import` writes it"
            )
        for row in reader:
            yield {name: (value or "").strip() for name, value in row.items() if isinstance(value, str)}


def _picture(
    row: Mapping[str, str], folder: Path, manifest: BundleManifest, masks: Path | None
) -> JudgedPicture:
    kind = read_kind(row.get("image_kind", "")) if manifest.case is not None else None
    given = read_given(manifest.case, [kind], {})
    pixels = decode_picture(_content(folder, row["image"]), manifest.picture)
    return JudgedPicture(
        Question(pixels[None], given), _subgroup(row, manifest), _mask(row, folder, manifest, masks)
    )


def _content(folder: Path, name: str) -> bytes:
    archive, inside, inner = name.partition(IN_ZIP)
    if not inside:
        return (folder / name).read_bytes()
    with zipfile.ZipFile(folder / archive) as file:
        return file.read(inner)


def _subgroup(row: Mapping[str, str], manifest: BundleManifest) -> str | None:
    """The subgroup that the bundle names for a declared tone, or the tone itself."""
    if not row.get("skin_tone"):
        return None
    scale = read_scale(row.get("skin_tone_scale") or "fitzpatrick")
    tone = read_tone(row["skin_tone"], scale)
    named = [one for one in manifest.named_subgroups if not one.is_global and one.covers(tone, scale)]
    return named[0].name if named else f"{scale} {tone}"


def _mask(
    row: Mapping[str, str], folder: Path, manifest: BundleManifest, masks: Path | None
) -> NDArray[np.bool_] | None:
    """Where the lesion is in what the model sees; None where nobody says."""
    content = _mask_content(row, folder, masks)
    if content is None:
        return None
    rule = manifest.picture.model_copy(update={"draft": False})
    grey = decode_picture(_as_png(content), rule)[..., 0]
    return grey >= LESION_FROM


def _mask_content(row: Mapping[str, str], folder: Path, masks: Path | None) -> bytes | None:
    if row.get("mask"):
        return _content(folder, row["mask"])
    stem = Path(row["image"].rpartition(IN_ZIP)[2]).stem
    for name in (f"{stem}.png", f"{stem}_segmentation.png"):
        if masks is not None and (masks / name).is_file():
            return (masks / name).read_bytes()
    return None


def _as_png(content: bytes) -> bytes:
    """A mask in greys, as the picture rule takes it: so it is cut and scaled as its picture is."""
    file = io.BytesIO()
    Image.open(io.BytesIO(content)).convert("L").save(file, format="PNG")
    return file.getvalue()
