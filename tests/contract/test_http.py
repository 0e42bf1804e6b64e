"""What the HTTP service promises, and two hundred answers of it."""

import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from PIL import Image

from tests.conftest import Ended
from tests.contract.openapi import fields, fits, requests, resolve, values
from tests.contract.service import BENTOML_SERVE, DECLARED, DIAGNOSES, lasting, problem, serving, wait_for

PROMISED: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "http.yaml").read_text())
OF_CASES = {"inputs", "would_help", "explanation"}
"""What is only in answers for cases, or where a map was asked for."""
MAY_BE_NULL = ("triage_evidence.", "conclusion.")
"""The parts that an answer without triage, or one that concludes nothing, does not have."""

REASONS = {
    "report": {"confident"},
    "refer": {"low-confidence", "refers-all", "possible-malignancy", "unfamiliar"},
    "retake": {"too-small", "transparent", "too-dark", "too-bright", "nothing-to-see", "blurred"},
}


@pytest.fixture(scope="module")
def description(locked):
    """How a service that keeps answers describes itself."""
    response = locked.service.client.get("/openapi.json")
    assert response.headers["content-type"].startswith("application/json")
    return response.json()


@pytest.fixture(scope="module")
def models(service):
    """What the service says that it serves."""
    return service.client.get("/v1/models").json()


@pytest.fixture(scope="module")
def answers(service, pictures):
    """Two hundred diagnoses, by the picture's name and what was declared."""
    return {
        (path.name, name): service.diagnose(path.read_bytes(), **declared)
        for path in pictures
        for name, (declared, *_) in DECLARED.items()
    }


@pytest.fixture(scope="module")
def picture(pictures):
    """One drawn picture, as PNG."""
    return pictures[4].read_bytes()


@pytest.fixture(scope="module")
def small(picture):
    """A picture of fewer pixels than the model looks at, as PNG."""
    return encode(Image.open(io.BytesIO(picture)).resize((8, 8)), "PNG")


def encode(image: Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def answer_schema(description: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    response = resolve(description, operation["responses"]["200"])
    return response["content"]["application/json"]["schema"]


@pytest.mark.parametrize("name", PROMISED["requests"]["kept"])
def test_the_description_has_the_requests_and_their_statuses(description, name):
    described = requests(description)
    assert name in described
    statuses = {str(status) for status in PROMISED["requests"]["kept"][name]}
    assert statuses - set(described[name]["responses"]) == set()
    for status in statuses - {"200"}:
        refused = resolve(description, described[name]["responses"][status])["content"]
        if name != "GET /readyz":
            assert "application/problem+json" in refused


def same_type(promised: str, described: str) -> bool:
    """Whether a described type is the promised one; a field that may be absent may also always be there."""
    optional = "optional "
    if described.startswith(optional) and not promised.startswith(optional):
        return False
    return set(re.split(r" or | \| ", promised.removeprefix(optional))) == set(
        re.split(r" or | \| ", described.removeprefix(optional))
    )


@pytest.mark.parametrize("name", PROMISED["answers"])
def test_the_description_has_the_fields_of_answers(description, name):
    described = fields(description, answer_schema(description, requests(description)[name]))
    wrong = {
        path: (kind, described.get(path))
        for path, kind in PROMISED["answers"][name]["kept"].items()
        if path not in described or not same_type(kind, described[path])
    }
    assert wrong == {}


def test_the_description_says_how_a_picture_is_sent(description):
    kept, operation = PROMISED["diagnosis"]["kept"], requests(description)[f"POST {DIAGNOSES}"]
    parameters = [resolve(description, each) for each in operation["parameters"]]
    query = {each["name"] for each in parameters if each["in"] == "query"}
    assert set(kept["query"]) - query == set()
    assert not any(each.get("required") for each in parameters)
    bodies = resolve(description, operation["requestBody"])["content"]
    assert set(kept["bodies"]) - set(bodies) == set()
    form = resolve(description, bodies["multipart/form-data"]["schema"])
    assert set(kept["form"]) - set(form["properties"]) == set()
    assert form.get("required", []) == []


def test_two_hundred_pictures_are_answered_as_described(answers):
    assert len(answers) == 200
    kept = PROMISED["answers"][f"POST {DIAGNOSES}"]["kept"]
    always = {
        path
        for path, kind in kept.items()
        if "[]" not in path
        and not kind.startswith("optional")
        and not path.startswith(MAY_BE_NULL)
        and path.partition(".")[0] not in OF_CASES
    }
    for asked, response in answers.items():
        assert response.status_code == 200, (asked, response.text)
        assert response.headers["content-type"].startswith("application/json")
        answer = response.json()
        for path, kind in kept.items():
            wrong = [value for value in values(answer, path) if not fits(value, kind)]
            assert not wrong, (asked, path, wrong)
        assert [path for path in always if not values(answer, path)] == [], asked
        # A model of single pictures was asked for no map.
        assert not OF_CASES & set(answer)


def test_the_numbers_of_an_answer_fit_each_other(answers):
    for asked, response in answers.items():
        answer = response.json()
        assert answer["id"] == response.headers["x-request-id"]
        assert datetime.fromisoformat(answer["created"]).utcoffset() is not None
        given = {each["code"]: each["probability"] for each in answer["findings"]}
        assert list(given) == sorted(given, key=lambda code: -given[code]), asked
        assert sum(given.values()) == pytest.approx(1, abs=1e-6)
        malignant = [each["probability"] for each in answer["findings"] if each["malignancy"] == "malignant"]
        assert answer["malignancy"]["probability"] == pytest.approx(sum(malignant))
        codes = answer["prediction_set"]["codes"]
        assert codes == [code for code in given if code in codes]
        assert answer["prediction_set"]["coverage"] == 0.9
        assert answer["disclaimer"]


def test_a_decision_follows_from_its_reasons(answers):
    for asked, response in answers.items():
        answer = response.json()
        codes = {each["code"] for each in answer["reasons"][:-1]}
        assert codes & REASONS[answer["decision"]], (asked, codes)
        assert answer["quality"]["acceptable"] == (answer["decision"] != "retake")
        assert (answer["decision"] == "report") <= (answer["conclusion"] is not None)
        assert all(each["text"] for each in answer["reasons"])


@pytest.mark.parametrize("name", DECLARED)
def test_the_declared_tone_chooses_who_answers(answers, models, name):
    _, route, reason, subgroup = DECLARED[name]
    (model,) = models["models"]
    (version,) = [each for each in model["versions"] if each["subgroup"] == subgroup]
    for (_, declared), response in answers.items():
        if declared == name:
            answer = response.json()
            assert answer["model"] == {
                "name": "contract",
                "version": version["version"],
                "subgroup": subgroup,
                "digest": version["digest"],
                "route": route,
            }
            assert answer["reasons"][-1]["code"] == reason
            guarantee = "subgroup" if route == "declared" else "global"
            assert answer["prediction_set"]["guarantee"] == guarantee
            assert answer["warnings"] or route == "declared"
            assert {each["code"] for each in answer["findings"]} == set(model["labels"])


def test_the_same_picture_has_the_same_answer(service, pictures, answers):
    for path in pictures[:10]:
        for name, (declared, *_) in DECLARED.items():
            again = service.answer(path.read_bytes(), **declared)
            assert again == lasting(answers[path.name, name])


def test_another_picture_has_another_answer(answers, pictures):
    probabilities = {
        response.json()["malignancy"]["probability"]
        for (_, name), response in answers.items()
        if name == "no tone"
    }
    assert len(probabilities) > len(pictures) / 2


def test_spellings_of_a_tone_are_one(service, picture):
    assert service.answer(picture, skin_tone="5") == service.answer(picture, skin_tone="V")
    assert service.answer(picture, skin_tone="V", skin_tone_scale="fitzpatrick") == service.answer(
        picture, skin_tone="V"
    )
    assert service.answer(picture, skin_tone="", model="", top="") == service.answer(picture)


def test_every_way_to_send_a_picture_has_one_answer(service, picture):
    expected = service.answer(picture, skin_tone="V", top="1")
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    lossless = encode(image, "WEBP", lossless=True)
    asked = {"params": {"skin_tone": "V", "top": "1"}}
    unnamed = service.diagnose(picture, "application/octet-stream", **asked["params"])
    webp = service.diagnose(lossless, "image/webp", **asked["params"])
    file = {"image": ("lesion.png", picture, "image/png")}
    form = service.client.post(DIAGNOSES, data=asked["params"], files=file)
    mixed = service.client.post(DIAGNOSES, data={"top": "1"}, files=file, params={"skin_tone": "V"})
    assert [lasting(each) for each in (unnamed, webp, form, mixed)] == [expected] * 4
    assert len(expected["findings"]) == 1


def test_a_dicom_photograph_is_answered_as_its_picture(service, picture):
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    answer = lasting(service.diagnose(dicom_file(image), "application/dicom", skin_tone="V"))
    assert answer == service.answer(picture, skin_tone="V")


def dicom_file(image: Image.Image) -> bytes:
    """A photograph as a DICOM file without compression."""
    pydicom = pytest.importorskip("pydicom", reason="the extra `dicom` is not installed")
    meta = pydicom.dataset.FileMetaDataset()
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.77.1.4"  # VL Photographic Image Storage
    meta.MediaStorageSOPInstanceUID = "1.2.3.4"
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    data = pydicom.dataset.Dataset()
    data.file_meta = meta
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    data.SamplesPerPixel, data.PhotometricInterpretation, data.PlanarConfiguration = 3, "RGB", 0
    data.Columns, data.Rows = image.size
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 8, 8, 7, 0
    data.add_new("PixelData", "OB", image.tobytes())
    file = io.BytesIO()
    data.save_as(file, enforce_file_format=True)
    return file.getvalue()


def test_a_jpeg_is_answered(service, picture):
    jpeg = encode(Image.open(io.BytesIO(picture)).convert("RGB"), "JPEG", quality=95)
    answer, lossless = lasting(service.diagnose(jpeg, "image/jpeg")), service.answer(picture)
    assert answer["malignancy"]["probability"] == pytest.approx(
        lossless["malignancy"]["probability"], abs=0.05
    )


def test_a_picture_that_is_too_small_is_to_be_taken_again(service, small):
    answer = service.answer(small)
    assert answer["decision"] == "retake"
    assert "too-small" in {each["code"] for each in answer["reasons"]}
    assert answer["quality"]["acceptable"] is False
    assert answer["quality"]["issues"]


def test_top_cuts_the_findings_and_not_the_set(service, picture):
    all_of_them, first = service.answer(picture), service.answer(picture, top="1")
    assert first["findings"] == all_of_them["findings"][:1]
    assert {**first, "findings": []} == {**all_of_them, "findings": []}


def test_explain_changes_nothing_else(service, picture):
    response = service.diagnose(picture, explain="true")
    if response.status_code == 422:  # where the operator has not switched it on
        return
    answer = lasting(response)
    explanation = answer.pop("explanation")
    assert answer == service.answer(picture)
    assert (explanation["maps"] == []) == bool(explanation["why_not"])


def test_a_diagnosis_may_be_asked_for_in_fhir(service, picture):
    response = service.client.post(
        DIAGNOSES,
        content=picture,
        params={"skin_tone": "V"},
        headers={"Content-Type": "image/png", "Accept": "application/fhir+json"},
    )
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("application/fhir+json")
    bundle = response.json()
    assert (bundle["resourceType"], bundle["type"]) == ("Bundle", "collection")
    assert bundle["identifier"]["value"] == response.headers["x-request-id"]
    resources = [entry["resource"] for entry in bundle["entry"]]
    kinds = {each["resourceType"] for each in resources}
    assert {"DiagnosticReport", "Observation", "Device", "Provenance"} <= kinds
    (report,) = [each for each in resources if each["resourceType"] == "DiagnosticReport"]
    assert report["status"] == "partial"
    answer = service.answer(picture, skin_tone="V")
    # No class is named where a clinician has to look.
    assert ("conclusionCode" in report) == (answer["decision"] == "report")
    assert answer["disclaimer"] in report["conclusion"]
    assert all("subject" not in each for each in resources)


def test_what_is_served_is_said(service, models, command, served):
    response = service.client.get("/v1/models")
    for path, kind in PROMISED["answers"]["GET /v1/models"]["kept"].items():
        assert all(fits(value, kind) for value in values(response.json(), path)), path
    (model,) = models["models"]
    assert (model["name"], model["alias"]) == ("contract", "demonstration")
    assert set(model["labels"]) == {"benign", "malignant"}
    listed = registry(command, served, "list", "--json")
    assert {each["digest"] for each in model["versions"]} == {each["digest"] for each in listed}
    tones = {each["subgroup"]: each.get("tones", {}) for each in model["versions"]}
    assert tones["global"] == {}
    assert set(tones["light"]["fitzpatrick"]) <= {"1", "2", "3"}
    assert "5" in tones["dark"]["fitzpatrick"]
    assert "6" not in tones["dark"]["fitzpatrick"]


def registry(command: Callable[..., Ended], environment: dict[str, str], *arguments: object) -> Any:
    ended = command("registry", *arguments, environment=environment)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_a_card_is_for_programs_and_for_people(service):
    response = service.client.get("/v1/models/contract/card")
    card = response.json()
    for path, kind in PROMISED["answers"]["GET /v1/models/{name}/card"]["kept"].items():
        found = values(card, path)
        assert found, path
        assert all(fits(value, kind) for value in found), path
    assert {each["subgroup"]["name"] for each in card["versions"]} == {"global", "light", "dark"}
    page = service.client.get("/v1/models/contract/card", headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    assert "contract" in page.text


def test_health(service):
    alive, ready = service.client.get("/livez"), service.client.get("/readyz")
    assert (alive.status_code, alive.text.strip()) == (200, "alive")
    assert ready.json() == {"status": "ready", "models": ["contract"], "troubles": []}


@pytest.mark.parametrize("path", PROMISED["pages"]["kept"])
def test_pages_load_nothing_from_elsewhere(service, path):
    page = service.client.get(path)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert (
        re.findall(r"""(?:src|href|action)=["']?(?:https?:)?//[^"'>\s]+\.(?:js|css|png|woff2?)""", page.text)
        == []
    )


def test_the_page_answers_without_a_script(service, picture):
    page = service.client.post(
        "/", data={"skin_tone": "V"}, files={"image": ("lesion.png", picture, "image/png")}
    )
    assert page.status_code == 200
    answer = service.answer(picture, skin_tone="V")
    assert answer["disclaimer"].partition(".")[0] in page.text
    assert answer["findings"][0]["name"] in page.text


def test_metrics_count_diagnoses(service, picture, small):
    def counted() -> float:
        text = service.client.get("/metrics").text
        rows = [row for row in text.splitlines() if row.startswith("dermfed_decisions_total{")]
        return sum(float(row.rpartition(" ")[2]) for row in rows)

    before = counted()
    service.answer(picture)
    service.answer(small)
    assert counted() == before + 2
    text = service.client.get("/metrics").text
    named = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    missing = {
        name for name in PROMISED["metrics"]["kept"] if not {name, name.removesuffix("_total")} & named
    }
    assert missing == set()


def test_a_promotion_is_picked_up_while_the_service_runs(locked, picture):
    headers = {"Authorization": f"Bearer {locked.keys['all']}"}
    answers = {
        tone: locked.service.client.post(
            DIAGNOSES,
            content=picture,
            params={"skin_tone": tone},
            headers={**headers, "Content-Type": "image/png"},
        ).json()["model"]
        for tone in ("2", "V")
    }
    assert (answers["2"]["subgroup"], answers["2"]["route"]) == ("light", "declared")
    # The release has no version for dark skin.
    assert (answers["V"]["subgroup"], answers["V"]["route"]) == ("global", "no-model-for-subgroup")


def test_an_outcome_is_taken_once(locked, picture):
    headers = {"Authorization": f"Bearer {locked.keys['all']}"}
    asked = locked.service.client.post(
        DIAGNOSES, content=picture, headers={**headers, "Content-Type": "image/png"}
    )
    name = asked.json()["id"]

    def give(name: str, **other: Any) -> httpx.Response:
        outcome = {
            "label": "malignant",
            "confirmed_by": "histopathology",
            "date": str(datetime.now(UTC).date()),
        }
        return locked.service.client.post(
            f"{DIAGNOSES}/{name}/outcome", json={**outcome, **other}, headers=headers
        )

    taken = give(name)
    assert taken.status_code == 200, taken.text
    assert taken.json() == {"id": name, "taken": "new"}
    assert give(name).json()["taken"] == "known already"
    problem(give(name, label="benign"), 409, "outcome-known")
    assert give(name, label="benign", corrects=True).json()["taken"] == "corrected"
    assert give(name, label=None, corrects=True).json()["taken"] == "withdrawn"
    problem(give("6f2b8c1e-4d5a-4f0b-9a57-0c1f7d3e2b90"), 404, "unknown-diagnosis")
    problem(give(name, label="nothing"), 422, "invalid-parameter")
    problem(give(name, colour="red"), 422, "invalid-parameter")
    problem(give(name, date="tomorrow"), 422, "invalid-parameter")


@pytest.mark.long
def test_bentoml_serves_the_same(served, answers, pictures, tmp_path):
    environment = {**served, "BENTOML_HOME": str(tmp_path / "bentoml")}
    with serving(BENTOML_SERVE, environment, tmp_path / "home") as other:
        wait_for(lambda: other.client.get("/readyz").status_code == 200)
        for path in pictures:
            for name, (declared, *_) in DECLARED.items():
                assert other.answer(path.read_bytes(), **declared) == lasting(answers[path.name, name])
        assert other.client.get("/nothing").headers["content-type"] == "application/problem+json"
