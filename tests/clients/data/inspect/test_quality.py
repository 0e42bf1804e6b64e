"""`dermfed-data report`: what the page on a manifest's quality says, and what it hides."""

import json
import re
from dataclasses import replace

import pytest
from PIL import Image
from typer.testing import CliRunner

from clients.data.cli import app
from clients.data.manifest import Row
from clients.data.quality import Count, quality_of, quality_page

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def manifest(write_pictures):
    rows = [
        Row(
            f"images/{n}.png",
            label="NV" if n % 3 else "MEL",
            skin_tone="5" if n < 4 else "2",
            skin_tone_scale="fitzpatrick",
            lesion_id=f"L{n // 2}",
            patient_id="" if n == 7 else f"P{n // 2}",
            extra={"clinic": "north" if n % 4 < 2 else "south"},
        )
        for n in range(80)
    ]
    rows[9] = replace(rows[9], label="", skin_tone="", skin_tone_scale="")
    rows[10] = replace(rows[10], label=HOSTILE)
    rows[20] = replace(rows[20], patient_id="P99")
    rows[11] = replace(rows[11], skin_tone="5", skin_tone_scale="monk")
    path = write_pictures(rows)
    (path.parent / "images" / "12.png").write_bytes(b"no picture")
    (path.parent / "images" / "13.png").unlink()
    (path.parent / "images" / "14.png").unlink()
    return path


def row_of(table, label):
    return dict(zip(table.columns, dict(table.rows)[label], strict=True))


def test_labels_are_counted_by_tone_and_clinic_with_their_patients(manifest):
    tones, others, clinics = quality_of(manifest).counts
    assert tones.columns == ("1", "2", "3", "4", "5", "6", "not known", "all")
    assert row_of(tones, "MEL")["5"] == Count(2, 2)
    assert row_of(tones, "all")["5"] == Count(4, 2)
    assert row_of(others, "all")["5"] == Count(1, 1)
    assert row_of(tones, "all")["all"] == Count(80, 40)
    assert row_of(tones, "no label")["not known"] == Count(1, 1)
    assert row_of(clinics, "all")["north"] == Count(40, 20)
    assert clinics.title == "Labels by clinic"


@pytest.mark.parametrize(
    ("pictures", "patients", "thin"), [(30, 10, False), (29, 29, True), (60, 9, True), (0, 0, True)]
)
def test_a_cell_is_thin_under_what_figures_need_or_what_may_be_told(pictures, patients, thin):
    assert Count(pictures, patients).thin is thin


def test_what_is_missing_is_counted(manifest):
    missing = {column: count for column, count, _ in quality_of(manifest).missing}
    assert missing == {"label": 1, "skin_tone": 1, "patient_id": 1}


def test_the_smallest_and_the_largest_picture_are_told(tmp_path, write_pictures):
    path = write_pictures([Row(f"{n}.png", label="NV") for n in range(3)])
    for n, size in enumerate([(50, 90), (70, 60), (80, 95)]):
        Image.new("RGB", size, (n, 9, 9)).save(path.parent / f"{n}.png")
    assert ("Shorter side, pixels", "50 to 80, median 60") in quality_of(path).sizes
    (labels,) = quality_of(path).counts
    assert (labels.title, row_of(labels, "NV")["all"].pictures) == ("Labels", 3)


def test_everything_of_the_table_is_escaped(manifest):
    page = quality_page(quality_of(manifest))
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(src|href)=\"(?!#)", page), "nothing is loaded from elsewhere"


def test_file_names_are_on_the_page_unless_they_are_to_be_hidden(manifest, tmp_path):
    quality = quality_of(manifest)
    assert "images/13.png" in quality_page(quality)
    assert "<li>there is no such file: 2</li>" in quality_page(quality)
    assert "is not to leave the hospital" in quality_page(quality)
    hidden = quality_page(quality, names=False)
    assert "images/" not in hidden
    assert str(tmp_path) not in hidden
    assert "Pictures that are missing or broken: 3" in hidden
    assert "One lesion at two patients: 1 (may stay)" in hidden


@pytest.mark.parametrize("name", ["Jane Doe 1970-01-01.csv", "ward-7.csv"])
def test_without_names_the_manifest_is_not_named_either(manifest, name):
    named = manifest.rename(manifest.parent / name)
    quality = quality_of(named)
    assert f"<h1>{name}</h1>" in quality_page(quality)
    hidden = quality_page(quality, names=False)
    assert name not in hidden
    assert named.stem not in hidden
    assert re.findall(r"<(?:title|h1)>(.+?)</", hidden) == ["Quality of a manifest", "A manifest"]


def test_the_command_writes_a_page_once_and_answers_in_json(manifest, tmp_path):
    out = tmp_path / "quality.html"
    ended = CliRunner().invoke(app, ["report", str(manifest), "--out", str(out), "--json"])
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["broken"] == {
        "Pictures that are missing or broken": 3,
        "One lesion at two patients": 1,
    }
    assert "<!doctype html>" in out.read_text()
    again = CliRunner().invoke(app, ["report", str(manifest), "--out", str(out)])
    assert again.exit_code == 1
    assert CliRunner().invoke(app, ["report", str(manifest), "--out", str(out), "--force"]).exit_code == 0
