from collections import Counter

import pytest

from clients.data.adapters.fitzpatrick17k import DIAGNOSES, NINE
from clients.data.adapters.table import make_adapter
from clients.data.errors import AdapterError
from tests.clients.data.adapters.conftest import lines, tones

FITZPATRICK = """md5hash,fitzpatrick_scale,fitzpatrick_centaur,label,nine_partition_label,\
three_partition_label,qc
aa,6,5,psoriasis,inflammatory,non-neoplastic,
bb,-1,-1,melanoma,malignant melanoma,malignant,3 Wrongly labelled
cc,,1,milia,benign epidermal,benign,1 Diagnostic
"""


def test_fitzpatrick17k_tells_unknown_tones_from_known(published, import_command):
    folder = published({"fitzpatrick17k.csv": FITZPATRICK}, ["aa.jpg", "bb.jpg", "cc.jpg"])
    assert tones(import_command("fitzpatrick17k", folder)) == [("6", "fitzpatrick"), ("", ""), ("", "")]
    by_company = make_adapter("fitzpatrick17k", {"tones": "fitzpatrick_centaur"}).manifest(folder)
    assert tones(by_company) == [("5", "fitzpatrick"), ("", ""), ("1", "fitzpatrick")]


def test_fitzpatrick17k_groups_and_leaves_out_when_asked(published, imported):
    folder = published({"fitzpatrick17k.csv": FITZPATRICK}, ["aa.jpg", "bb.jpg", "cc.jpg"])
    options = {"labels": "three_partition_label", "leave_out_qc": ["3 Wrongly labelled"]}
    manifest = imported("fitzpatrick17k", folder, **options)
    assert manifest.values("label") == ["non-neoplastic", "benign"]
    assert manifest.values("diagnosis") == ["psoriasis", "milia"]
    nine = imported("fitzpatrick17k", folder, labels="nine_partition_label")
    assert nine.values("label") == ["inflammatory", "malignant melanoma", "benign epidermal"]
    with pytest.raises(AdapterError, match="no judgement '3 Wrong labelled'; did you mean `3 Wrongly"):
        imported("fitzpatrick17k", folder, leave_out_qc=["3 Wrong labelled"])


def test_the_older_table_of_fitzpatrick17k(published, imported):
    older = FITZPATRICK.replace("fitzpatrick_scale,fitzpatrick_centaur", "fitzpatrick,other")
    folder = published({"fitzpatrick17k.csv": older}, ["aa.jpg"])
    assert tones(imported("fitzpatrick17k", folder, tones="fitzpatrick"))[0] == ("6", "fitzpatrick")


def test_a_tone_off_its_scale_is_refused(published, imported):
    folder = published({"fitzpatrick17k.csv": FITZPATRICK.replace("aa,6", "aa,7")}, ["aa.jpg"])
    with pytest.raises(AdapterError, match=r"aa: skin tone '7(.0)?' is not on the scale fitzpatrick"):
        imported("fitzpatrick17k", folder)


@pytest.mark.real
def test_fitzpatrick17k_as_published(as_published, real_table):
    table = lines(real_table("csv_only/fitzpatrick17k.csv"))
    folder = as_published(["csv_only/fitzpatrick17k.csv"], [f"{line['md5hash']}.jpg" for line in table])
    manifest = make_adapter("fitzpatrick17k", {}).manifest(folder)
    assert len(manifest.rows) == 16577
    assert Counter(manifest.values("skin_tone")) == {
        "2": 4808, "3": 3308, "1": 2947, "4": 2781, "5": 1533, "6": 635, "": 565,
    }  # fmt: skip
    assert set(manifest.values("label")) == set(DIAGNOSES)
    assert len(DIAGNOSES) == 114
    assert set(manifest.values("nine_partition_label")) == set(NINE)
    three = make_adapter("fitzpatrick17k", {"labels": "three_partition_label"}).manifest(folder)
    assert Counter(three.values("label")) == {"non-neoplastic": 12080, "malignant": 2263, "benign": 2234}
    kept = make_adapter("fitzpatrick17k", {"leave_out_qc": ["3 Wrongly labelled"]}).manifest(folder)
    assert len(kept.rows) == 16577 - 17
