from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from clients.data.check import check_manifest, read_all
from clients.data.cli import app
from clients.data.manifest import DUPLICATE_GROUP, Manifest, Row
from clients.data.manifest_file import read_manifest, write_manifest
from clients.data.near_duplicate_links import leak_notes, lesions_of_two_patients, link, same_pictures
from clients.data.partition import partition_manifest
from clients.data.prepare import prepare
from clients.data.synthetic import case_of, draw
from training.data.settings import ClientsConfig, DataConfig

SIZE = 96


def lesion(index: int) -> Image.Image:
    return Image.fromarray(draw(case_of(5, index), SIZE))


@pytest.fixture
def write_lesions(tmp_path):
    """A manifest with drawn lesions: `3.png` is the third, `3-again.jpg` the same, smaller and cropped."""

    def write(rows: list[Row]) -> Path:
        for row in rows:
            image = lesion(int(row.image.split(".")[0].split("-")[0]))
            if "-again" in row.image:
                image = image.crop((3, 1, 94, 92)).resize((70, 70))
            image.save(tmp_path / row.image, quality=75)
        write_manifest(Manifest.of(rows, tmp_path), tmp_path / "manifest.csv")
        return tmp_path / "manifest.csv"

    return write


def found(path: Path, **options: bool) -> list[tuple[str, str]]:
    return [(problem.kind, problem.text) for problem in check_manifest(path, **options).problems]


def test_near_duplicates_of_two_lesions_are_named_those_on_two_sides_first(write_lesions):
    path = write_lesions(
        [
            Row("1.png", lesion_id="a", split="train"),
            Row("2.png", lesion_id="b", split="train"),
            Row("1-again.jpg", lesion_id="c", split="train"),
            Row("2-again.jpg", lesion_id="d", split="test"),
            Row("3.png", lesion_id="e"),
            Row("3-again.jpg", lesion_id="e"),
        ]
    )
    problems = found(path)
    assert [kind for kind, _ in problems] == ["near-duplicate", "near-duplicate"]
    first, second = (text for _, text in problems)
    assert first.startswith("2.png (lesion b, train) and 2-again.jpg (lesion d, test): likeness 0.")
    assert first.endswith(", on two sides of a split")
    assert second.startswith("1.png (lesion a, train) and 1-again.jpg (lesion c, train): likeness 0.")
    assert not second.endswith("split")
    assert found(path, near_duplicates=False) == []


@pytest.mark.parametrize("shared", ["lesion_id", "patient_id", DUPLICATE_GROUP])
def test_near_duplicates_that_are_linked_are_no_problem(write_lesions, shared):
    rows = [
        Row(name, extra={shared: "x"}) if shared == DUPLICATE_GROUP else Row(name, **{shared: "x"})
        for name in ("1.png", "1-again.jpg")
    ]
    assert found(write_lesions(rows)) == []


@pytest.mark.parametrize(
    ("name", "kinds", "said"),
    [
        ("1-copy.png", ["duplicate", "contradiction"], "the same picture has 2 diagnoses: MEL (1.png), NV ("),
        (
            "1-again.jpg",
            ["near-duplicate", "contradiction"],
            "have 2 diagnoses: MEL (1.png), NV (1-again.jpg)",
        ),
    ],
)
def test_the_same_picture_with_two_diagnoses_is_a_contradiction(write_lesions, name, kinds, said):
    rows = [Row("1.png", "MEL", lesion_id="a"), Row(name, "NV", lesion_id="b"), Row("2.png", "BKL")]
    problems = found(write_lesions(rows))
    assert [kind for kind, _ in problems] == kinds
    assert said in problems[1][1]


def test_a_contradiction_is_named_within_a_lesion_too_and_needs_two_labels(write_lesions):
    same = {"lesion_id": "a"}
    rows = [Row("1.png", "MEL", **same), Row("1-copy.png", "NV", **same), Row("1-third.png", "", **same)]
    ((kind, text),) = found(write_lesions(rows))
    assert (kind, text) == ("contradiction", "the same picture has 2 diagnoses: MEL (1.png), NV (1-copy.png)")
    alike = [Row("2.png", "MEL", **same), Row("2-copy.png", "MEL", **same), Row("2-again.jpg", **same)]
    assert found(write_lesions(alike)) == []


def test_a_lesion_at_two_patients_is_named_with_both():
    rows = [
        Row("a.png", lesion_id="1", patient_id="p"),
        Row("b.png", lesion_id="1", patient_id="p"),
        Row("c.png", lesion_id="1", patient_id="q"),
        Row("d.png", lesion_id="2", patient_id="p"),
        Row("e.png", lesion_id="2"),
        Row("f.png", patient_id="r"),
    ]
    (line,) = lesions_of_two_patients(rows)
    assert line.startswith("lesion 1 is at 2 patients: p (a.png), q (c.png); give it one")


def linked(path: Path) -> Manifest:
    manifest = read_manifest(path)
    return link(manifest, read_all(manifest, near_duplicates=True)[0])


def test_groups_that_are_there_stay_and_become_one(write_lesions):
    group = {name: {DUPLICATE_GROUP: name} for name in ("old", "other", "")}
    path = write_lesions(
        [
            Row("1.png", extra=group[""]),
            Row("9.png", extra=group["other"]),
            Row("1-again.jpg", extra=group["old"]),
            Row("8.png", extra=group["old"]),
            Row("9-copy.png", extra=group["old"]),
            Row("2.png", extra=group[""]),
            Row("3.png", extra=group[""]),
            Row("3-copy.png", extra=group[""]),
            Row("3-again.jpg", extra=group[""]),
            Row("7.png", extra={DUPLICATE_GROUP: "alone"}),
        ]
    )
    manifest = linked(path)
    assert manifest.values(DUPLICATE_GROUP) == ["other"] * 5 + [""] + ["like 3.png"] * 3 + ["alone"]
    write_manifest(manifest, path)
    assert found(path) == []
    assert linked(path) == manifest


def test_linked_pictures_go_to_one_client_and_one_split(write_lesions, tmp_path):
    labels = ("MEL", "NV")
    rows = [Row(f"{index}.png", labels[index % 2], lesion_id=f"a{index}") for index in range(12)]
    again = [
        Row(f"{index}-again.jpg", labels[index % 2], lesion_id=f"b{index}") for index in (0, 1, 2, 3, 4, 5)
    ]
    path = write_lesions([*rows, *again])
    manifest = linked(path)
    write_manifest(manifest, tmp_path / "linked.csv")

    def parted(manifest: Manifest) -> list[bool]:
        parts = partition_manifest(manifest, ClientsConfig(by="iid", count=3), seed=1)
        holder = {row.image: client for client, part in parts.items() for row in part.rows}
        return [holder[row.image] != holder[row.image.replace("-again.jpg", ".png")] for row in again]

    assert any(parted(read_manifest(path)))
    assert not any(parted(manifest))

    def leaks(name: str) -> list[str]:
        config = DataConfig.model_validate(
            {"manifest": name, "image_size": 64, "clients": {"by": "iid", "count": 2}}
        )
        data = prepare(config, seed=3, folder=tmp_path, cache=tmp_path / "cache")
        return leak_notes(data)

    splits, clients = leaks("manifest.csv")
    assert "in two splits" in splits
    assert "at two clients" in clients
    assert leaks("linked.csv") == []


def test_pairs_are_counted_by_splits_and_clients(write_lesions, tmp_path):
    pairs = [("train", "train"), ("train", "test"), ("test", "train"), ("validation", "calibration")]
    rows = [
        row
        for index, (one, other) in enumerate(pairs)
        for row in (
            Row(f"{index}.png", "NV", split=one, extra={"clinic": "a"}),
            Row(f"{index}-again.jpg", "NV", split=other, extra={"clinic": "a" if index < 3 else "b"}),
        )
    ]
    write_lesions([*rows, Row("20.png", "MEL", split="train", extra={"clinic": "b"})])
    config = DataConfig.model_validate(
        {"manifest": "manifest.csv", "image_size": 64, "clients": {"by": "column", "column": "clinic"}}
    )
    data = prepare(config, seed=0, folder=tmp_path, cache=tmp_path / "cache")
    splits, clients = leak_notes(data)
    assert splits.startswith(
        "3 pairs of near-duplicates are in two splits (2 of train and test, 1 of validation and calibration)"
    )
    assert "dermfed-data link" in splits
    assert clients.startswith("1 pairs of near-duplicates are at two clients")


def test_broken_and_empty_rows_are_left_out():
    same = same_pictures(["", "x", "", "x"], {})
    assert same.identical == ((1, 3),)
    assert same.near == ()


def test_cases_count_each_picture_once(write_lesions, tmp_path):
    rows = [
        Row(name, "NV", lesion_id=lesion_id, split=split, extra={"image_kind": kind})
        for name, lesion_id, split, kind in (
            ("1.png", "a", "train", "close-up"),
            ("2.png", "a", "train", "dermoscopic"),
            ("2-again.jpg", "b", "test", "dermoscopic"),
            ("3.png", "c", "train", "close-up"),
        )
    ]
    write_lesions(rows)
    config = DataConfig.model_validate({"manifest": "manifest.csv", "image_size": 64, "unit": "lesion"})
    data = prepare(config, seed=0, folder=tmp_path, cache=tmp_path / "cache")
    assert np.ndim(data.table.rows) == 1
    (splits,) = leak_notes(data)
    assert splits.startswith("1 pairs of near-duplicates are in two splits (1 of train and test), ")


def test_pictures_are_compared_and_linked_across_manifests(tmp_path):
    def write(name: str, *images: str) -> Path:
        (tmp_path / name).mkdir()
        for image in images:
            shown = lesion(int(image[0]))
            (shown.crop((3, 1, 94, 92)).resize((70, 70)) if "again" in image else shown).save(
                tmp_path / name / image, quality=75
            )
        rows = [Row(image, lesion_id=f"{name}-{image[0]}") for image in images]
        write_manifest(Manifest.of(rows, tmp_path / name), tmp_path / f"{name}.csv")
        return tmp_path / f"{name}.csv"

    north, south = write("north", "1.png", "2.png"), write("south", "1-again.jpg", "2.png", "3.png")
    assert found(north) == found(south) == []
    kinds = [(problem.kind, problem.text) for problem in check_manifest(north, south).problems]
    assert [kind for kind, _ in kinds] == ["duplicate", "near-duplicate"]
    assert "north/2.png (lesion north-2), south/2.png (lesion south-2)" in kinds[0][1]

    out = tmp_path / "linked"
    command = ["link", str(north), str(south), "--out", str(out)]
    assert CliRunner().invoke(app, command).exit_code == 0
    linked = [read_manifest(out / path.name) for path in (north, south)]
    first, second = ([row.value(DUPLICATE_GROUP) for row in one.rows] for one in linked)
    assert first == [second[0], second[1]]
    assert all(first)
    assert second[2] == ""
    assert [(one.folder / row.image).resolve() for one in linked for row in one.rows] == [
        tmp_path / place
        for place in ("north/1.png", "north/2.png", "south/1-again.jpg", "south/2.png", "south/3.png")
    ]
    assert check_manifest(out / "north.csv", out / "south.csv").problems == ()
    twice = CliRunner().invoke(app, ["check", str(north), str(north)])
    assert (twice.exit_code, "named twice" in twice.stderr) == (2, True)
