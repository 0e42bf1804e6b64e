import pytest
from pydantic import ValidationError

from registry.bundle.labels import Label, malignant_classes


def test_only_malignant_classes_count_as_malignant():
    kinds = ("malignant", "premalignant", "benign", "unknown", "malignant")
    labels = [Label(code=f"C{i}", name="a class", malignancy=kind) for i, kind in enumerate(kinds)]
    assert malignant_classes(labels).tolist() == [True, False, False, False, True]


def test_an_unknown_key_or_kind_is_refused():
    with pytest.raises(ValidationError, match="malign"):
        Label(code="MEL", name="Melanoma", malign="yes")
    with pytest.raises(ValidationError, match="malignancy"):
        Label(code="MEL", name="Melanoma", malignancy="bad")
