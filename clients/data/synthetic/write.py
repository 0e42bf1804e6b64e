"""Writing a synthetic data set to disk: PNG files and their manifest."""

from pathlib import Path

from PIL import Image

from clients.data.errors import ClientDataError
from clients.data.manifests.csv_file import write_manifest
from clients.data.manifests.manifest import Manifest, Row
from clients.data.output import build_folder_once, progress
from clients.data.synthetic.draw import TYPICAL, Case, case_of, draw

MANIFEST = "manifest.csv"


def prefix_of(seed: int) -> str:
    """What ids begin with by default, so that two draws share none; those of seed 0 are bare."""
    return f"s{seed}-" if seed else ""


def write_synthetic(
    folder: Path, *, pictures: int, size: int, seed: int, prefix: str = "", typical: float = TYPICAL
) -> Manifest:
    """Write synthetic pictures as PNG under `folder/images`, and `folder/manifest.csv`: all, or nothing.

    Args:
        folder: an empty folder, or one that is not there yet.
        pictures: how many.
        size: pixels on both sides.
        seed: other seeds make other pictures.
        prefix: of the ids of lesions and patients, which are counted from 0 whatever the seed.
        typical: how typical of its class the least typical lesion is, from 0 to 1.

    Raises:
        ClientDataError: the folder cannot be written, or holds other files.
    """
    rows = []
    try:
        with build_folder_once(folder) as building:
            (building / "images").mkdir()
            with progress("drawing pictures", pictures) as advance:
                for index in range(pictures):
                    case = case_of(seed, index, typical)
                    rows.append(_row(case, prefix))
                    Image.fromarray(draw(case, size)).save(building / rows[-1].image, compress_level=1)
                    advance(1)
            write_manifest(Manifest.of(rows, building), building / MANIFEST)
    except OSError as error:
        raise ClientDataError(f"cannot write pictures to {folder}: {error}; name another folder") from error
    if not (folder / MANIFEST).is_file():
        raise ClientDataError(f"{folder} holds other files; name an empty or new folder")
    return Manifest.of(rows, folder)


def _row(case: Case, prefix: str) -> Row:
    return Row(
        image=f"images/{case.index:06d}.png",
        label=case.label,
        skin_tone=str(case.tone),
        skin_tone_scale="fitzpatrick",
        lesion_id=f"{prefix}L{case.lesion:06d}",
        patient_id=f"{prefix}P{case.patient:06d}",
    )
