import shutil
from pathlib import Path

from clients.data.check import check_manifest
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import read_manifest, write_manifest
from tests.dicom_files import dicom_file, noise
from training.data.settings import CasesConfig


def test_all_kinds_of_problems_are_found_at_once(write_pictures):
    path = write_pictures(
        [
            Row("a.png", lesion_id="1", split="train"),
            Row("b.png", lesion_id="1", split="test"),
            Row("c.png", lesion_id="2"),
            Row("d.png", lesion_id="3"),
            Row("e.png", lesion_id="4"),
            Row("f.png", skin_tone="9", skin_tone_scale="fitzpatrick"),
        ]
    )
    shutil.copy(path.parent / "c.png", path.parent / "d.png")
    (path.parent / "e.png").write_text("no picture")
    manifest = read_manifest_rows(path)
    write_manifest(Manifest.of([*manifest, Row("missing.jpg")], path.parent), path)
    report = check_manifest(path)
    assert report.pictures == 7
    found = [(problem.kind, problem.text) for problem in report.problems]
    assert [kind for kind, _ in found] == ["value", "picture", "picture", "straddling", "duplicate"]
    texts = [text for _, text in found]
    assert texts[0].startswith("line 7: skin tone '9' is not on the scale")
    assert texts[1].startswith("e.png: ")
    assert texts[2] == "missing.jpg: there is no such file"
    assert texts[3] == "lesion 1 (a.png) is in train, lesion 1 (b.png) is in test"
    assert texts[4] == "the same picture: c.png (lesion 2), d.png (lesion 3)"


def read_manifest_rows(path: Path) -> list[Row]:
    """The rows of a manifest that `read_manifest` would refuse."""
    good = path.read_text().splitlines()
    path.write_text("\n".join(good[:-1]) + "\n")
    return [*read_manifest(path).rows, Row("f.png", skin_tone="9", skin_tone_scale="fitzpatrick")]


def test_the_same_picture_twice_under_one_lesion_is_no_problem(write_pictures):
    path = write_pictures([Row("a.png", lesion_id="1"), Row("b.png", lesion_id="1")])
    shutil.copy(path.parent / "a.png", path.parent / "b.png")
    assert check_manifest(path).problems == ()


def test_cases_are_checked_where_they_are_asked_for(write_pictures):
    path = write_pictures(
        [Row("a.png", lesion_id="1", site="back"), Row("b.png", lesion_id="1", site="left ankle")]
    )
    assert check_manifest(path).problems == ()
    report = check_manifest(path, case=CasesConfig().input)
    (problem,) = report.problems
    assert problem.kind == "case"
    assert problem.text.startswith("site 'left ankle'")
    assert problem.text.endswith("1 picture (b.png)")
    assert report.codes == {"site": {"left ankle": ""}}


def test_pictures_with_burned_in_texts_are_named_and_may_stay(tmp_path):
    names = ("a.dcm", "b.dcm")
    for name, said in zip(names, ("YES", "NO"), strict=True):
        (tmp_path / name).write_bytes(dicom_file(noise(16, 16, 3), BurnedInAnnotation=said))
    write_manifest(
        Manifest.of([Row(name, lesion_id="1") for name in names], tmp_path), tmp_path / "manifest.csv"
    )
    report = check_manifest(tmp_path / "manifest.csv")
    assert [(problem.kind, problem.text) for problem in report.problems] == [("burned-in", "a.dcm")]
    assert report.stopping == 0
