from collections import Counter

import pytest

from clients.data.adapters.table import make_adapter
from clients.data.errors import AdapterError
from tests.clients.data.adapters.conftest import lines

TRUTH = "image,MEL,NV\nISIC_1,1.0,0.0\nISIC_2_downsampled,0,1\nISIC_3,0,1\n"
METADATA = """image,age_approx,anatom_site_general,lesion_id,sex
ISIC_1,55,anterior torso,HAM_7,male
ISIC_2_downsampled,,,MSK4_2,
ISIC_3,30,,,female
"""
TABLES_2019 = {
    "ISIC_2019_Training_GroundTruth.csv": TRUTH,
    "ISIC_2019_Training_Metadata.csv": METADATA,
}
PICTURES_2019 = ["ISIC_1.jpg", "ISIC_2_downsampled.jpg", "ISIC_3.jpg"]

TABLE_2020 = "ISIC_2020_Training_GroundTruth.csv"
COLUMNS_2020 = "sex,age_approx,anatom_site_general_challenge,diagnosis,benign_malignant,target"
LINES_2020 = [
    "ISIC_1,IP_1,male,45.0,torso,melanoma,malignant,1",
    "ISIC_2,IP_1,,,,unknown,benign,0",
    "ISIC_3,IP_2,female,,head/neck,lentigo NOS,benign,0",
    "ISIC_4,IP_3,female,30.0,,solar lentigo,benign,0",
]
GROUND_TRUTH_2020 = "\n".join([f"image_name,patient_id,{COLUMNS_2020}", *LINES_2020]) + "\n"
PICTURES_2020 = [f"ISIC_{number}.jpg" for number in (1, 2, 3, 4)]


def test_isic2019_takes_labels_lesions_and_sources(published, imported):
    rows = imported("isic2019", published(TABLES_2019, PICTURES_2019)).rows
    assert [(row.label, row.lesion_id, row.extra["source"]) for row in rows] == [
        ("MEL", "HAM_7", "HAM"),
        ("NV", "MSK4_2", "MSK4"),
        ("NV", "", ""),
    ]
    assert (rows[0].site, rows[0].extra["age"], rows[0].skin_tone) == ("anterior torso", "55", "")
    assert "flamby_center" not in rows[0].extra


def test_isic2019_does_not_know_of_a_lesion_what_its_pictures_tell_differently(published, imported):
    metadata = """image,age_approx,anatom_site_general,lesion_id,sex
ISIC_1,55,anterior torso,HAM_7,male
ISIC_2_downsampled,60,anterior torso,HAM_7,
ISIC_3,30,,,female
"""
    tables = TABLES_2019 | {"ISIC_2019_Training_Metadata.csv": metadata}
    rows = imported("isic2019", published(tables, PICTURES_2019)).rows
    assert [(row.extra["age"], row.extra["sex"], row.site) for row in rows] == [
        ("", "male", "anterior torso"),
        ("", "", "anterior torso"),
        ("30", "female", ""),
    ]


def test_isic2019_finds_downsampled_pictures_under_their_plain_names(published, imported):
    rows = imported("isic2019", published(TABLES_2019, ["ISIC_1.jpg", "ISIC_2.jpg", "ISIC_3.jpg"])).rows
    assert rows[1].image == "published/ISIC_2.jpg"


def test_isic2019_leaves_ham10000_out_when_asked(published, import_command):
    manifest = import_command("isic2019", published(TABLES_2019, PICTURES_2019), without_ham10000=True)
    assert manifest.values("source") == ["MSK4", ""]


def test_isic2019_takes_the_hospitals_of_flamby(published, imported):
    flamby = {"train_test_split.csv": "image,target,center,fold,fold2\nISIC_1,0,5,train,train_5\n"}
    manifest = imported("isic2019", published(TABLES_2019 | flamby, PICTURES_2019))
    assert manifest.values("flamby_center") == ["5", "", ""]
    assert manifest.values("flamby_fold") == ["train", "", ""]
    assert manifest.values("split") == ["", "", ""]


@pytest.mark.parametrize(
    ("truth", "match"),
    [
        (TRUTH.replace("ISIC_3,0,1", "ISIC_3,1,1"), "ISIC_3 has 2 diagnoses instead of one"),
        (TRUTH.replace("ISIC_3,0,1", "ISIC_3,0,yes"), "ISIC_3: could not convert .*; a cell is 1 or 0"),
        (TRUTH.replace("ISIC_3", "ISIC_9"), "ISIC_3 is in the metadata but not in the ground truth"),
    ],
)
def test_isic2019_refuses_labels_that_do_not_fit(published, imported, truth, match):
    folder = published(TABLES_2019 | {"ISIC_2019_Training_GroundTruth.csv": truth}, PICTURES_2019)
    with pytest.raises(AdapterError, match=match):
        imported("isic2019", folder)


def test_isic2020_folds_to_benign_and_malignant(published, imported):
    rows = imported("isic2020", published({TABLE_2020: GROUND_TRUTH_2020}, PICTURES_2020)).rows
    assert [row.label for row in rows] == ["malignant", "benign", "benign", "benign"]
    assert [row.patient_id for row in rows] == ["IP_1", "IP_1", "IP_2", "IP_3"]
    assert rows[0].extra == {
        "age": "45.0", "sex": "male", "diagnosis": "melanoma", "benign_malignant": "malignant",
        "image_kind": "dermoscopic",
    }  # fmt: skip


def test_isic2020_takes_diagnoses_when_asked(published, import_command):
    folder = published({TABLE_2020: GROUND_TRUTH_2020}, PICTURES_2020)
    manifest = import_command("isic2020", folder, labels="diagnosis")
    assert manifest.values("label") == ["MEL", "", "lentigo NOS", "BKL"]


def test_isic2020_prefers_the_table_with_lesions_and_ties_duplicates(published, imported):
    second = [line.replace(",IP_", f",IL_{number},IP_", 1) for number, line in enumerate(LINES_2020)]
    tables = {
        TABLE_2020: GROUND_TRUTH_2020,
        "ISIC_2020_Training_GroundTruth_v2.csv": "\n".join(
            [f"image_name,lesion_id,patient_id,{COLUMNS_2020}", *second]
        ),
        "ISIC_2020_Training_Duplicates.csv": "image_name_1,image_name_2\nISIC_1,ISIC_3\nISIC_3,ISIC_4\n",
    }
    manifest = imported("isic2020", published(tables, PICTURES_2020))
    assert manifest.values("lesion_id") == ["IL_0", "IL_1", "IL_2", "IL_3"]
    assert manifest.values("duplicate_group") == ["ISIC_1", "", "ISIC_1", "ISIC_1"]


def test_isic2020_refuses_contradictions_and_a_missing_table(published, imported):
    with pytest.raises(AdapterError, match=r"no ISIC_2020_Training_GroundTruth\*.csv"):
        imported("isic2020", published({}, PICTURES_2020))
    wrong = GROUND_TRUTH_2020.replace("malignant,1", "malignant,0")
    with pytest.raises(AdapterError, match="ISIC_1 has benign_malignant 'malignant' and target '0'"):
        imported("isic2020", published({TABLE_2020: wrong}, PICTURES_2020))


@pytest.mark.real
def test_isic2019_as_published(as_published, real_table):
    names = [line["image"] for line in lines(real_table("csv_only/ISIC_2019_Training_Metadata.csv"))]
    tables = [f"csv_only/ISIC_2019_Training_{name}.csv" for name in ("GroundTruth", "Metadata")]
    folder = as_published([*tables, "fed_isic2019_flamby/train_test_split.csv"], [f"{n}.jpg" for n in names])
    manifest = make_adapter("isic2019", {}).manifest(folder)
    assert Counter(manifest.values("label")) == {
        "NV": 12875, "MEL": 4522, "BCC": 3323, "BKL": 2624, "AK": 867, "SCC": 628, "VASC": 253, "DF": 239,
    }  # fmt: skip
    assert Counter(manifest.values("source")) == {"BCN": 12413, "HAM": 10015, "": 2084, "MSK4": 819}
    assert len({*manifest.values("lesion_id"), ""}) == 11847 + 1
    assert Counter(manifest.values("flamby_center")) == {
        "0": 12413, "1": 3954, "2": 3363, "3": 2259, "": 2084, "4": 819, "5": 439,
    }  # fmt: skip
    assert all(row.image.startswith("images.zip::") for row in manifest.rows)
    ham = {row.image for row in manifest.rows if row.extra["source"] == "HAM"}
    inside = {
        f"images.zip::{line['image_id']}.jpg" for line in lines(real_table("ham10000/HAM10000_metadata.csv"))
    }
    assert ham == inside
    folds: dict[str, set[str]] = {}
    for row in manifest.rows:
        if row.extra["flamby_fold"]:
            folds.setdefault(row.lesion_id, set()).add(row.extra["flamby_fold"])
    divided = [lesion for lesion, names in folds.items() if len(names) == 2]
    assert sum(lesion.startswith("HAM") for lesion in divided) == 696
    told: dict[str, list[set[str]]] = {}
    for row in manifest.rows:
        if row.lesion_id:
            facts = told.setdefault(row.lesion_id, [set(), set(), set()])
            for fact, value in zip(facts, (row.extra["age"], row.extra["sex"], row.site), strict=True):
                fact.add(value)
    assert max(len(fact - {""}) for facts in told.values() for fact in facts) == 1
    rest = make_adapter("isic2019", {"without_ham10000": True}).manifest(folder)
    assert len(rest.rows) == 25331 - 10015


@pytest.mark.real
def test_isic2020_as_published(as_published, real_table):
    names = [line["image_name"] for line in lines(real_table(f"csv_only/{TABLE_2020}"))]
    tables = [f"csv_only/{TABLE_2020}", "csv_only/ISIC_2020_Training_Duplicates.csv"]
    folder = as_published(tables, [f"train/{name}.jpg" for name in names])
    manifest = make_adapter("isic2020", {}).manifest(folder)
    assert Counter(manifest.values("label")) == {"benign": 32542, "malignant": 584}
    assert len(set(manifest.values("patient_id"))) == 2056
    assert Counter(Counter(filter(None, manifest.values("duplicate_group"))).values()) == {2: 425}
    diagnoses = make_adapter("isic2020", {"labels": "diagnosis"}).manifest(folder)
    assert Counter(diagnoses.values("label")) == {
        "": 27124, "NV": 5193, "MEL": 584, "BKL": 135 + 37 + 7, "lentigo NOS": 44,
        "cafe-au-lait macule": 1, "atypical melanocytic proliferation": 1,
    }  # fmt: skip
