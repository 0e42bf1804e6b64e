"""MILK10k and HAM10000 as they are published, but few, small and drawn: same tables, same columns."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from PIL import Image

from clients.data.synthetic.cases import case_of
from clients.data.synthetic.draw import draw

SIZE = 64
MILK10K_CODES = ("AKIEC", "BCC", "BEN_OTH", "BKL", "DF", "INF", "MAL_OTH", "MEL", "NV", "SCCKA", "VASC")
TONES = range(6)
KINDS = ("clinical: close-up", "dermoscopic")
HAM10000_CODES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
CLINICS = ("rosendahl", "vidir_modern", "vidir_molemax", "vienna_dias")
SITES = ("head_neck_face", "trunk", "hand", "foot", "upper extremity", "lower extremity")


def draw_folders(folder: Path, each: int = 6) -> Path:
    """Both data sets under `folder`, `each` lesions of every diagnosis and tone, or clinic."""
    draw_milk10k(folder / "milk10k", each)
    draw_ham10000(folder / "ham10000", each)
    return folder


def draw_milk10k(folder: Path, each: int) -> None:
    """Two pictures of every lesion, one of each kind."""
    truth, metadata = [], []
    places = [(code, tone) for _ in range(each) for code in MILK10K_CODES for tone in TONES]
    for lesion, (code, tone) in enumerate(places):
        name = f"IL_{lesion:07d}"
        truth.append({"lesion_id": name, **{other: float(other == code) for other in MILK10K_CODES}})
        for kind in KINDS:
            metadata.append(
                {
                    "lesion_id": name,
                    "image_type": kind,
                    "isic_id": f"ISIC_{len(metadata):07d}",
                    "skin_tone_class": tone,
                    "site": SITES[lesion % len(SITES)],
                    "age_approx": 20 + lesion % 60,
                    "sex": ("female", "male")[lesion % 2],
                }
            )
    draw_pictures(folder, (row["isic_id"] for row in metadata), seed=1)
    write_table(folder / "MILK10k_Training_GroundTruth.csv", truth)
    write_table(folder / "MILK10k_Training_Metadata.csv", metadata)


def draw_ham10000(folder: Path, each: int) -> None:
    """One picture of every lesion."""
    places = [(code, clinic) for _ in range(each) for code in HAM10000_CODES for clinic in CLINICS]
    rows = [
        {
            "lesion_id": f"HAM_{number:07d}",
            "image_id": f"ISIC_{number:07d}",
            "dx": code,
            "age": 20 + number % 60,
            "sex": ("female", "male")[number % 2],
            "localization": ("back", "face", "trunk", "unknown")[number % 4],
            "dataset": clinic,
        }
        for number, (code, clinic) in enumerate(places)
    ]
    draw_pictures(folder, (row["image_id"] for row in rows), seed=2)
    write_table(folder / "HAM10000_metadata_with_source.csv", rows)


def draw_pictures(folder: Path, names: Iterable[str], seed: int) -> None:
    """A drawn lesion under each name."""
    folder.mkdir(parents=True)
    for index, name in enumerate(names):
        Image.fromarray(draw(case_of(seed, index), SIZE)).save(folder / f"{name}.jpg", quality=90)


def write_table(path: Path, rows: list[Mapping[str, object]]) -> None:
    """Rows as CSV, the first one's keys as the header."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
