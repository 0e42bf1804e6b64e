import json
import shlex
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from clients.data.adapters.table import make_adapter
from clients.data.errors import AdapterError
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import read_manifest, write_manifest


def archive(folder: Path, *names: str) -> None:
    with zipfile.ZipFile(folder / "images.zip", "w") as file:
        for name in names:
            file.writestr(f"images/{name}.jpg", name)


def imported(name: str, folder: Path, **options: object) -> Manifest:
    """What an adapter makes, written and read again, so that the manifest's own rules hold for it."""
    write_manifest(make_adapter(name, options).manifest(folder), folder / "out.csv")
    return read_manifest(folder / "out.csv")


def test_ham10000_prefers_the_table_with_sources(tmp_path):
    archive(tmp_path, "I1", "I2")
    plain = "lesion_id,image_id,dx,dx_type,age,sex,localization\nH1,I1,akiec,histo,80.0,male,scalp\n"
    (tmp_path / "HAM10000_metadata.csv").write_text(plain)
    assert imported("ham10000", tmp_path).columns[8:] == ("age", "sex", "image_kind")
    (tmp_path / "HAM10000_metadata_with_source.csv").write_text(
        "lesion_id,image_id,dx,dx_type,age,sex,localization,dataset\n"
        "H1,I1,akiec,histo,80.0,male,scalp,rosendahl\n"
        "H2,I2,nv,histo,,,unknown,vidir_modern\n"
    )
    first, second = imported("ham10000", tmp_path).rows
    extra = {"age": "80.0", "sex": "male", "image_kind": "dermoscopic", "clinic": "rosendahl"}
    assert first == Row("images.zip::images/I1.jpg", "AKIEC", lesion_id="H1", site="scalp", extra=extra)
    assert (second.label, second.site, second.extra["clinic"]) == ("NV", "", "vidir_modern")


def test_ham10000_names_an_unknown_diagnosis(tmp_path):
    archive(tmp_path, "I1")
    (tmp_path / "HAM10000_metadata.csv").write_text("lesion_id,image_id,dx,localization\nH1,I1,mell,\n")
    with pytest.raises(AdapterError, match="I1 has the diagnosis 'mell'; did you mean `mel`"):
        imported("ham10000", tmp_path)


def test_milk10k_joins_labels_and_ties_near_duplicates(tmp_path):
    archive(tmp_path, "I1", "I2", "I3")
    (tmp_path / "MILK10k_Training_GroundTruth.csv").write_text(
        "lesion_id,BCC,MEL\nIL_1562251,0.0,1.0\nIL_2734125,0.0,1.0\nIL_3,1.0,0.0\n"
    )
    (tmp_path / "MILK10k_Training_Metadata.csv").write_text(
        "lesion_id,image_type,isic_id,age_approx,sex,skin_tone_class,site\n"
        "IL_1562251,dermoscopic,I1,70,male,0,trunk\n"
        "IL_2734125,clinical: close-up,I2,,female,5,\n"
        "IL_3,dermoscopic,I3,,female,,\n"
    )
    first, second, third = imported("milk10k", tmp_path).rows
    assert (first.label, first.skin_tone, first.skin_tone_scale, first.lesion_id, first.site) == (
        "MEL", "0", "milk10k", "IL_1562251", "trunk",
    )  # fmt: skip
    assert first.extra["duplicate_group"] == second.extra["duplicate_group"] == "IL_1562251"
    assert second.extra["image_type"] == "clinical: close-up"
    assert second.extra["image_kind"] == "close-up"
    assert (third.label, third.skin_tone, third.extra["duplicate_group"]) == ("BCC", "", "")


@pytest.mark.parametrize(
    ("truth", "match"),
    [("IL_1,1.0,1.0", "IL_1 has 2 diagnoses"), ("IL_2,0.0,1.0", "IL_1 is in the metadata but not")],
)
def test_milk10k_refuses_labels_that_do_not_fit(tmp_path, truth, match):
    archive(tmp_path, "I1")
    (tmp_path / "MILK10k_Training_GroundTruth.csv").write_text(f"lesion_id,BCC,MEL\n{truth}\n")
    (tmp_path / "MILK10k_Training_Metadata.csv").write_text(
        "lesion_id,image_type,isic_id,skin_tone_class,site\nIL_1,dermoscopic,I1,3,trunk\n"
    )
    with pytest.raises(AdapterError, match=match):
        imported("milk10k", tmp_path)


def test_image_folders_are_labels(tmp_path):
    for name in ("MEL/a.jpg", "NV/deep/b.PNG", "NV/notes.txt", "loose.jpg", "NV/.hidden.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert imported("image-folder", tmp_path).rows == (Row("MEL/a.jpg", "MEL"), Row("NV/deep/b.PNG", "NV"))


def test_an_image_folder_without_labels_is_refused(tmp_path):
    (tmp_path / "loose.jpg").touch()
    with pytest.raises(AdapterError, match="no pictures in folders named by label"):
        imported("image-folder", tmp_path)


def test_csv_maps_columns_codes_and_tones(tmp_path):
    archive(tmp_path, "1", "2")
    (tmp_path / "t.csv").write_text(
        "DDI_file,disease,tone,case,age\n1.png,melanoma,12,c1,33\n2.png,nevus,-1,c2,\n"
    )
    first, second = imported(
        "csv", tmp_path, table="t.csv", image="DDI_file", label="disease", skin_tone="tone", scale="DDI",
        codes={"label": {"Melanoma": "MEL", "nevus": "NV"}, "skin_tone": {"-1": ""}, "years": {"33": "34"}},
        patient_id="case",
        extra={"age": "years"},
    ).rows  # fmt: skip
    assert first == Row(
        "images.zip::images/1.jpg", "MEL", "12", "ddi", patient_id="c1", extra={"years": "34"}
    )
    assert (second.label, second.skin_tone, second.skin_tone_scale) == ("NV", "", "")


def test_csv_lists_what_cannot_be_read_by_value_and_how_to_map_it(tmp_path):
    archive(tmp_path, *"12345")
    (tmp_path / "t.csv").write_text("image,dx,tone\n1,odd,1\n2,mel,7\n3,odd,7\n4,MEL,2\n5,odd,\n")
    options = {"table": "t.csv", "label": "dx", "skin_tone": "tone", "scale": "fitzpatrick"}
    with pytest.raises(AdapterError) as refused:
        imported("csv", tmp_path, **options, codes={"label": {"mel": "MEL"}})
    first, *values, proposal, lost = str(refused.value).splitlines()
    assert "2 values that cannot be read" in first
    diagnosis, tone = (line.strip() for line in values[:2])
    assert diagnosis.startswith("diagnosis 'odd' is not in `codes`")
    assert diagnosis.endswith(
        "3 pictures (images.zip::images/1.jpg, images.zip::images/3.jpg, images.zip::images/5.jpg)"
    )
    assert tone.startswith("skin tone '7'")
    assert tone.endswith("2 pictures (images.zip::images/2.jpg, images.zip::images/3.jpg)")
    assert proposal.endswith("""'codes={"label": {"mel": "MEL", "odd": "odd"}, "skin_tone": {"7": ""}}'""")
    assert lost == "of these it makes not known: skin_tone '7'"
    codes = {"label": {"mel": "MEL", "odd": "NV"}, "skin_tone": {"7": ""}}
    notes = "\n".join(make_adapter("csv", {**options, "codes": codes}).manifest(tmp_path).notes)
    assert "skin_tone: 2 cells say '7', which is taken for not known (`codes`)" in notes
    assert notes.count("(`codes`)") == 1, "what becomes another value is not dropped"
    rows = imported("csv", tmp_path, **options, codes=codes).rows
    assert [(row.label, row.skin_tone) for row in rows] == [
        ("NV", "1"), ("MEL", ""), ("NV", ""), ("MEL", "2"), ("NV", ""),
    ]  # fmt: skip


def test_csv_proposes_the_codes_of_diagnoses_that_have_one_and_then_takes_known_codes(tmp_path):
    archive(tmp_path, *"1234")
    (tmp_path / "t.csv").write_text("image,dx\n1,Melanom\n2,NÄVUS\n3,Warze\n4,BCC\n")
    options = {"table": "t.csv", "label": "dx"}
    notes = "\n".join(make_adapter("csv", options).manifest(tmp_path).notes)
    assert "diagnosis 'Warze' is none whose meaning is known: 1 picture" in notes
    assert "'BCC'" not in notes
    assert """'codes={"label": {"Melanom": "MEL", "NÄVUS": "NV", "Warze": "Warze"}}'""" in notes
    codes = {"label": {"Melanom": "MEL", "NÄVUS": "NV", "Warze": "BEN_OTH"}}
    manifest = make_adapter("csv", {**options, "codes": codes}).manifest(tmp_path)
    assert (manifest.values("label"), manifest.notes) == (["MEL", "NV", "BEN_OTH", "BCC"], ())
    kept = {"label": {**codes["label"], "Warze": "Warze"}}
    assert make_adapter("csv", {**options, "codes": kept}).manifest(tmp_path).notes == (), "it was decided"


def test_csv_lists_all_that_is_not_known_at_once_and_spells_sexes_in_one_way(tmp_path):
    archive(tmp_path, *"1234")
    (tmp_path / "t.csv").write_text(
        "image,dx,tone,sex,age,place\n1,MEL,Typ II,m,51 J.,back\n2,Warze,2,Female,40,Ohr li.\n"
        "3,NV,Typ 9,O,40,back\n4,NV,1,W,40,back\n"
    )
    options = {"table": "t.csv", "label": "dx", "skin_tone": "tone", "scale": "fitzpatrick", "site": "place"}
    options["extra"] = {"sex": "sex", "age": "age"}
    with pytest.raises(AdapterError, match="6 values that cannot be read") as refused:
        make_adapter("csv", options).manifest(tmp_path)
    *_, proposal, lost = str(refused.value).splitlines()
    codes = json.loads(shlex.split(proposal)[-1].removeprefix("codes="))
    assert codes == {
        "skin_tone": {"Typ II": "II", "Typ 9": ""},
        "age": {"51 J.": "51"},
        "sex": {"W": "female"},
        "site": {"Ohr li.": "head_neck"},
        "label": {"Warze": "Warze"},
    }
    assert lost == "of these it makes not known: skin_tone 'Typ 9'"
    manifest = make_adapter("csv", {**options, "codes": codes}).manifest(tmp_path)
    assert manifest.values("sex") == ["male", "female", "", "female"]
    assert "sex: one cell says 'O', which is taken for not known" in manifest.notes


def test_csv_takes_a_part_of_a_cell(tmp_path):
    archive(tmp_path, "10_left", "10_right", "x")
    (tmp_path / "t.csv").write_text("image,eye\n10_left,a\n10_right,\n")
    options = {"table": "t.csv", "patient_id": "image", "patterns": {"patient_id": "^([0-9]+)_"}}
    assert imported("csv", tmp_path, **options).values("patient_id") == ["10", "10"]
    (tmp_path / "t.csv").write_text("image\n10_left\nx\n")
    with pytest.raises(AdapterError, match=r"patient_id 'x' does not match the pattern .*: 1 picture"):
        imported("csv", tmp_path, **options)


TWICE = "image,dx,notes\n1,MEL,a\n2,NV,a\n1,MEL,b\n2,BCC,a\n2.jpg,NV,a\n3,NV,a\n"


@pytest.mark.parametrize(
    ("repeats", "kept"),
    [("refuse", None), ("first", {"1": "MEL", "2": "NV", "3": "NV"}), ("drop", {"1": "MEL", "3": "NV"})],
)
def test_equal_lines_count_once_and_others_are_listed(tmp_path, repeats, kept):
    archive(tmp_path, "1", "2", "3")
    (tmp_path / "t.csv").write_text(TWICE)
    options = {"table": "t.csv", "label": "dx", "repeats": repeats}
    if kept is None:
        with pytest.raises(
            AdapterError, match=r"(?s)1 lines.*lines 3 and 5, .*2.jpg: label 'NV' and 'BCC'.*--keep"
        ):
            imported("csv", tmp_path, **options)
        return
    made = imported("csv", tmp_path, **options)
    assert {Path(row.image).stem: row.label for row in made.rows} == kept
    notes = "\n".join(make_adapter("csv", options).manifest(tmp_path).notes)
    assert "2 lines repeat an earlier one and count once" in notes
    assert "lines 3 and 5, image images.zip::images/2.jpg: label 'NV' and 'BCC'" in notes


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "options of adapter 'csv': table: Field required"),
        ({"table": "t.csv", "labell": "dx"}, "unknown key `labell`; did you mean `label`"),
        ({"table": "t.csv", "skin_tone": "tone"}, "go together"),
        ({"table": "t.csv", "skin_tone": "tone", "scale": "monc"}, "did you mean `monk`"),
        ({"table": "t.csv", "extra": {"x": "label"}}, "may not make the column label"),
        ({"table": "t.csv", "patterns": {"patient_id": "(.)"}}, "the option `patient_id` names no column"),
        ({"table": "t.csv", "label": "dx", "codes": {"lable": {}}}, "did you mean `label`"),
        ({"table": "t.csv", "label": "dx", "repeats": "last"}, "repeats: Input should be 'refuse'"),
        ({"table": "t.csv", "site": "a", "patterns": {"site": "a"}}, "of site needs one group"),
        ({"table": "t.csv", "site": "a", "patterns": {"site": "(a"}}, r"'\(a' is no regular expression"),
    ],
)
def test_csv_options_that_do_not_fit_are_refused(options, match):
    with pytest.raises(AdapterError, match=match):
        make_adapter("csv", options)


def test_synthetic_refuses_a_folder_with_another_number_of_pictures(tmp_path):
    folder = tmp_path / "made-up"
    assert len(make_adapter("synthetic", {"pictures": 6, "size": 32}).manifest(folder).rows) == 6
    with pytest.raises(AdapterError, match="holds 6 pictures, the job asks for 7"):
        make_adapter("synthetic", {"pictures": 7, "size": 32}).manifest(folder)


@pytest.mark.real
def test_ham10000_as_published(real_table):
    folder = real_table("ham10000/HAM10000_metadata_with_source.csv").parent
    manifest = make_adapter("ham10000", {}).manifest(folder)
    assert Counter(manifest.values("label")) == {
        "NV": 6705, "MEL": 1113, "BKL": 1099, "BCC": 514, "AKIEC": 327, "VASC": 142, "DF": 115,
    }  # fmt: skip
    assert len(set(manifest.values("lesion_id"))) == 7470
    assert len(set(manifest.values("clinic"))) == 4


@pytest.mark.real
def test_milk10k_as_published(real_table):
    folder = real_table("milk10k/MILK10k_Training_Metadata.csv").parent
    manifest = make_adapter("milk10k", {}).manifest(folder)
    lesions = {row.lesion_id: row.skin_tone for row in manifest.rows}
    assert len(manifest.rows) == 8390
    assert Counter(lesions.values()) == {"0": 5, "1": 85, "2": 405, "3": 2542, "4": 853, "5": 305}
    assert Counter(Counter(filter(None, manifest.values("duplicate_group"))).values()) == {4: 5}
