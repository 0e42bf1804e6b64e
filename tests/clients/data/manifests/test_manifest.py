from pathlib import Path

import pytest

from clients.data.errors import UnknownColumnError
from clients.data.manifests.manifest import Manifest, Row

ROWS = (Row("a.jpg", label="MEL", extra={"clinic": "x"}), Row("b.jpg", label="NV", extra={"age": "40"}))


def test_columns_are_the_known_ones_then_the_extra_ones_in_order_of_appearance() -> None:
    manifest = Manifest.of(ROWS, Path("/p"))
    assert manifest.columns[0] == "image"
    assert manifest.columns[8:] == ("clinic", "age")


def test_values_of_known_and_extra_columns() -> None:
    manifest = Manifest.of(ROWS, Path("/p"))
    assert manifest.values("label") == ["MEL", "NV"]
    assert manifest.values("clinic") == ["x", ""]


def test_an_unknown_column_names_the_nearest() -> None:
    with pytest.raises(UnknownColumnError, match="'clinics'; did you mean `clinic`"):
        Manifest.of(ROWS, Path("/p")).values("clinics")


def test_other_rows_keep_the_columns() -> None:
    assert Manifest.of(ROWS, Path("/p")).keep([ROWS[1]]).columns[8:] == ("clinic", "age")
