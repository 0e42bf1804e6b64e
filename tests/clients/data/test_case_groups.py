"""Lesions as cases: which pictures are in which slot, what is known, and what is refused."""

import numpy as np
import pytest
from PIL import Image

from clients.data.case_groups import case_problems
from clients.data.errors import ManifestError
from clients.data.manifest import Row
from clients.data.prepare import prepare
from registry.bundle.cases import SITE
from training.data.dataset import SPLITS
from training.data.settings import CasesConfig, DataConfig

HEADER = "image,label,lesion_id,image_kind,age,sex,site,skin_tone,skin_tone_scale\n"


@pytest.fixture
def prepared(tmp_path):
    """Prepares a manifest of these rows: lesion, kind, age, sex, site and label of each."""

    def make(*rows, data=None, **cases):
        lines = []
        for number, row in enumerate(rows):
            lesion, kind, age, sex, site, label = (*row, *("", "", "", "", "benign")[len(row) - 1 :])
            shade = 20 + 7 * number
            Image.new("RGB", (9, 9), (shade, 90, 255 - shade)).save(tmp_path / f"{number}.png")
            lines.append(f"{number}.png,{label},{lesion},{kind},{age},{sex},{site},2,fitzpatrick\n")
        (tmp_path / "m.csv").write_text(HEADER + "".join(lines))
        config = DataConfig.model_validate(
            {
                "manifest": "m.csv",
                "unit": "lesion",
                "cases": {"slots": 2, **cases},
                "image_size": 8,
                "split": {"train": 0.9, "validation": 0, "calibration": 0, "test": 0.1},
                **(data or {}),
            }
        )
        return prepare(config, seed=0, folder=tmp_path, cache=tmp_path / "cache")

    return make


def rows_of(dataset):
    """All cases of a dataset by lesion number."""
    found = {}
    for split in SPLITS:
        examples = dataset.examples(dataset.clients[0], split)
        for place, lesion in enumerate(examples.lesions.tolist()):
            found[lesion] = (
                [
                    int(examples.images[row][0, 0, 0] - 20) // 7
                    for row in examples.cases.pictures[place]
                    if row >= 0
                ],
                examples.cases.kinds[place].tolist(),
                [None if np.isnan(value) else float(value) for value in examples.cases.context[place]],
                examples.labels[place],
            )
    return found


def test_pictures_of_a_lesion_are_a_case(prepared):
    dataset = prepared(
        ("a", "dermoscopic", "70", "male", "back"),
        ("b", "close-up"),
        ("a", "close-up", "", "", ""),
        ("", "clinical: close-up", "30", "", "", "malignant"),
    )
    trunk = float(SITE.values.index("trunk"))
    assert rows_of(dataset) == {
        0: ([2, 0], [1, 2], [70.0, 1.0, trunk], 0),
        1: ([1], [1, -1], [None, None, None], 0),
        2: ([3], [1, -1], [30.0, None, None], 1),
    }
    assert dataset.case.slots == 2
    assert (dataset.report.pictures, dataset.report.lesions) == (4, 3)


def test_slots_hold_one_of_each_kind_first_and_the_others_are_counted(prepared):
    dataset = prepared(
        ("a", ""), ("a", "close-up"), ("a", "close-up"), ("a", "overview"), ("a", "dermoscopic"), ("b", "")
    )
    assert rows_of(dataset)[0][:2] == ([1, 4], [1, 2])
    assert dataset.report.left_out.beyond_slots == 3
    assert dataset.report.pictures == 3


def test_a_kind_that_the_job_does_not_name_is_unknown(prepared):
    dataset = prepared(("a", "overview"), ("b", "dermoscopic"), kinds=["dermoscopic"])
    assert [rows_of(dataset)[lesion][1] for lesion in (0, 1)] == [[0, -1], [1, -1]]


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (("a", "", "70", "male"), ("a", "", "70", "female"), "lesion a: sex female and male"),
        (("a", "", "70"), ("a", "", "72"), "lesion a: age 70 and 72"),
        (("a", "", "", "", "back"), ("a", "", "", "", "hand"), "lesion a: site trunk and hand"),
        (("a", "", "", "", "", "benign"), ("a", "", "", "", "", "malignant"), "label benign and malignant"),
    ],
)
def test_pictures_that_contradict_each_other_are_refused(prepared, first, second, why):
    with pytest.raises(ManifestError, match=why):
        prepared(first, second, ("b", ""))


def test_what_cannot_be_is_refused_with_its_picture_all_at_once(prepared):
    with pytest.raises(ManifestError) as caught:
        prepared(("a", "", "700"), ("b", "x-ray"), ("c", "", "", "mael"))
    for part in (
        "3 values cannot be of a case",
        "age 700 is out of bounds; it is a number from 0 to 120 years, or empty: 1 picture (0.png)",
        "there is no kind",
        "sex 'mael'",
        """codes={"age": {"700": ""}, "image_kind": {"x-ray": ""}, "sex": {"mael": ""}}""",
    ):
        assert part in str(caught.value)


def test_a_case_is_another_one_with_another_picture_kind_or_fact(prepared):
    base = [("a", "close-up", "70"), ("a", "dermoscopic", "70"), ("b", "")]
    fingerprints = {
        prepared(*rows).fingerprint
        for rows in (
            base,
            [("a", "close-up", "60"), ("a", "dermoscopic", "60"), ("b", "")],
            [("a", "dermoscopic", "70"), ("a", "close-up", "70"), ("b", "")],
            [("a", "close-up", "70"), ("b", "dermoscopic", "70"), ("c", "")],
        )
    }
    assert len(fingerprints) == 4
    assert prepared(*base).fingerprint in fingerprints


def test_pictures_in_no_slot_are_told(prepared):
    (line,) = prepared(("a", ""), ("a", ""), ("a", ""), ("b", "")).unused.lines()
    assert line == "1 of 4 pictures are not used: 1 beyond the `slots` of `data.cases`"
    assert prepared(("a", ""), ("a", ""), ("b", "")).unused.lines() == []


def test_facts_do_not_depend_on_the_order_of_pictures(prepared):
    for ages in (("70", "71"), ("71", "70")):
        assert rows_of(prepared(("a", "", ages[0]), ("a", "", ages[1]), ("b", "")))[0][2][0] == 70


def said(*columns):
    """Problems of a lesion of two pictures whose rows differ in these columns."""
    rows = [Row(f"{number}.png", lesion_id="a", **column) for number, column in enumerate(columns)]
    contradictions, unread = case_problems(rows, CasesConfig().input)
    assert not unread
    return contradictions


def test_tones_contradict_on_one_scale():
    def tone(value, scale):
        return {"skin_tone": value, "skin_tone_scale": scale}

    assert said(tone("2", "fitzpatrick"), tone("5", "fitzpatrick")) == [
        "lesion a: skin_tone (fitzpatrick) 2 and 5"
    ]
    assert said(tone("2", "fitzpatrick"), tone("5", "monk")) == []
    assert said(tone("2", "fitzpatrick"), {}) == []


def test_what_a_label_map_makes_one_is_no_contradiction_and_what_differs_is_told_as_it_is_spelt(prepared):
    labels = {"label_map": {"MEL": "malignant", "BCC": "malignant", "NV": "benign"}}
    rows = [("b", "", "", "", "", "BCC"), ("c", "", "", "", "", "NV")]
    agreed = [("a", "", "", "", "", "MEL"), ("a", "", "", "", "", "BCC")]
    assert rows_of(prepared(*agreed, *rows, data=labels))[0][0] == [0, 1]
    contrary = [("a", "", "", "", "", "MEL"), ("a", "", "", "", "", "NV")]
    with pytest.raises(ManifestError, match="lesion a: label MEL and NV"):
        prepared(*contrary, *rows, data=labels)


def test_pictures_of_a_lesion_are_in_one_subgroup(prepared):
    by_site = {"subgroups": {"column": "site"}}
    with pytest.raises(ManifestError, match=r"lesion a: 0\.png and 1\.png are in different subgroups"):
        prepared(("a", "", "", "", "back"), ("a", "", "", "", "hand"), ("b", ""), facts=[], data=by_site)
    prepared(("a", "", "", "", "back"), ("a", ""), ("b", "", "", "", "hand"), facts=[], data=by_site)
