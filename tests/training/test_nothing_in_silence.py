"""Pictures that are not used are told of, with how many and why, wherever a person looks at a run."""

import csv
import json

import pytest
from PIL import Image

from clients.data.synthetic import write_synthetic

WAYS = ("--check", "the log", "the report", "summary.json")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    write_synthetic(folder, pictures=120, size=64, seed=2)
    return folder


@pytest.fixture
def hospital(pictures, tmp_path, tiny, job_file):
    """A job on a manifest whose lines were changed: 7 pictures missing, 2 empty, 9 tones on another scale."""

    def write(change, **data):
        with (pictures / "manifest.csv").open() as file:
            rows = list(csv.DictReader(file))
        for place, row in enumerate(rows):
            row["image"] = str(pictures / row["image"])
            change(place, row)
        with (tmp_path / "manifest.csv").open("w") as file:
            lines = csv.DictWriter(file, list(rows[0]))
            lines.writeheader()
            lines.writerows(rows)
        settings = {name: tiny["data"][name] for name in ("label_map", "image_size", "subgroups", "split")}
        clients = {"by": "iid", "count": 2}
        job = {**tiny, "data": {"manifest": "manifest.csv", **settings, "clients": clients, **data}}
        return job_file({**job, "stages": [{**tiny["stages"][0], "rounds": 1}]})

    return write


def told_everywhere(train_command, job, tmp_path):
    """What each way tells of a job's data, as one text each."""
    checked = train_command("--check", job)
    assert checked.code == 0, checked.err
    ran = train_command(job, "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    summary = (tmp_path / "run" / "summary.json").read_text()
    page = (tmp_path / "run" / "report.html").read_text()
    return dict(
        zip(WAYS, (checked.out, ran.err, page, json.dumps(json.loads(summary)["notes"])), strict=True)
    )


def missing(place, row):
    if place < 7:
        row["image"] += ".gone"


def empty(place, row, tmp_path):
    if 10 <= place < 12:
        (tmp_path / f"{place}.png").write_bytes(b"")
        row["image"] = str(tmp_path / f"{place}.png")


def other_scale(place, row):
    if place % 10 == 0:
        row["skin_tone"], row["skin_tone_scale"] = "3", "monk"


def assert_told(told, words):
    for way, text in told.items():
        assert words in " ".join(text.split()), f"{way} does not tell: {words}"


def test_what_is_in_no_subgroup_is_told_everywhere(train_command, hospital, tmp_path):
    told = told_everywhere(train_command, hospital(other_scale), tmp_path)
    assert_told(told, "12 of 120 pictures that are used are in no subgroup")
    assert_told(told, "12 declared on the scale monk")


def test_a_picture_that_two_clients_have_is_told_everywhere(train_command, hospital, tmp_path, pictures):
    def change(place, row):
        row["clinic"] = "north" if place < 60 else "south"
        row |= {name: f"{row['clinic']} {row[name]}" for name in ("lesion_id", "patient_id")}
        if place == 119:
            first = next(iter(sorted(pictures.glob("**/*.png"))))
            row["image"] = str(tmp_path / "again.jpg")
            Image.open(first).convert("RGB").save(row["image"], quality=85)

    job = hospital(change, image_size=64, clients={"by": "column", "column": "clinic"})
    told = told_everywhere(train_command, job, tmp_path)
    assert_told(told, "1 pairs of near-duplicates are at two clients")


def test_causes_are_counted_apart_and_rows_that_the_job_does_not_want_are_told(
    train_command, hospital, tmp_path
):
    def change(place, row):
        missing(place, row)
        empty(place, row, tmp_path)
        row["site"] = "back" if place < 100 else "hand"

    job = hospital(change, on_broken="skip", where={"site": "back"})
    told = told_everywhere(train_command, job, tmp_path)
    assert_told(told, "29 of 120 pictures are not used: 20 that `where` does not keep; 9 missing or broken")
    unused = json.loads((tmp_path / "run" / "summary.json").read_text())["unused"]["all"]
    assert unused["not_used"] == {"where": 20, "broken": 9}
    assert sorted(unused["causes"].values()) == [2, 7]
    assert unused["listed"] == 120


def test_a_job_that_is_refused_for_want_of_pictures_says_which_are_missing(train_command, hospital):
    job = hospital(missing, on_broken="skip")
    personal = "stages.personalize={stage: personalize, strategy: {name: none}}"
    ended = train_command("--check", job, "--set", personal, "--set", "privacy.min_count=60")
    assert ended.code == 2
    assert "no hospital holds 60 labelled validation pictures" in ended.err
    assert "7 of 120 pictures are not used: 7 missing or broken" in ended.err


def test_where_every_picture_is_used_nothing_is_told(train_command, hospital, tmp_path):
    told = told_everywhere(train_command, hospital(lambda place, row: None), tmp_path)
    for text in told.values():
        assert "pictures are not used" not in text
        assert "in no subgroup:" not in text
