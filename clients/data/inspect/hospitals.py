"""What a column of hospitals is called; `site` is not among them, since a manifest's site is on the body."""

from typing import Final

COLUMNS: Final = (
    "clinic",
    "hospital",
    "centre",
    "center",
    "institution",
    "institute",
    "department",
    "practice",
    "dataset",
)
