"""A model of cases: several pictures of a lesion and facts, trained, served and asked in every way."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from PIL import Image

from clients import api
from tests.contract.openapi import fits, values
from tests.contract.service import DERMFED_SERVE, DIAGNOSES, lasting, problem, serving, wait_for

pytestmark = pytest.mark.long

PROMISED: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "http.yaml").read_text())
FACTS = {"age": "70", "sex": "male", "site": "trunk"}


@pytest.fixture(scope="module")
def lesions(command, tmp_path_factory):
    """A manifest of 120 lesions: each with a close-up, a dermoscopic picture or both, most with facts."""
    folder = tmp_path_factory.mktemp("lesions")
    ended = command("data", "synth", "--out", folder, "--pictures", 120, "--size", 32, "--seed", 3)
    assert ended.code == 0, ended.err
    with (folder / "manifest.csv").open() as file:
        drawn = list(csv.DictReader(file))
    with (folder / "lesions.csv").open("w", newline="") as file:
        written = csv.DictWriter(file, [*drawn[0], "image_kind", "age", "sex"])
        written.writeheader()
        for number, row in enumerate(drawn):
            row |= {"lesion_id": f"L{number}", "patient_id": f"P{number}"}
            if number % 3:
                row |= {"age": 30 + number % 50, "sex": ("female", "male")[number % 2], "site": "trunk"}
            path = folder / row["image"]
            turned = path.with_name(f"turned-{path.name}")
            Image.open(path).transpose(Image.Transpose.ROTATE_90).save(turned)
            if number % 4 != 1:
                written.writerow({**row, "image_kind": "close-up"})
            if number % 4 != 2:
                image = str(turned.relative_to(folder))
                written.writerow({**row, "image": image, "image_kind": "dermoscopic"})
    return folder / "lesions.csv"


@pytest.fixture(scope="module")
def service(command, lesions, tmp_path_factory):
    """One `dermfed-serve` over a model of cases."""
    folder = tmp_path_factory.mktemp("cases")
    environment = {
        "DERMFED_REGISTRY_URL": f"sqlite:///{folder / 'registry.db'}",
        "DERMFED_STORE": str(folder / "store"),
    }
    train = {"name": "adam", "lr": 1e-3}
    job = {
        "name": "cases",
        "seed": 3,
        "data": {
            "manifest": str(lesions),
            "unit": "lesion",
            "cases": {"slots": 2, "kinds": ["close-up", "dermoscopic"], "facts": ["age", "sex", "site"]},
            "label_map": "malignancy",
            "image_size": 16,
            "subgroups": {
                "scale": "fitzpatrick",
                "groups": {"light": ["1", "2", "3"], "dark": ["4", "5", "6"]},
            },
            "clients": {"by": "subgroup"},
            "split": {"train": 0.4, "validation": 0.2, "calibration": 0.2, "test": 0.2},
        },
        "model": {"name": "resnet18", "weights": "none", "options": {"channels": [4, 8, 16, 32]}},
        "privacy": {"min_count": 2},
        "stages": [
            {
                "stage": "federate",
                "rounds": 1,
                "objective": {"name": "supervised", "batch_size": 16, "optimizer": train},
                "aggregator": {"name": "fedavg"},
            },
            {"stage": "export"},
            {"stage": "calibrate", "coverage": 0.9},
            {"stage": "register", "model": "cases"},
        ],
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job, sort_keys=False))
    promote = (
        "registry",
        "promote",
        "cases",
        1,
        "--to",
        "production",
        "--override-gates",
        "--reason",
        "drawn",
    )
    for arguments in (("train", "job.yaml", "--out", "run"), promote):
        ended = command(*arguments, environment=environment, folder=folder)
        assert ended.code == 0, ended.out + ended.err
    with serving(DERMFED_SERVE, environment, folder / "home") as started:
        wait_for(lambda: started.client.get("/readyz").status_code == 200)
        yield started


@pytest.fixture(scope="module")
def close_up(lesions):
    """A close-up."""
    return lesions.parent / "images" / "000004.png"


@pytest.fixture(scope="module")
def dermoscopic(lesions):
    """A dermoscopic picture of the same lesion."""
    return lesions.parent / "images" / "turned-000004.png"


@pytest.fixture
def ask(service, close_up, dermoscopic):
    """Ask about the lesion with the pictures of these fields; keywords are the form's other fields."""
    paths = {"close_up": close_up, "dermoscopic": dermoscopic, "overview": close_up, "image": close_up}

    def call(*kinds: str, **data: str) -> httpx.Response:
        files = [(kind, ("a.png", paths[kind].read_bytes(), "image/png")) for kind in kinds]
        return service.client.post(DIAGNOSES, data=data, files=files)

    return call


def test_an_answer_says_what_it_used(ask):
    whole = lasting(ask("close_up", "dermoscopic", **FACTS))
    assert sorted(whole["inputs"]["pictures"]) == ["close-up", "dermoscopic"]
    assert whole["inputs"]["facts"] == FACTS
    assert "would_help" not in whole
    alone = lasting(ask("close_up"))
    assert (alone["inputs"]["pictures"], alone["inputs"]["facts"]) == (["close-up"], {})
    assert alone["inputs"]["pattern"] != whole["inputs"]["pattern"]
    for answer in (whole, alone):
        for path, kind in PROMISED["answers"][f"POST {DIAGNOSES}"]["kept"].items():
            assert all(fits(value, kind) for value in values(answer, path)), path
        assert sum(each["probability"] for each in answer["findings"]) == pytest.approx(1, abs=1e-6)
    assert lasting(ask("image", image_kind="close-up")) == alone
    assert lasting(ask("close_up", age="", sex="unknown")) == alone
    assert lasting(ask("close_up", site="back"))["inputs"]["facts"] == {"site": "trunk"}


def test_what_the_model_does_not_take_is_refused(ask, service, close_up):
    for wrong in (
        ask("close_up", age="700"),
        ask("close_up", sex="both"),
        ask("close_up", site="moon"),
        ask("close_up", diameter="3"),
        ask("overview"),
        ask("close_up", "dermoscopic", "image"),
        ask("image", image_kind="x-ray"),
        service.diagnose(close_up.read_bytes(), age="70"),
    ):
        problem(wrong, 422, "invalid-parameter")


def test_models_say_what_may_be_sent(service):
    (model,) = service.client.get("/v1/models").json()["models"]
    for path, kind in PROMISED["answers"]["GET /v1/models"]["kept"].items():
        assert all(fits(value, kind) for value in values({"models": [model]}, path)), path
    case = model["versions"][0]["case"]
    assert (case["slots"], case["kinds"]) == (2, ["close-up", "dermoscopic"])
    assert [each["name"] for each in case["facts"]] == ["age", "sex", "site"]
    assert model["versions"][0]["patterns"]


def test_the_python_client_sends_cases(ask, service, close_up, dermoscopic):
    with api.DermFed(service.url) as client:
        facts = {"age": 70, "sex": "male", "site": "trunk"}
        diagnosis = client.diagnose(close_up=close_up, dermoscopic=dermoscopic, facts=facts, skin_tone="V")
        answer = lasting(ask("close_up", "dermoscopic", skin_tone="V", **FACTS))
        given = json.loads(diagnosis.model_dump_json(exclude={"id", "created"}, exclude_unset=True))
        assert given == answer
        with pytest.raises(api.InvalidParameter, match="700"):
            client.diagnose(close_up=close_up, facts={"age": 700})


def test_the_command_sends_cases(ask, service, command, close_up, dermoscopic, tmp_path):
    answer = lasting(ask("close_up", "dermoscopic", **FACTS))
    environment = {"DERMFED_URL": service.url}
    facts = [part for name, value in FACTS.items() for part in (f"--{name}", value)]
    arguments = (close_up, "--dermoscopic", dermoscopic, *facts, "--json")
    ended = command("diagnose", *arguments, environment=environment)
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)
    assert {name: value for name, value in said.items() if name in answer} == answer
    (tmp_path / "cases.csv").write_text(
        "case,close_up,dermoscopic,age,sex,site\n"
        f"whole,{close_up},{dermoscopic},70,male,trunk\n"
        f"wrong,{close_up},,700,,\n"
        f"alone,{close_up},,,,\n"
    )
    ended = command("diagnose", "--cases", tmp_path / "cases.csv", "--csv", "-", environment=environment)
    assert ended.code == 1
    rows = {row["file"]: row for row in csv.DictReader(io.StringIO(ended.out))}
    assert list(rows) == ["whole", "wrong", "alone"]
    assert rows["whole"]["pattern"] == answer["inputs"]["pattern"]
    assert (rows["wrong"]["decision"], "700" in rows["wrong"]["error"]) == ("", True)
    assert rows["alone"]["decision"]
    assert not {"age", "sex", "site"} & set(rows["whole"])
