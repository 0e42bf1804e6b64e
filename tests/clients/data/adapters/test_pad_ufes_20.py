from collections import Counter

import pytest

from clients.data.adapters.table import make_adapter
from clients.data.errors import AdapterError
from tests.clients.data.adapters.conftest import lines, tones

PAD = """patient_id,lesion_id,age,fitspatrick,region,diagnostic,gender,img_id,biopsed
PAT_1,10,8,3.0,ARM,SEK,FEMALE,PAT_1_10_5.png,TRUE
PAT_2,10,,,FACE,ACK,,PAT_2_10_6.png,FALSE
"""


def test_lesions_of_pad_ufes_20_are_those_of_one_patient(published, imported):
    manifest = imported("pad-ufes-20", published({"metadata.csv": PAD}, ["PAT_1_10_5.png", "PAT_2_10_6.png"]))
    assert manifest.values("lesion_id") == ["PAT_1_10", "PAT_2_10"]
    assert manifest.values("label") == ["BKL", "AK"]
    assert tones(manifest) == [("3", "fitzpatrick"), ("", "")]
    assert manifest.rows[0].site == "arm"
    assert manifest.rows[0].extra == {
        "age": "8",
        "sex": "female",
        "biopsied": "true",
        "image_kind": "close-up",
    }


def test_a_tone_off_its_scale_is_refused(published, imported):
    folder = published({"metadata.csv": PAD.replace("3.0", "7.0")}, ["PAT_1_10_5.png"])
    with pytest.raises(
        AdapterError, match=r"PAT_1_10_5.png: skin tone '7(.0)?' is not on the scale fitzpatrick"
    ):
        imported("pad-ufes-20", folder)


@pytest.mark.real
def test_pad_ufes_20_as_published(as_published, real_table):
    table = lines(real_table("pad_ufes_20/metadata.csv"))
    folder = as_published(["pad_ufes_20/metadata.csv"], [line["img_id"] for line in table])
    manifest = make_adapter("pad-ufes-20", {}).manifest(folder)
    assert Counter(manifest.values("label")) == {
        "BCC": 845, "AK": 730, "NV": 244, "BKL": 235, "SCC": 192, "MEL": 52,
    }  # fmt: skip
    assert Counter(manifest.values("skin_tone")) == {
        "2": 876, "": 804, "3": 392, "1": 153, "4": 62, "5": 10, "6": 1,
    }  # fmt: skip
    assert len(set(manifest.values("patient_id"))) == 1373
    assert len(set(manifest.values("lesion_id"))) == 1891
    assert len({line["lesion_id"] for line in table}) == 1641  # what the paper counts: numbers, not lesions
    assert all(row.image.startswith(f"images.zip::{row.lesion_id}_") for row in manifest.rows)
