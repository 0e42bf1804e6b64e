"""Which problems stop a job, and which may stay as published data have them."""

import json

import pytest
from PIL import Image
from typer.testing import CliRunner

from clients.data.cli import app

HEADER = "image,label,lesion_id,patient_id,split"


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        Image.effect_noise((96, 96), 60 + 20 * number).convert("RGB").save(tmp_path / f"{number}.png")
    (tmp_path / "copy.png").write_bytes((tmp_path / "0.png").read_bytes())
    return tmp_path


def check(folder, *rows):
    (folder / "m.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    said = CliRunner().invoke(app, ["check", str(folder / "m.csv")])
    found = json.loads(CliRunner().invoke(app, ["check", str(folder / "m.csv"), "--json"]).stdout)
    return said, found


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        (["0.png,NV,a,p,", "copy.png,NV,b,q,"], {"duplicate"}),
        (["0.png,NV,a,p,", "copy.png,MEL,a,p,"], {"contradiction"}),
        (["0.png,NV,a,p,", "1.png,NV,a,q,"], {"lesion"}),
    ],
)
def test_what_published_data_have_may_stay_and_what_a_job_makes_of_it_is_said(folder, rows, kinds):
    said, found = check(folder, *rows, "2.png,NV,c,r,")
    assert {problem["kind"] for problem in found["problems"]} == kinds
    assert (said.exit_code, found["stopping"]) == (0, 0)
    last = said.stdout.splitlines()[-2:]
    assert last[0].endswith("no problems that stop a job; 1 that may stay:")
    assert last[1].startswith(f"  1 {kinds.pop()}: A job ")


def test_one_that_stops_a_job_beside_one_that_may_stay_is_refused(folder):
    said, found = check(folder, "0.png,NV,a,p,", "copy.png,NV,b,q,", "gone.png,NV,c,r,")
    assert (said.exit_code, found["stopping"]) == (1, 1)
    assert "1 problems that stop a job; 1 that may stay:" in said.stdout


def test_a_manifest_without_any_says_so(folder):
    said, _ = check(folder, "0.png,NV,a,p,", "1.png,NV,b,q,")
    assert (said.exit_code, said.stdout.strip().endswith("2 pictures, no problems")) == (0, True)


def test_diagnoses_whose_meaning_is_not_known_are_named(folder):
    said, _ = check(folder, "0.png,NV,a,p,", "1.png,unklar,b,q,", "2.png,unklar,c,r,")
    assert (said.exit_code, "no problems" in said.stdout) == (0, True)
    assert "diagnoses whose meaning is not known: 1 ('unklar'). A job with" in said.output
    said, _ = check(folder, "0.png,NV,a,p,", "1.png,benign,b,q,", "2.png,,c,r,")
    assert "not known: 1" not in said.output
