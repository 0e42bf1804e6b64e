"""Clients that two generators make of `/openapi.json` ask the service and read what it answers.

The generators lie in an environment of their own, which `make check` makes (`tests/serving/generated`).
Nothing that they make is kept: a client is generated, used and forgotten.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.http.upload import BYTES
from tests.case_bundles import case_bundle
from tests.dicom_files import dicom_file, noise
from tests.serving.conftest import DARK, MODEL, Places, Service, draw_bundle, encode, paint, release, running

HERE = Path(__file__).parent / "generated"
GENERATORS = Path(sys.prefix) / "generators" / "bin"

Answers = dict[str, Any]

pytestmark = pytest.mark.long


def run(command: list[Any], folder: Path, *packages: Path) -> str:
    """Runs a program of the generators' environment in a folder, and gives what it prints."""
    if not GENERATORS.is_dir():
        pytest.fail("the generators are not installed; `make generators` does that")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DERMFED_", "PYTHON"))}
    ended = subprocess.run(
        [GENERATORS / command[0], *command[1:]],
        cwd=folder,
        env={
            **kept,
            "PATH": f"{GENERATORS}:{kept['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def openapi_python_client(api: dict[str, Any], folder: Path) -> list[Path]:
    """Generates `generated`, which knows the form and bytes."""
    (folder / "openapi.json").write_text(json.dumps(api))
    options = ["--path", "openapi.json", "--meta", "none", "--output-path", "made/generated"]
    run(["openapi-python-client", "generate", *options], folder)
    return [folder / "made"]


def openapi_generator(api: dict[str, Any], folder: Path) -> list[Path]:
    """Generates `generated` from the description as it is, `generated_raw` with the picture as first body."""
    bodies = api["paths"]["/v1/diagnoses"]["post"]["requestBody"]["content"]
    for package in ("generated", "generated_raw"):
        (folder / f"{package}.json").write_text(json.dumps(api))
        options = ["--input-spec", f"{package}.json", "--output", package, "--package-name", package]
        run(["openapi-generator-cli", "generate", "--generator-name", "python", *options], folder)
        bodies = {BYTES: bodies[BYTES], **bodies}
        api["paths"]["/v1/diagnoses"]["post"]["requestBody"]["content"] = bodies
    return [folder / "generated", folder / "generated_raw"]


MAKERS: dict[str, Callable[[dict[str, Any], Path], list[Path]]] = {
    "openapi_python_client": openapi_python_client,
    "openapi_generator": openapi_generator,
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str, Path]]:
    """A service with a model of single pictures and one of cases, a key for it, and files to send."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "picture.jpg").write_bytes(encode(paint()))
    (folder / "picture.png").write_bytes(encode(paint((90, 160, 40)), "PNG"))
    (folder / "picture.dcm").write_bytes(dicom_file(noise(24, 32, 3)))
    (folder / "text").write_bytes(b"no picture")
    places = Places(tmp_path_factory.mktemp("registry"))
    with places.open() as registry:
        release(registry, draw_bundle(), draw_bundle(DARK))
        release(registry, case_bundle(model="cases"))
        _, secret = registry.create_key("app", scopes=["diagnose", "read"])
    with running(places.open, headers={"Authorization": f"Bearer {secret}"}) as service:
        yield service, secret, folder


@pytest.fixture(scope="module", params=MAKERS)
def answers(
    request: pytest.FixtureRequest, asked: tuple[Service, str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    """What a generated client was answered, by what it asked."""
    service, secret, files = asked
    folder = tmp_path_factory.mktemp("made")
    packages = MAKERS[request.param](service.client.get("/openapi.json").json(), folder)
    script = HERE / f"with_{request.param}.py"
    found: Answers = json.loads(run(["python", script, service.url, secret, files], folder, *packages))
    return found


def same(answer: Any, expected: Any) -> None:
    """Two diagnoses of the same; numbers may have been read and written again."""
    assert answer["class"] == "Diagnosis", answer
    for name in ("decision", "findings", "model", "prediction_set", "confidence", "quality", "warnings"):
        assert answer[name] == expected[name], name


@pytest.mark.parametrize(
    ("suffix", "kind"), [("jpg", "image/jpeg"), ("png", "image/png"), ("dcm", "application/dicom")]
)
def test_a_picture_as_it_is(
    answers: Answers, asked: tuple[Service, str, Path], suffix: str, kind: str
) -> None:
    service, _, files = asked
    sent = (files / f"picture.{suffix}").read_bytes()
    expected = service.diagnose(sent, kind, params={"skin_tone": "V", "model": MODEL, "top": 1}).json()
    same(answers[f"raw picture.{suffix}"], expected)
    assert len(expected["findings"]) == 1
    assert expected["model"]["route"] == "declared"


def test_a_form(answers: Answers, asked: tuple[Service, str, Path]) -> None:
    service, _, _ = asked
    same(answers["form"], service.form({"skin_tone": "V", "model": MODEL, "top": "1"}).json())
    assert answers["twice the same"]["model"]["route"] == "declared"
    assert answers["another scale in the form"]["model"]["route"] == "other-scale"


def test_a_case(answers: Answers, asked: tuple[Service, str, Path]) -> None:
    service, _, files = asked
    names = [("close_up", "picture.jpg"), ("close_up", "picture.png"), ("dermoscopic", "picture.dcm")]
    sent = [(field, (name, (files / name).read_bytes())) for field, name in names]
    expected = service.form({"model": "cases", "age": "70", "sex": "male"}, files=sent).json()
    same(answers["case"], expected)
    assert answers["case"]["inputs"] == expected["inputs"]
    assert expected["inputs"]["pictures"] == ["close-up", "close-up", "dermoscopic"]


@pytest.mark.parametrize(
    ("asking", "status", "name"),
    [
        ("no picture", 400, "not-an-image"),
        ("no such model", 404, "not-found"),
        ("twice otherwise", 422, "invalid-parameter"),
    ],
)
def test_a_problem_is_one(answers: Answers, asking: str, status: int, name: str) -> None:
    answer = answers[asking]
    assert answer["class"] == "ProblemDocument"
    assert (answer["status"], answer["type"]) == (status, f"urn:dermfed:problem:{name}")
    assert answer["detail"]


def test_what_is_served(answers: Answers) -> None:
    assert answers["models"] == ["cases", MODEL]
    assert answers["card"] == MODEL
