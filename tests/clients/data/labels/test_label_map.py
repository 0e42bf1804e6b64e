import pytest

from clients.data.errors import LabelError
from clients.data.label_map import DROPPED, UNLABELLED, assign_classes
from clients.data.taxonomy import TAXONOMY


def test_without_a_map_the_codes_that_occur_are_the_classes_in_sorted_order():
    labelling = assign_classes(["NV", "MEL", "", "NV", "own"], None)
    assert [label.code for label in labelling.labels] == ["MEL", "NV", "own"]
    assert labelling.classes == (1, 0, UNLABELLED, 1, 2)
    assert labelling.labels[0] == TAXONOMY["MEL"]
    assert labelling.labels[2].malignancy == "unknown"


def test_malignancy_folds_as_milk10k_and_fedperl_do():
    malignant = ["AKIEC", "BCC", "MEL", "SCCKA", "MAL_OTH", "AK", "SCC"]
    benign = ["NV", "BKL", "DF", "VASC", "INF", "BEN_OTH"]
    labelling = assign_classes([*malignant, *benign, ""], "malignancy")
    assert [(label.code, label.malignancy) for label in labelling.labels] == [
        ("benign", "benign"),
        ("malignant", "malignant"),
    ]
    assert labelling.classes == (1,) * 7 + (0,) * 6 + (UNLABELLED,)


def test_malignancy_has_two_classes_even_where_one_occurs():
    assert len(assign_classes(["NV"], "malignancy").labels) == 2


def test_a_mapping_names_classes_whether_or_not_they_occur_and_drops():
    labelling = assign_classes(
        ["NV", "MEL", "DF", ""], {"NV": "mole", "MEL": "MEL", "DF": None, "BCC": "BCC"}
    )
    assert [label.code for label in labelling.labels] == ["BCC", "MEL", "mole"]
    assert labelling.classes == (2, 1, DROPPED, UNLABELLED)


def test_unknown_labels_are_listed_with_their_counts():
    with pytest.raises(LabelError, match=r"(?s)'UNK': 2 pictures\n  'odd': 1 pictures.*known: MEL, NV;"):
        assign_classes(["UNK", "odd", "UNK", "NV"], {"NV": "NV", "MEL": None})
    with pytest.raises(LabelError, match="not in the taxonomy"):
        assign_classes(["UNK"], "malignancy")


def test_only_the_precursors_are_premalignant():
    assert [code for code, label in TAXONOMY.items() if label.malignancy == "premalignant"] == ["AK"]
    assert not [code for code, label in TAXONOMY.items() if label.malignancy == "unknown"]
