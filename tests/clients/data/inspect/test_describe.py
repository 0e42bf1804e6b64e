from pathlib import Path

import pytest

from clients.data.errors import UnknownColumnError
from clients.data.manifest import Manifest, Row
from clients.data.quality import Cell, describe_manifest

MANIFEST = Manifest.of(
    [
        Row("a", "MEL", "10", "monk", lesion_id="1", patient_id="p", split="train", extra={"clinic": "x"}),
        Row("b", "MEL", "10", "monk", lesion_id="1", patient_id="p", split="train", extra={"clinic": "x"}),
        Row("c", "NV", "2", "monk", split="train", extra={"clinic": "y"}),
        Row("d", "NV", split="test", extra={"clinic": ""}),
    ],
    Path("/p"),
)


def test_counts_by_tone():
    description = describe_manifest(MANIFEST)
    assert (description.pictures, description.lesions, description.patients) == (4, 3, 1)
    assert description.cells == {
        Cell("test", "", "", "NV"): 1,
        Cell("train", "monk", "10", "MEL"): 2,
        Cell("train", "monk", "2", "NV"): 1,
    }


def test_counts_by_column():
    cells = describe_manifest(MANIFEST, "clinic").cells
    assert cells[Cell("train", "", "x", "MEL")] == 2
    assert sum(cells.values()) == 4
    with pytest.raises(UnknownColumnError, match="'clinics'"):
        describe_manifest(MANIFEST, "clinics")


def test_lesions_are_counted_by_their_pictures_and_by_what_is_known():
    rows = [
        Row("a", lesion_id="1", extra={"image_kind": "dermoscopic", "age": ""}),
        Row("b", lesion_id="1", extra={"image_kind": "close-up", "age": "70"}),
        Row("c", site="unknown", extra={"image_kind": "", "age": "50"}),
        Row("d", lesion_id="2", site="back", extra={"image_kind": "close-up"}),
    ]
    description = describe_manifest(Manifest.of(rows, Path("/p")))
    assert description.kinds == {"close-up": 1, "close-up+dermoscopic": 1, "unknown": 1}
    assert description.known == {"age": 2, "site": 1}
