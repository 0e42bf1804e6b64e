from collections import Counter

import pytest

from clients.data.adapters.table import make_adapter
from clients.data.errors import AdapterError
from registry.bundle.cases import AGE, SEX, SITE
from tests.clients.data.adapters.conftest import lines, tones

CASES = """case_id,age_group,sex_at_birth,fitzpatrick_skin_type,body_parts_arm,body_parts_leg,\
image_1_path,image_2_path,image_3_path
1,AGE_18_TO_29,FEMALE,FST3,YES,YES,i/1.png,i/2.png,
2,AGE_UNKNOWN,OTHER_OR_UNSPECIFIED,NONE_IDENTIFIED,,YES,i/1.png,i/3.png,
3,AGE_70_TO_79,MALE,,,,i/4.png,,
"""
LABELS = """case_id,dermatologist_skin_condition_on_label_name,weighted_skin_condition_label,\
monk_skin_tone_label_india,monk_skin_tone_label_us
1,"['Eczema', 'Acne', 'Tinea']","{'Acne': 0.2, 'Eczema': 0.4, 'Tinea': 0.4}",2,10
2,"[""Tinea""]","{""Tinea"": 1}",3,
3,[],{},,4
"""
SCIN = {"scin_cases.csv": CASES, "scin_labels.csv": LABELS}
SCIN_PICTURES = ["i/1.png", "i/2.png", "i/3.png", "i/4.png"]


def test_scin_has_a_row_for_every_picture_of_a_case(published, import_command):
    manifest = import_command("scin", published(SCIN, SCIN_PICTURES))
    assert [row.image for row in manifest.rows] == [f"published/{name}" for name in SCIN_PICTURES]
    assert manifest.values("lesion_id") == ["1", "1", "2", "3"]
    assert manifest.values("label") == ["", "Eczema", "Tinea", ""]  # the first two cases share 1
    assert manifest.values("tied_labels") == ["Eczema; Tinea", "Eczema; Tinea", "", ""]
    assert manifest.values("other_cases") == ["2", "", "", ""]
    assert manifest.values("duplicate_group") == ["1", "1", "1", ""]
    assert manifest.values("body_parts") == ["arm, leg", "arm, leg", "leg", ""]
    assert manifest.values("site") == ["", "", "lower_extremity", ""]
    assert manifest.values("age") == ["23", "23", "", "74"]
    assert manifest.values("sex") == ["female", "female", "", "male"]
    assert tones(manifest) == [("3", "fitzpatrick")] * 2 + [("", "")] * 2


def test_scin_takes_monk_tones_and_leaves_ties_when_asked(published, imported):
    folder = published(SCIN, SCIN_PICTURES)
    manifest = imported("scin", folder, scale="monk", ties="unlabelled")
    assert tones(manifest) == [("10", "monk"), ("10", "monk"), ("", ""), ("4", "monk")]
    assert manifest.values("label") == ["Tinea", "", "Tinea", ""]  # case 2 knows of 1 what case 1 does not
    india = imported("scin", folder, scale="monk", graders="india")
    assert [tone for tone, _ in tones(india)] == ["", "2", "3", ""]  # 2 and 3 of picture 1 differ


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (LABELS.replace("\n3,", "\n4,"), "case 3 is in scin_cases.csv but not in scin_labels.csv"),
        (LABELS.replace("{'Acne': 0.2,", "{'Acne': 0.2,,"), "case 1: cannot read"),
        (LABELS.replace("'Acne': 0.2", "'Acne': 'much'"), "case 1: .* a weight that is no number"),
        (LABELS.replace("3,[],{}", "3,[],[]"), "case 3: .* is no dictionary or"),
    ],
)
def test_scin_refuses_labels_that_do_not_fit(published, imported, labels, match):
    with pytest.raises(AdapterError, match=match):
        imported("scin", published(SCIN | {"scin_labels.csv": labels}, SCIN_PICTURES))


@pytest.mark.real
def test_scin_as_published(as_published, real_table):
    cases = lines(real_table("scin/scin_cases.csv"))
    paths = {case[f"image_{number}_path"] for case in cases for number in (1, 2, 3)} - {""}
    folder = as_published(["scin/scin_cases.csv", "scin/scin_labels.csv"], sorted(paths))
    manifest = make_adapter("scin", {}).manifest(folder)
    lesions = {row.lesion_id: row for row in manifest.rows if not row.extra["other_cases"]}
    assert len(manifest.rows) == len(set(manifest.values("image"))) == 10380
    assert sum(len(row.extra["other_cases"].split()) for row in manifest.rows) == 10407 - 10380
    assert len(set(manifest.values("lesion_id"))) == 5033 - 20
    own = {case["case_id"]: case["fitzpatrick_skin_type"] for case in cases}
    assert Counter(own.values()) == {
        "": 2530, "FST3": 661, "FST2": 542, "FST4": 427, "NONE_IDENTIFIED": 328, "FST5": 214, "FST1": 188,
        "FST6": 143,
    }  # fmt: skip
    tones = Counter(f"FST{row.skin_tone}" if row.skin_tone else "" for row in lesions.values())
    told = Counter(own[number].replace("NONE_IDENTIFIED", "") for number in lesions)
    assert tones == told
    assert tones["FST5"] == 214  # no case of type V shares a picture
    weights = {
        line["case_id"]: line["weighted_skin_condition_label"] for line in lines(folder / "scin_labels.csv")
    }
    assert sum(weight == "{}" for weight in weights.values()) == 1972
    assert {bool(row.label) == (weights[number] != "{}") for number, row in lesions.items()} == {True}
    for fact in (AGE, SEX, SITE):
        for row in manifest.rows:
            fact.read(row.site if fact is SITE else row.extra[fact.name])  # in the vocabulary, or empty
    assert {row.extra["age"] for row in manifest.rows} == {"", "23", "34", "44", "54", "64", "74"}
    assert {row.site for row in manifest.rows} >= {"", *SITE.values}
    untied = make_adapter("scin", {"scale": "monk", "ties": "unlabelled"}).manifest(folder)
    assert {row.skin_tone for row in untied.rows} == {"", *map(str, range(1, 11))}
    tied = {row.lesion_id for row in untied.rows if row.extra["tied_labels"]}
    assert len(tied) == 925
    assert not any(row.label for row in untied.rows if row.lesion_id in tied and not row.extra["other_cases"])
