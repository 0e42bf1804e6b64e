"""What a user can get wrong, through the command: a line that says how to mend it, and nothing lost."""

import csv
import errno
import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from training.tensor_file import save_tensors

pytestmark = pytest.mark.usefixtures("without_report")

Row = dict[str, str]


def picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG")
    return buffer.getvalue()


def claiming_png(side: int) -> bytes:
    """A small PNG file whose header claims `side` × `side` pixels, compressed as a stream."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    stream = zlib.compressobj(9)
    row = bytes(1 + 3 * side)
    body = b"".join(stream.compress(row) for _ in range(100)) + stream.flush()
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    """24 pictures of two labels, six tones and two clinics, on disk."""
    made = []
    for index in range(24):
        name = f"{index}.jpg"
        (tmp_path / name).write_bytes(picture(index))
        made.append(
            {
                "image": name,
                "label": "MEL" if index % 3 == 0 else "NV",
                "skin_tone": str(index % 6 + 1),
                "skin_tone_scale": "fitzpatrick",
                "clinic": "north" if index < 16 else "south",
            }
        )
    return made


@pytest.fixture
def hospital(
    tmp_path: Path, job_file: Callable[[dict[str, Any]], Path], tiny: dict[str, Any]
) -> Callable[..., Path]:
    """Write a manifest of these rows and a job on it with these changes to `data`; gives the job."""

    def write(rows: list[Row], **changes: Any) -> Path:
        with (tmp_path / "manifest.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)
        data = {
            "manifest": "manifest.csv",
            "label_map": {"MEL": "malignant", "NV": "benign"},
            "image_size": 16,
            "subgroups": tiny["data"]["subgroups"],
            "clients": {"by": "subgroup"},
            **changes,
        }
        return job_file({**tiny, "data": data})

    return write


# The job file.


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("seed", "--set seed: write it as key.path=value"),
        ("=3", "--set =3: write it as key.path=value"),
        ("sead=4", "unknown key `sead`; did you mean `seed`?"),
        ("seed=[", "--set seed=[: the value cannot be read as YAML"),
        ("seed.x=3", "--set seed.x=3: there is no `x` there, only the value 3"),
        ("stages.federat.rounds=3", "there is no `federat` there; did you mean `federate`?"),
        ("stages.7.rounds=3", "there is no `7` there; valid: federate, 0"),
        ("stages.federate.rounds=many", "stages.0.rounds: Input should be a valid integer"),
        ("data.image_size=99999", "data.image_size: Input should be less than or equal to 2048; found 99999"),
        ("model.name=resnet81", "unknown timm model `resnet81`; did you mean `resnet18`?"),
        ("engine.name=nvflair", "engine.name: Input should be 'in-process' or 'nvflare'; found 'nvflair'"),
        ("data.adapter=synthetik", "there is no adapter 'synthetik'; did you mean `synthetic`?"),
    ],
)
def test_a_wrong_change_is_named_with_what_is_allowed(train_command, job_file, tiny, change, told):
    ended = train_command(job_file(tiny), "--set", change)
    assert ended.code == 2
    assert told in ended.err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a: [\n", "cannot be read as YAML"),
        (b"\xff\xfe\x00a", "is not text in UTF-8"),
        (b"- a\n", "holds no job; see the shape with --schema"),
        (b"", "holds no job"),
        (None, "cannot read job.yaml: No such file or directory; list the built-in jobs"),
    ],
)
def test_a_file_that_is_no_job_or_not_there_says_so(train_command, tmp_path, content, told):
    if content is not None:
        (tmp_path / "job.yaml").write_bytes(content)
    ended = train_command("job.yaml")
    assert ended.code == 2
    assert told in ended.err


# The data.


def test_missing_pictures_are_listed(train_command, hospital, rows):
    gone = [{**rows[0], "image": f"gone-{index}.jpg"} for index in range(3)]
    ended = train_command(hospital(rows + gone))
    assert ended.code == 2
    assert "3 of 27 pictures cannot be used" in ended.err
    assert "3: there is no such file" in ended.err
    listed = ended.err.partition("3: there is no such file")[2].splitlines()[1:4]
    assert [line.rpartition("/")[2] for line in listed] == ["gone-0.jpg", "gone-1.jpg", "gone-2.jpg"]


def test_broken_pictures_are_told_apart_and_may_be_skipped(train_command, hospital, rows, tmp_path):
    (tmp_path / "cut.jpg").write_bytes(picture(0)[:300])
    (tmp_path / "huge.png").write_bytes(claiming_png(30_000))
    (tmp_path / "text.jpg").write_text("no picture")
    assert (tmp_path / "huge.png").stat().st_size < 100_000
    job = hospital(rows + [{**rows[0], "image": name} for name in ("cut.jpg", "huge.png", "text.jpg")])

    refused = train_command(job)
    assert refused.code == 2
    assert "cut.jpg: the picture's bytes end early" in refused.err
    assert "huge.png: the picture has 30000 x 30000 = 900,000,000 pixels" in refused.err
    assert "text.jpg: 10 bytes that are no picture" in refused.err
    assert "set `on_broken: skip`" in refused.err

    skipped = train_command("--check", "--json", job, "--set", "data.on_broken=skip")
    assert skipped.code == 0
    assert sum(row["n"] for row in json.loads(skipped.out)) == 24


BY_TONE = {"light": ["1", "2", "3", "4"], "dark": ["5", "6"]}


def tones(**groups: list[str]) -> dict[str, Any]:
    return {"subgroups": {"scale": "fitzpatrick", "groups": groups}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"label_map": {"MEL": "malignant"}}, ["'NV': 16 pictures", "or null to leave it out"]),
        (tones(light=["1", "2"], dark=["7"]), ["skin tone '7' is not on the scale fitzpatrick; allowed"]),
        (
            tones(light=["1", "2"], both=["2"]),
            ["skin tone 2 (scale fitzpatrick) is in two groups, light and both; each value belongs"],
        ),
        (tones(**BY_TONE), ["no picture belongs to the subgroup dark", "fitzpatrick 4: 4"]),
        (
            {"clients": {"by": "iid", "count": 26}},
            ["client-25", "would have no pictures to train on; ask for fewer clients"],
        ),
    ],
)
def test_what_does_not_fit_the_pictures_is_named_beside_what_there_is(
    train_command, hospital, rows, changes, told
):
    kept = [row for row in rows if changes != tones(**BY_TONE) or row["skin_tone"] not in BY_TONE["dark"]]
    ended = train_command(hospital(kept, **changes))
    assert ended.code == 2
    assert [words for words in told if words not in ended.err] == []


# The rule of the job that a round needs answers.


def test_a_client_that_cannot_train_ends_the_run_with_code_1(train_command, hospital, rows, tmp_path):
    placed = [{**row, "split": "train" if row["clinic"] == "north" else "test"} for row in rows]
    placed[-1]["split"] = "train"  # south's only training picture
    ended = train_command(hospital(placed, clients={"by": "column", "column": "clinic"}), "--out", "run")
    assert ended.code == 1
    assert "south has one training picture, and a batch is of two at least" in ended.err
    assert "engine.min_clients" in ended.err
    assert not (tmp_path / "run" / "summary.json").exists()

    enough = train_command(tmp_path / "job.yaml", "--out", "run", "--set", "engine.min_clients=1")
    assert enough.code == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [(line["asked"], line["answered"]) for line in lines] == [(["north", "south"], ["north"])] * 2
    assert "fewer than two pictures" in str(lines[0]["failed"])


# The folder of the run.


def test_a_folder_of_something_else_is_left_alone(train_command, job_file, tiny, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    ended = train_command(job_file(tiny), "--out", "mine")
    assert ended.code == 2
    assert "mine is not empty and holds no run of ours; choose another --out" in ended.err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_place_that_cannot_be_written_is_refused_in_a_line(train_command, job_file, tiny, tmp_path, out):
    (tmp_path / "file").write_text("x")
    ended = train_command(job_file(tiny), "--out", out)
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert str(out) in ended.err


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_neither_overwritten_nor_continued_by_another_job(train_command, job_file, tiny, tmp_path):
    job = job_file(tiny)
    assert train_command(job, "--out", "run").code == 0
    before = tree(tmp_path / "run")

    again = train_command(job, "--out", "run")
    assert again.code == 2
    assert "run holds a run already; continue it with --resume, or choose another --out" in again.err

    changed = train_command(
        job, "--out", "run", "--resume", "--set", "seed=4", "--set", "stages.federate.objective.epochs=2"
    )
    assert changed.code == 2
    assert "holds a run of another job: seed, stages.0.objective.epochs differ" in changed.err
    assert tree(tmp_path / "run") == before


# The disk.


def test_a_full_disk_stops_at_a_checkpoint_from_which_the_run_goes_on(
    train_command, job_file, tiny, tmp_path, monkeypatch
):
    job = job_file(tiny)
    assert train_command(job, "--out", "undisturbed").code == 0

    def full(tensors: Any, path: Path, metadata: Any) -> None:
        if "round-000002" in path.name:
            path.write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        save_tensors(tensors, path, metadata)

    monkeypatch.setattr("training.tensor_file.save_tensors", full)
    stopped = train_command(job, "--out", "run")
    assert stopped.code == 2
    assert "No space left on device" in stopped.err
    assert "free some disk space" in stopped.err
    assert "continue with --resume" in stopped.err
    kept = sorted(path.name for path in (tmp_path / "run/checkpoints/0-federate").iterdir())
    assert kept == ["round-000001.safetensors"], "no half of a file stays behind"

    monkeypatch.setattr("training.tensor_file.save_tensors", save_tensors)
    assert train_command(job, "--out", "run", "--resume").code == 0
    outcome = "checkpoints/0-federate/outcome.safetensors"
    expected, found = load_file(tmp_path / "undisturbed" / outcome), load_file(tmp_path / "run" / outcome)
    assert expected.keys() == found.keys()
    assert all(expected[name].equal(found[name]) for name in expected)
