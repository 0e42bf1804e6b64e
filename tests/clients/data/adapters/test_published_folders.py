"""What every adapter of a published table does alike, on a folder of a few made files each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from clients.data.adapters.table import ADAPTERS, make_adapter
from clients.data.errors import AdapterError
from clients.data.manifest import Manifest

DOCUMENT = Path(__file__).parents[4] / "docs" / "data.md"


@dataclass(frozen=True)
class Folder:
    """A made folder of one data set.

    Attributes:
        tables: its tables by name; the first has a line for each picture.
        pictures: its pictures, at least two.
        labels: the labels of its rows.
        misspelt: a diagnosis in a table, and how it is misspelt.
    """

    tables: Mapping[str, str]
    pictures: tuple[str, ...]
    labels: tuple[str, ...]
    misspelt: tuple[str, str]


MADE = {
    "isic2019": Folder(
        {
            "ISIC_2019_Training_Metadata.csv": "image,age_approx,anatom_site_general,lesion_id,sex\n"
            "ISIC_1,55,anterior torso,BCN_1,male\nISIC_2,,,,\n",
            "ISIC_2019_Training_GroundTruth.csv": "image,MEL,NV,UNK\nISIC_1,1.0,0.0,0.0\nISIC_2,0,0,1\n",
        },
        ("ISIC_1.jpg", "ISIC_2.jpg"),
        ("MEL", "UNK"),
        ("MEL", "MELL"),
    ),
    "isic2020": Folder(
        {
            "ISIC_2020_Training_GroundTruth.csv": "image_name,patient_id,sex,age_approx,"
            "anatom_site_general_challenge,diagnosis,benign_malignant,target\n"
            "ISIC_1,IP_1,male,45.0,torso,melanoma,malignant,1\nISIC_2,IP_2,,,,unknown,benign,0\n"
        },
        ("ISIC_1.jpg", "ISIC_2.jpg"),
        ("malignant", "benign"),
        (",malignant,1", ",malignent,1"),
    ),
    "derm7pt": Folder(
        {
            "meta.csv": "case_num,diagnosis,location,sex,clinic,derm\n"
            "1,clark nevus,back,female,NEL/Nel025.jpg,NEL/Nel026.jpg\n"
            "2,melanoma (in situ),,,NEL/Nel027.jpg,NEL/Nel028.jpg\n"
        },
        ("images/NEL/Nel026.jpg", "images/NEL/Nel028.jpg"),
        ("NV", "MEL"),
        ("clark nevus", "clarck nevus"),
    ),
    "pad-ufes-20": Folder(
        {
            "metadata.csv": "patient_id,lesion_id,age,fitspatrick,region,diagnostic,img_id,biopsed\n"
            "PAT_1,10,8,3.0,ARM,NEV,PAT_1_10_5.png,True\nPAT_2,10,,,,ACK,PAT_2_10_6.png,\n"
        },
        ("imgs_part_1/PAT_1_10_5.png", "imgs_part_2/PAT_2_10_6.png"),
        ("NV", "AK"),
        ("NEV", "NEW"),
    ),
    "fitzpatrick17k": Folder(
        {
            "fitzpatrick17k.csv": "md5hash,fitzpatrick_scale,fitzpatrick_centaur,label,"
            "nine_partition_label,three_partition_label,qc,url\n"
            "aa,6,5,psoriasis,inflammatory,non-neoplastic,,u\n"
            "bb,-1,-1,melanoma,malignant melanoma,malignant,3 Wrongly labelled,\n"
        },
        ("aa.jpg", "bb.jpg"),
        ("psoriasis", "melanoma"),
        ("psoriasis", "psoriasiss"),
    ),
    "scin": Folder(
        {
            "scin_cases.csv": "case_id,fitzpatrick_skin_type,body_parts_arm,body_parts_leg,"
            "image_1_path,image_2_path,image_3_path,image_1_shot_type\n"
            "-1,FST3,YES,YES,dataset/images/-7.png,,,CLOSE_UP\n8,NONE_IDENTIFIED,,,dataset/images/9.png,,,\n",
            "scin_labels.csv": "case_id,dermatologist_skin_condition_on_label_name,"
            "weighted_skin_condition_label,monk_skin_tone_label_india,monk_skin_tone_label_us\n"
            "-1,\"['Eczema', 'Acne']\",\"{'Acne': 0.25, 'Eczema': 0.75}\",2,10\n8,[],{},,\n",
        },
        ("dataset/images/-7.png", "dataset/images/9.png"),
        ("Eczema", ""),
        ("{'Acne'", "{'Acnes'"),
    ),
}

Write = Callable[[Mapping[str, str], tuple[str, ...]], Path]
Import = Callable[..., Manifest]
each = pytest.mark.parametrize("name", MADE)


@each
def test_the_command_imports_what_is_published(name, published, import_command):
    made = MADE[name]
    manifest = import_command(name, published(made.tables, made.pictures))
    assert tuple(row.label for row in manifest.rows) == made.labels
    assert all((manifest.folder / row.image).is_file() for row in manifest.rows)


@each
def test_an_unknown_diagnosis_names_the_nearest(name, published, imported):
    made = MADE[name]
    right, wrong = made.misspelt
    tables = {table: text.replace(right, wrong, 1) for table, text in made.tables.items()}
    with pytest.raises(AdapterError, match=r"has the diagnosis .*; did you mean"):
        imported(name, published(tables, made.pictures))


@each
def test_a_line_that_is_there_twice_counts_once(name, published, imported):
    made = MADE[name]
    table, text = next(iter(made.tables.items()))
    once = imported(name, published(made.tables, made.pictures))
    twice = published({**made.tables, table: text + text.splitlines()[1] + "\n"}, made.pictures)
    if name == "derm7pt":  # whose index files count lines
        with pytest.raises(AdapterError, match="twice"):
            imported(name, twice)
    else:
        assert imported(name, twice).rows == once.rows
        notes = make_adapter(name, {}).manifest(twice).notes
        assert any("1 lines repeat an earlier one" in note for note in notes)


@pytest.mark.parametrize("name", ADAPTERS.own)
def test_every_adapter_is_in_the_docs(name):
    assert f"\n| `{name}` | " in DOCUMENT.read_text()
