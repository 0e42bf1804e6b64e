"""Wrong and hostile requests: each is refused with its problem document, and the service goes on."""

import io
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.contract.service import DIAGNOSES, problem


def encode(form: str, size: tuple[int, int] = (64, 48), **options: Any) -> bytes:
    file = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(file, form, **options)
    return file.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png_of(width: int, height: int) -> bytes:
    """A PNG whose head promises so many pixels, and that has hardly any."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


PNG, JPEG = encode("PNG"), encode("JPEG")
ANIMATED = {"save_all": True, "append_images": [Image.new("RGB", (64, 48))]}
FILE = {"image": ("lesion.png", PNG, "image/png")}
ID = "6f2b8c1e-4d5a-4f0b-9a57-0c1f7d3e2b90"
OUTCOME = {"label": "malignant", "confirmed_by": "histopathology", "date": "2026-01-31"}


@dataclass(frozen=True)
class Wrong:
    """A request, and how it is refused.

    Attributes:
        status: of the answer.
        code: what `type` of the problem document ends in.
        more: as `httpx.Client.request` takes it.
        method, path: what is asked.
    """

    status: int
    code: str
    more: dict[str, Any] = field(default_factory=dict)
    method: str = "POST"
    path: str = DIAGNOSES


def body(content: bytes, kind: str | None = "image/png", **params: Any) -> dict[str, Any]:
    headers = {} if kind is None else {"Content-Type": kind}
    return {"content": content, "headers": headers, "params": params}


def bad(status: int, code: str, content: bytes, kind: str | None = "image/png") -> Wrong:
    return Wrong(status, code, body(content, kind))


def parameter(**params: Any) -> Wrong:
    return Wrong(422, "invalid-parameter", body(PNG, **params))


def form(data: dict[str, Any] | None = None, files: Any = FILE) -> Wrong:
    return Wrong(422, "invalid-parameter", {"data": data or {}, "files": files})


WRONG: dict[str, Wrong] = {
    # what is sent is no picture
    "empty": bad(400, "not-an-image", b""),
    "text": bad(400, "not-an-image", b"this is no picture"),
    "zeros": bad(400, "not-an-image", bytes(1000)),
    "signature alone": bad(400, "not-an-image", PNG[:8]),
    "PNG that ends early": bad(400, "not-an-image", PNG[: len(PNG) // 2]),
    "JPEG that ends early": bad(400, "not-an-image", JPEG[: len(JPEG) // 2], "image/jpeg"),
    "WebP that ends early": bad(400, "not-an-image", encode("WEBP")[:100], "image/webp"),
    "PNG of no pixels": bad(400, "not-an-image", png_of(0, 0)),
    "PNG without its pixels": bad(400, "not-an-image", png_of(300, 300)),
    "text in a form": Wrong(400, "not-an-image", {"files": {"image": ("a.png", b"text", "image/png")}}),
    "DICOM that is none": bad(400, "not-an-image", bytes(128) + b"DICM" + bytes(20), "application/dicom"),
    # too large
    "too many bytes": bad(413, "too-large", JPEG + bytes(200_000), "image/jpeg"),
    "too many bytes in a form": Wrong(
        413, "too-large", {"files": {"image": ("a.png", PNG + bytes(200_000), "image/png")}}
    ),
    "too many pixels": bad(413, "too-large", encode("PNG", (500, 500))),
    "far too many pixels": bad(413, "too-large", png_of(60_000, 60_000)),
    # another type
    "GIF": bad(415, "unsupported-media-type", encode("GIF"), "image/gif"),
    "GIF as PNG": bad(415, "unsupported-media-type", encode("GIF")),
    "BMP": bad(415, "unsupported-media-type", encode("BMP"), "image/bmp"),
    "TIFF": bad(415, "unsupported-media-type", encode("TIFF"), "application/octet-stream"),
    "PNG as JPEG": bad(415, "unsupported-media-type", PNG, "image/jpeg"),
    "JPEG as PNG": bad(415, "unsupported-media-type", JPEG),
    "animated PNG": bad(415, "unsupported-media-type", encode("PNG", **ANIMATED)),
    "animated WebP": bad(415, "unsupported-media-type", encode("WEBP", **ANIMATED), "image/webp"),
    "PNG as text": bad(415, "unsupported-media-type", PNG, "text/plain"),
    "JSON": Wrong(415, "unsupported-media-type", {"json": {"image": "aGVsbG8="}}),
    "no content type": bad(415, "unsupported-media-type", PNG, None),
    "compressed body": Wrong(
        415,
        "unsupported-media-type",
        {
            "content": zlib.compress(PNG),
            "headers": {"Content-Type": "image/png", "Content-Encoding": "deflate"},
        },
    ),
    # a form that cannot be read
    "broken form": bad(400, "malformed-request", b"--B\r\n\0", "multipart/form-data; boundary=B"),
    "form without a boundary": bad(400, "malformed-request", b"--B--", "multipart/form-data"),
    "more pictures than any model takes": Wrong(
        400, "malformed-request", {"files": [("image", FILE["image"])] * 9}
    ),
    # parameters
    "unknown parameter": parameter(skintone="V"),
    "tone of no scale": parameter(skin_tone="7"),
    "tone in words": parameter(skin_tone="dark"),
    "tone of another scale": parameter(skin_tone="VII", skin_tone_scale="monk"),
    "tone with a zero byte": parameter(skin_tone="5\0"),
    "very long tone": parameter(skin_tone="5" * 5000),
    "unknown scale": parameter(skin_tone="3", skin_tone_scale="munk"),
    "top of none": parameter(top="0"),
    "negative top": parameter(top="-1"),
    "top in words": parameter(top="all"),
    "explain perhaps": parameter(explain="perhaps"),
    "tone given twice": parameter(skin_tone=["2", "5"]),
    "tone given twice, in a form and outside": Wrong(
        422, "invalid-parameter", {"data": {"skin_tone": "2"}, "files": FILE, "params": {"skin_tone": "5"}}
    ),
    "form without a picture": form({"skin_tone": "V"}, {"note": ("a.txt", b"text", "text/plain")}),
    "form with an unknown field": form({"skintone": "V"}),
    "form with two pictures": form(files=[("image", FILE["image"]), ("image", FILE["image"])]),
    "form with a kind": form(files={"close_up": FILE["image"], "dermoscopic": FILE["image"]}),
    "facts for a model that takes none": form({"age": "70"}),
    "a fact in the address": parameter(age="70"),
    # an answer that there is not
    "an answer in XML": Wrong(406, "not-acceptable", body(PNG, _format="xml")),
    "an answer in FHIR R5": Wrong(
        406,
        "not-acceptable",
        {"files": FILE, "headers": {"Accept": "application/fhir+json; fhirVersion=5.0"}},
    ),
    # what is not there
    "unknown model": Wrong(404, "not-found", body(PNG, model="skin")),
    "unknown path": Wrong(404, "not-found", method="GET", path="/v1/nothing"),
    "no path to write to": Wrong(404, "not-found", body(PNG), path="/v2/diagnoses"),
    "path with a stroke too many": Wrong(404, "not-found", body(PNG), path=DIAGNOSES + "/"),
    "card of an unknown model": Wrong(404, "not-found", method="GET", path="/v1/models/skin/card"),
    "card of a folder": Wrong(404, "not-found", method="GET", path="/v1/models/%2e%2e%2f%2e%2e/card"),
    "file beside what pages load": Wrong(404, "not-found", method="GET", path="/assets/%2e%2e/app.py"),
    "outcome where none is kept": Wrong(
        404, "nothing-kept", {"json": OUTCOME}, path=f"{DIAGNOSES}/{ID}/outcome"
    ),
    # another method
    "GET of a diagnosis": Wrong(405, "method-not-allowed", method="GET"),
    "PUT of a diagnosis": Wrong(405, "method-not-allowed", body(PNG), "PUT"),
    "DELETE of models": Wrong(405, "method-not-allowed", method="DELETE", path="/v1/models"),
    "POST to health": Wrong(405, "method-not-allowed", path="/livez"),
    # without keys, this machine alone
    "from behind a proxy": Wrong(
        401, "unauthorized", {"headers": {"X-Forwarded-For": "203.0.113.7"}}, "GET", "/v1/models"
    ),
    "by another name": Wrong(401, "unauthorized", {"headers": {"Host": "example.org"}}, "GET", "/v1/models"),
    "from a page of another site": Wrong(
        403, "cross-site", {"files": FILE, "headers": {"Sec-Fetch-Site": "cross-site"}}, path="/"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_refused_with_its_problem(service, name):
    wrong = WRONG[name]
    response = service.client.request(wrong.method, wrong.path, **wrong.more)
    said = problem(response, wrong.status, wrong.code)
    # No text leads to files, addresses or exceptions of the service.
    assert not any(each in said["detail"] for each in ("Traceback", "/site-packages", "sqlite:", "Error("))


def test_the_service_goes_on_after_all_of_them(service, pictures):
    picture = pictures[0].read_bytes()
    expected = service.answer(picture)
    for wrong in WRONG.values():
        service.client.request(wrong.method, wrong.path, **wrong.more)
    assert service.answer(picture) == expected
    assert service.client.get("/readyz").json()["status"] == "ready"


def test_a_text_says_what_is_allowed(service):
    scale = problem(service.diagnose(PNG, skin_tone="7"), 422, "invalid-parameter")
    assert "fitzpatrick" in scale["detail"]
    assert "1, 2, 3, 4, 5, 6" in scale["detail"]
    name = problem(service.diagnose(PNG, model="skin"), 404, "not-found")
    assert "contract" in name["detail"]
    size = problem(service.diagnose(PNG + bytes(200_000)), 413, "too-large")
    assert "200,000" in size["detail"]


def test_every_request_has_an_id_of_its_own(service):
    ids = {service.client.get(path).headers["x-request-id"] for path in ("/livez", "/readyz", "/nothing") * 3}
    assert len(ids) == 9


@pytest.fixture
def ask(locked, pictures):
    """Ask the service with keys: by the name of a key, or with a header."""

    def call(
        key: str | None = None, method: str = "GET", path: str = "/v1/models", **headers: str
    ) -> httpx.Response:
        if key is not None:
            headers["Authorization"] = f"Bearer {locked.keys[key]}"
        more: dict[str, Any] = {"headers": headers}
        if path == DIAGNOSES:
            more |= {"content": pictures[0].read_bytes()}
            headers["Content-Type"] = "image/png"
        return locked.service.client.request(method, path, **more)

    return call


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/models"), ("GET", "/v1/models/contract/card"), ("POST", DIAGNOSES), ("GET", "/metrics")],
)
def test_a_key_is_needed_where_there_are_keys(ask, locked, method, path):
    for answer in (
        ask(None, method, path),
        ask("gone", method, path),
        ask(None, method, path, Authorization="Bearer dfk_000000000000_wrong"),
        ask(None, method, path, Authorization="Bearer"),
        ask(None, method, path, Authorization=locked.keys["all"]),
    ):
        problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert not any(key in answer.text for key in locked.keys.values())
    assert ask("all", method, path).status_code == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/openapi.json", "/docs"])
def test_health_and_description_need_no_key(ask, path):
    assert ask(None, path=path).status_code == 200


def test_a_browser_is_asked_for_a_key(ask, locked):
    for path in ("/", "/operator"):
        answer = ask(None, path=path)
        assert answer.status_code == 401
        assert "Basic" in answer.headers["www-authenticate"]
        page = locked.service.client.get(path, auth=("anybody", locked.keys["all"]))
        assert page.status_code == 200


@pytest.mark.parametrize(("method", "path"), [("POST", DIAGNOSES), ("GET", "/metrics")])
def test_a_key_may_do_what_its_scope_says(ask, method, path):
    said = problem(ask("read", method, path), 403, "forbidden")
    assert {DIAGNOSES: "diagnose", "/metrics": "operate"}[path] in said["detail"]
    assert ask("read").status_code == 200


def test_a_key_has_a_rate(ask):
    answers = [ask("rare") for _ in range(3)]
    refused = [each for each in answers if each.status_code != 200]
    assert refused
    for each in refused:
        problem(each, 429, "too-many-requests")
        assert int(each.headers["retry-after"]) in range(1, 61)
    assert ask("all").status_code == 200


def test_there_is_no_answer_before_a_release_is_promoted(locked):
    diagnosis, ready = locked.before["diagnosis"], locked.before["ready"]
    problem(diagnosis, 503, "no-model")
    assert int(diagnosis.headers["retry-after"]) > 0
    problem(ready, 503, "no-model")
    assert locked.service.client.get("/readyz").json()["status"] == "ready"
