import re
from pathlib import Path

import pytest

from clients.data.errors import PartitionError, UnknownColumnError
from clients.data.manifest import Manifest, Row
from clients.data.partition import partition_manifest
from training.data.settings import ClientsConfig

MANIFEST = Manifest.of(
    [
        Row(f"{number}.jpg", "MEL" if number % 3 else "NV", lesion_id=f"L{number // 2}",
            extra={"clinic": "St. Anna/2" if number < 6 else "b"})
        for number in range(24)
    ],
    Path("/p"),
)  # fmt: skip


@pytest.mark.parametrize(
    "rule", [ClientsConfig(by="iid", count=3), ClientsConfig(by="dirichlet", count=2, alpha=5.0)]
)
def test_every_row_goes_to_one_client_and_lesions_stay_whole(rule):
    parts = partition_manifest(MANIFEST, rule, seed=0)
    images = sorted(row.image for part in parts.values() for row in part.rows)
    assert images == sorted(row.image for row in MANIFEST.rows)
    lesions = [{row.lesion_id for row in part.rows} for part in parts.values()]
    assert sum(map(len, lesions)) == len(set().union(*lesions)) == 12


def test_with_a_count_large_values_are_divided_and_lesions_stay_whole():
    parts = partition_manifest(MANIFEST, ClientsConfig(by="column", column="clinic", count=4), seed=0)
    assert {name: len(part.rows) for name, part in parts.items()} == {
        "St.-Anna-2": 6, "b-0": 6, "b-1": 6, "b-2": 6,
    }  # fmt: skip
    lesions = [{row.lesion_id for row in part.rows} for part in parts.values()]
    assert sum(map(len, lesions)) == len(set().union(*lesions)) == 12


def test_columns_become_names_that_files_may_have():
    parts = partition_manifest(MANIFEST, ClientsConfig(by="column", column="clinic"), seed=0)
    assert {name: len(part.rows) for name, part in parts.items()} == {"St.-Anna-2": 6, "b": 18}


@pytest.mark.parametrize(
    ("one", "other"), [("x y", "x/y"), ("Anna", "anna"), ("Su\u0308d", "S\u00fcd"), ("x\ny", "x y")]
)
def test_names_that_would_be_one_file_are_refused(one, other):
    rows = [Row(f"{n}", extra={"clinic": name}) for n, name in enumerate((one, other, "third"))]
    shown = re.escape(f"clients {one}, {other} cannot be told apart".replace("\n", "\\n"))
    with pytest.raises(PartitionError, match=shown):
        partition_manifest(Manifest.of(rows, Path("/p")), ClientsConfig(by="column", column="clinic"), seed=0)


def test_other_rules_and_columns_are_refused():
    with pytest.raises(PartitionError, match="not by manifest"):
        partition_manifest(MANIFEST, ClientsConfig(), seed=0)
    with pytest.raises(UnknownColumnError, match="did you mean `clinic`"):
        partition_manifest(MANIFEST, ClientsConfig(by="column", column="clinics"), seed=0)
