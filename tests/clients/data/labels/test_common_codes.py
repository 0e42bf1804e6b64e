from pathlib import Path
from typing import Any

import pytest

from clients.data.errors import LabelError
from clients.data.label_map import DROPPED, UNLABELLED, Labelling, label_pictures
from clients.data.manifest import Manifest, Row
from clients.data.picture_files import PictureFile
from clients.data.sources import Picture, Source
from clients.data.taxonomy import BENIGN, MALIGNANT
from training.data.dataset import FOLDED_CLASSES
from training.data.settings import LabelMap


def labelled(label_map: LabelMap, /, unseen: tuple[str, ...] = (), **codes: Any) -> Labelling:
    """The classes of pictures with the codes of each source, or (codes, the source's map)."""
    sources, pictures = [], []
    for name, asked in codes.items():
        mine, own = asked if isinstance(asked, tuple) else (asked, None)
        rows = [Row(f"{name}-{number}.jpg", code) for number, code in enumerate(mine)]
        manifest = Manifest.of(rows, Path())
        sources.append(Source(name, manifest, label_map=own, unseen=name in unseen))
        pictures += [Picture(row, name, PictureFile(Path(row.image)), name in unseen) for row in rows]
    return label_pictures(pictures, sources, label_map)


def codes_of(labelling: Labelling) -> list[str]:
    return [label.code for label in labelling.labels]


def test_folded_classes_are_those_of_the_taxonomy():
    assert (BENIGN.code, MALIGNANT.code) == FOLDED_CLASSES


def test_each_source_maps_its_own_codes_and_what_remains_are_the_classes():
    found = labelled(
        None,
        ham=(["akiec", "nv", "odd", ""], {"akiec": "AK", "nv": "NV", "odd": None, "df": "DF"}),
        pad=["NV", "SCC"],
    )
    assert codes_of(found) == ["AK", "NV", "SCC"]
    assert found.classes == (0, 1, DROPPED, UNLABELLED, 1, 2)


def test_the_map_of_the_job_comes_after_that_of_the_source():
    found = labelled(
        {"cancer": "bad", "MEL": "bad", "NV": "good", "DF": None},
        ham=(["a", "b", "c"], {"a": "cancer", "b": "NV", "c": "DF"}),
        pad=["MEL", "NV"],
    )
    assert codes_of(found) == ["bad", "good"]
    assert found.classes == (0, 1, DROPPED, 0, 1)


def test_the_same_code_may_mean_two_things_in_two_sources():
    found = labelled(
        None, one=(["1", "2"], {"1": "MEL", "2": "NV"}), two=(["1", "2"], {"1": "NV", "2": "MEL"})
    )
    assert codes_of(found) == ["MEL", "NV"]
    assert found.classes == (0, 1, 1, 0)


def test_a_class_of_ones_own_is_as_malignant_as_all_that_the_sources_gather_in_it():
    maps: tuple[LabelMap, LabelMap] = {"MEL": "bad", "NV": "mole", "AK": "x"}, {"BCC": "bad", "MEL": "x"}
    labels = labelled(None, one=(["MEL", "NV", "AK"], maps[0]), two=(["BCC", "MEL"], maps[1])).labels
    assert [(label.code, label.malignancy) for label in labels] == [
        ("bad", "malignant"),
        ("mole", "benign"),
        ("x", "unknown"),
    ]
    final = labelled({"bad": "ill", "MEL": "ill"}, one=(["MEL"], {"MEL": "bad"}), two=["MEL"]).labels
    assert [(label.code, label.malignancy) for label in final] == [("ill", "malignant")]


def test_unseen_codes_are_folded_and_are_no_classes():
    found = labelled(
        {"NV": "NV", "MEL": "MEL"},
        unseen=("isic2020", "other"),
        isic2020=["benign", "malignant", "", "AK", "BKL"],
        ham=["NV", "MEL"],
        other=(["melanoma", "wart", "nothing"], {"melanoma": "MEL", "wart": "benign", "nothing": None}),
    )
    assert codes_of(found) == ["MEL", "NV"]
    assert found.classes == (0, 1, UNLABELLED, 1, 0, 1, 0, 1, 0, DROPPED)


def test_unknown_codes_are_refused_with_the_name_of_the_source():
    with pytest.raises(
        LabelError, match=r"(?s)source ham: labels that are not in the label map.*'df': 2 pic"
    ):
        labelled(None, ham=(["nv", "df", "df"], {"nv": "NV"}), pad=["NV"])
    with pytest.raises(LabelError, match=r"(?s)source u is unseen.*not in the taxonomy.*'wart': 1 pictures"):
        labelled(None, unseen=("u",), ham=["NV"], u=["MEL", "wart"])
    with pytest.raises(LabelError, match="source ham: no row has a label"):
        labelled(None, ham=(["nv"], {"nv": None}), pad=["NV"])


def test_an_unseen_source_without_labels_is_refused():
    with pytest.raises(LabelError, match="no picture of the unseen source u has a label"):
        labelled(None, unseen=("u",), ham=["NV"], u=["", ""])


def test_the_classes_are_those_of_what_is_trained_on():
    with pytest.raises(LabelError, match="no row has a label, so there are no classes"):
        labelled(None, unseen=("u",), ham=["", ""], u=["MEL"])


def test_classes_of_unknown_kind_beside_an_unseen_source_are_refused():
    assert labelled(None, ham=["NV", "wart"]).labels
    with pytest.raises(LabelError, match="of wart it is not known which they are; map them to codes"):
        labelled(None, unseen=("u",), ham=["NV", "wart"], u=["MEL"])
