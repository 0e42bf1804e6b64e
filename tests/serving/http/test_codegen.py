"""What is written from the definition of a diagnosis, and that a field of it is added in one place."""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Annotated

import pytest
from fhir.resources.R4B.bundle import Bundle
from pydantic import BaseModel

from serving.http.codegen import BEGIN, END, FILES, client_types, documented, rewritten
from serving.protocol.fields import Fact

ROOT = Path(__file__).parents[3]
COPIED = (
    "clients",
    "registry",
    "serving",
    "tests/represented.py",
    "tests/serving/conftest.py",
    "tests/thresholds.py",
    "docs/service.md",
)

DEFINED = (
    "issues: Annotated["
    'list[str], KEEPS_MESSAGES, Fact("what is wrong with the picture, and what to do", [])'
    "]\n"
)
MODEL = 'version: Annotated[int, Fact("its version there", 3)]\n'
TOYS = {
    DEFINED: """    toy_share: Annotated[
        float | None,
        Fact(
            "how sharp it is",
            0.25,
            PROBABILITY,
            fhir=Coded("toy-share", "How sharp the picture is"),
            page=Figure("Sharpness", "of the picture"),
            later=True,
        ),
    ] = 0.375
""",
    MODEL: """    toy_count: Annotated[
        int,
        Fact(
            "how many pictures it was trained on",
            41,
            fhir=Coded("trained-on", "Pictures it was trained on"),
            page=Figure("Trained on"),
            later=True,
        ),
    ] = 1234
""",
}
"""Two fields, by the line of the definition that they stand below; a default stands for what computes it."""

ASKED = """
import json, sys
from pathlib import Path
from clients.api import DermFed, Diagnosis
from tests.serving.conftest import Places, draw_bundle, encode, paint, release, running

places = Places(Path(sys.argv[1]))
picture = encode(paint(size=(64, 48)))
files = {"image": ("lesion.jpg", picture, "image/jpeg")}
with places.open() as registry:
    release(registry, draw_bundle())
with running(places.open) as service, DermFed(service.url) as client:
    answer = service.diagnose(picture).json()
    old = json.loads(json.dumps(answer))
    del old["quality"]["toy_share"], old["model"]["toy_count"]
    told = client.diagnose(picture)
    before = Diagnosis.model_validate_json(json.dumps(old), strict=True)
    print(json.dumps({
        "api": service.client.get("/openapi.json").json(),
        "answer": answer,
        "fhir": service.diagnose(picture, headers={"Accept": "application/fhir+json"}).json(),
        "page": service.client.post("/", files=files, headers={"Accept": "text/html"}).text,
        "client": [told.quality.toy_share, told.model.toy_count],
        "older": [before.quality.toy_share, before.model.toy_count],
    }))
"""


@pytest.mark.parametrize("name", FILES)
def test_it_is_as_the_definition_has_it(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert rewritten(text, FILES[name]()) == text, "write it anew: python -m serving.http.codegen"


def test_a_file_without_a_place_for_it_is_refused():
    for text in ("", BEGIN, END, f"{END}\n{BEGIN}"):
        with pytest.raises(ValueError, match="no block to write"):
            rewritten(text, "")


def test_only_what_is_between_the_lines_is_rewritten():
    text = f"before\n<!-- {BEGIN} -->\nold\n<!-- {END} -->\nafter\n"
    assert rewritten(text, "new\n") == text.replace("old", "new")


def test_a_type_that_the_client_has_none_for_is_refused():
    class Part(BaseModel):
        """One."""

        day: Annotated[date, Fact("a day")]

    with pytest.raises(TypeError, match=r"no type for <class 'datetime\.date'>"):
        client_types(Part)


def test_what_an_older_service_does_not_say_has_a_default():
    class Part(BaseModel):
        """One."""

        many: Annotated[list[int], Fact("numbers", later=True)]
        one: Annotated[int, Fact("a number", later=True)]
        none: Annotated[int | None, Fact("a number", later=True)]
        always: Annotated[dict[str, float], Fact("numbers")]

    assert client_types(Part).split('"""\n\n')[1].splitlines() == [
        "    many: tuple[int, ...] = ()",
        "    one: int | None = None",
        "    none: int | None = None",
        "    always: Mapping[str, FiniteFloat]",
    ]


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> Path:
    """A copy of the rooms that know a diagnosis, with two more fields in its definition."""
    root = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, root / name)
    path = root / "serving" / "protocol" / "schemas.py"
    text = path.read_text(encoding="utf-8")
    for line, toy in TOYS.items():
        assert text.count(line) == 1
        text = text.replace(line, line + toy)
    path.write_text(text, encoding="utf-8")
    run(root, "-m", "serving.http.codegen")
    return root


def run(root: Path, *arguments: str) -> str:
    """Runs Python over a copy of the tree, and nothing of this one."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def differing(pair: filecmp.dircmp, path: str = "") -> set[str]:
    inside = (differing(one, f"{path}{name}/") for name, one in pair.subdirs.items())
    assert not pair.right_only
    return {path + name for name in pair.diff_files}.union(*inside)


def test_a_new_field_arrives_everywhere_from_its_definition(extended, tmp_path):
    said = json.loads(run(extended, "-c", ASKED, str(tmp_path / "registry")))
    assert said["answer"]["quality"]["toy_share"] == 0.375
    assert said["answer"]["model"]["toy_count"] == 1234

    schemas = said["api"]["components"]["schemas"]
    assert schemas["Quality"]["properties"]["toy_share"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert schemas["AnsweringModel"]["properties"]["toy_count"]["type"] == "integer"
    answers = said["api"]["paths"]["/v1/diagnoses"]["post"]["responses"]["200"]["content"]
    for shown in answers["application/json"]["examples"].values():
        assert (shown["value"]["quality"]["toy_share"], shown["value"]["model"]["toy_count"]) == (0.25, 41)

    for bundle, share, count in (
        (said["fhir"], 0.375, 1234),
        (answers["application/fhir+json"]["example"], 0.25, 41),
    ):
        Bundle.model_validate_json(json.dumps(bundle))
        resources = [one["resource"] for one in bundle["entry"]]
        (quality,) = [
            one for one in resources if one.get("code", {}).get("text") == "Whether the picture can be judged"
        ]
        told = {one["code"]["coding"][0]["code"]: one for one in quality["component"]}
        assert told["toy-share"]["valueQuantity"]["value"] == share
        (device,) = [one for one in resources if one["resourceType"] == "Device"]
        told = {one["type"]["text"]: one for one in device["property"]}
        assert told["Pictures it was trained on"]["valueQuantity"] == [{"value": count}]

    assert "<dt>Sharpness</dt><dd>38 % <small>of the picture</small></dd>" in said["page"]
    assert "<dt>Trained on</dt><dd>1234</dd>" in said["page"]
    assert said["client"] == [0.375, 1234]
    assert said["older"] == [None, None]


def test_no_other_file_is_touched_but_the_two_that_are_written_anew(extended):
    changed = set()
    for name in ("clients", "registry", "serving", "docs"):
        pair = filecmp.dircmp(ROOT / name, extended / name, ignore=["__pycache__"])
        changed |= differing(pair, f"{name}/")
    assert changed == {"serving/protocol/schemas.py", *FILES}
    page = (extended / "docs" / "service.md").read_text(encoding="utf-8")
    assert "| `quality.toy_share` | number or null | how sharp it is |" in page
    assert "| `model.toy_count` | integer | how many pictures it was trained on |" in page
    client = (extended / "clients" / "api" / "diagnosis.py").read_text(encoding="utf-8")
    assert "    toy_share: FiniteFloat | None = None\n" in client
    assert "    toy_count: int | None = None\n" in client


def test_the_table_has_every_field_once():
    rows = [line.split("`")[1] for line in documented().splitlines() if line.startswith("| `")]
    assert len(set(rows)) == len(rows)
    assert {"id", "findings[].coding", "prediction_set.codes[]", "quality.acceptable"} <= set(rows)
