"""What is around every request: ids, the log line, the prefix, other origins, and security headers."""

import base64
import hashlib
import html
import logging
import re
import uuid
from urllib.parse import urljoin

import pytest

from serving.http.middleware import ANSWER_POLICY, PAGE_POLICY, PICTURE_POLICY, policy_for
from tests.serving.conftest import Places, encode, paint, running

# The client, and the server of the tests: `dermfed-serve` has no access log.
NOT_OURS = ("httpx", "httpcore", "uvicorn.access", "python_multipart")
PICTURE = {"image": ("a.jpg", encode(paint()))}


def served_lines(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "dermfed.serve"]


def test_a_line_has_method_path_status_and_time_and_nothing_of_the_request(service, picture, caplog):
    sent = picture(comment=b"Marker-In-The-Picture")
    headers = {"User-Agent": "markeragent", "Authorization": "Bearer markerkey"}
    with caplog.at_level(logging.DEBUG):
        answers = [
            service.diagnose(sent, params={"skin_tone": "5"}, headers=headers),
            service.form({}, files={"image": ("marker-file-name", sent, "image/jpeg")}, headers=headers),
            service.diagnose(sent, params={"markerquery": "1"}, headers=headers),
            service.diagnose(sent, params={"skin_tone": "marker_tone"}, headers=headers),
            service.diagnose(b"marker-of-no-picture", headers=headers),
            service.form({"image": "marker"}, files={}, headers=headers),
            service.form({"marker": "marker"}, files={"markerfield": ("marker", sent)}, headers=headers),
            service.client.get("/markerpath", headers=headers),
            service.client.get("/v1/models/marker/card", headers=headers),
        ]
        ids = {answer.headers["x-request-id"] for answer in answers}
        # The client's own log has the ids too: wait for the service's lines.
        service.eventually(lambda: ids <= {line.partition(" ")[0] for line in served_lines(caplog)})
    assert [answer.status_code for answer in answers] == [200, 200, 422, 422, 400, 415, 422, 404, 404]
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(NOT_OURS)]
    assert "marker" not in "\n".join(ours).lower()
    for answer in answers:  # a line is written once its answer has left: not always in their order
        [line] = [line for line in served_lines(caplog) if answer.headers["x-request-id"] in line]
        known = re.fullmatch(r"[0-9a-f-]{36} (GET|POST) (\S+) (\d{3}) \d+\.\d ms", line)
        assert known, line
        assert int(known[3]) == answer.status_code
        assert known[2] in ("/v1/diagnoses", "/v1/models/{name}/card", "other")


def test_a_long_method_is_cut_in_the_log(service, caplog):
    with caplog.at_level(logging.INFO, "dermfed.serve"):
        got = service.raw(b"G" * 9000 + b" /livez HTTP/1.1\r\nHost: " + b"h" * 5000 + b"\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 405 ")
        service.eventually(lambda: any(" 405 " in line for line in caplog.messages))
    assert all(len(line) < 200 for line in caplog.messages if " 405 " in line)


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_senders_ids_come_back_and_go_into_the_log(service, problem, caplog):
    headers = {"X-Request-Id": "chosen-1", "Traceparent": TRACE}
    with caplog.at_level(logging.INFO):
        answer = service.diagnose(headers=headers)
        refused = service.diagnose(b"no picture", headers=headers)
        own = answer.json()["id"]
        service.eventually(lambda: any(line.startswith(own) for line in served_lines(caplog)))
    for one in (answer, refused):
        assert one.headers.get_list("x-request-id") == ["chosen-1"]
        assert one.headers["traceparent"] == TRACE
    assert problem(refused, 400)["request_id"] == "chosen-1"
    assert uuid.UUID(own)  # a diagnosis is found by our own id: a sender may choose one twice
    (line,) = [line for line in served_lines(caplog) if line.startswith(own)]
    assert line.endswith(f" ms request=chosen-1 traceparent={TRACE}")


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="none"),
        pytest.param([("X-Request-Id", "")], id="empty"),
        pytest.param([("X-Request-Id", "a b")], id="with a space"),
        pytest.param([("X-Request-Id", "é".encode())], id="not ASCII"),
        pytest.param([("X-Request-Id", "a" * 129)], id="too long"),
        pytest.param([("X-Request-Id", "a"), ("X-Request-Id", "b")], id="two"),
        pytest.param([("Traceparent", TRACE.upper())], id="upper case"),
        pytest.param([("Traceparent", TRACE[:-1])], id="too short"),
        pytest.param([("Traceparent", "ff" + TRACE[2:])], id="version that is forbidden"),
        pytest.param([("Traceparent", f"00-{'0' * 32}-b7ad6b7169203331-01")], id="trace of zeros"),
        pytest.param([("Traceparent", f"00-{TRACE[3:35]}-{'0' * 16}-01")], id="parent of zeros"),
    ],
)
def test_malformed_ids_are_left_out(service, headers):
    answer = service.client.get("/livez", headers=headers)
    assert uuid.UUID(answer.headers["x-request-id"])
    assert "traceparent" not in answer.headers


PREFIX = "/derm"


@pytest.fixture(scope="module")
def under_a_prefix(released, tmp_path_factory):
    places = Places(tmp_path_factory.getbasetemp() / "shared")
    outcomes = tmp_path_factory.mktemp("outcomes") / "outcomes.db"
    with running(places.open, prefix=PREFIX, outcomes_url=f"sqlite:///{outcomes}") as service:
        yield service


@pytest.mark.parametrize("stripped", [True, False], ids=["proxy strips it", "proxy leaves it"])
def test_under_a_prefix_every_link_form_and_file_is_under_it(under_a_prefix, stripped):
    service, left = under_a_prefix, [f"{PREFIX}/"]
    seen = set()
    while left:
        if (path := left.pop()) in seen:
            continue
        seen.add(path)
        answer = service.client.get(path.removeprefix(PREFIX) if stripped else path)
        assert answer.status_code == 200, path
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        for found in re.findall(r"""(?:href|src|action)=["']([^"'#]+)["']""", answer.text):
            linked = urljoin(path, html.unescape(found))
            assert linked.startswith(f"{PREFIX}/"), (path, found)
            left.append(linked)
    files = {f"{PREFIX}/assets/{name}" for name in ("page.css", "picture.css", "picture.js", "icon.svg")}
    pages = {f"{PREFIX}{path}" for path in ("/", "/operator", "/console", "/diagnoses", "/docs")}
    assert seen >= {*files, *pages, f"{PREFIX}/openapi.json"}
    assert service.client.get(PREFIX).status_code == 200


def test_under_a_prefix_an_answer_is_found_again_and_the_description_names_its_server(under_a_prefix):
    client = under_a_prefix.client
    id_ = client.post(f"{PREFIX}/v1/diagnoses", files=PICTURE).json()["id"]
    sent = client.get(f"{PREFIX}/diagnoses", params={"id": id_})
    assert (sent.status_code, sent.headers["location"]) == (303, f"{PREFIX}/diagnoses/{id_}")
    page = client.get(sent.headers["location"])
    assert f'action="{PREFIX}/diagnoses/{id_}"' in page.text
    assert client.get(f"{PREFIX}/openapi.json").json()["servers"] == [{"url": PREFIX}]


def test_without_a_prefix_nothing_is_under_one(service):
    assert service.client.get(f"{PREFIX}/livez").status_code == 404


APP, ELSEWHERE = "https://app.example", "https://elsewhere.example"


def preflight(service, origin=APP, headers="authorization,content-type,x-request-id"):
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    return service.client.options(
        "/v1/diagnoses", headers={**asked, "Access-Control-Request-Headers": headers}
    )


def test_pages_of_listed_origins_may_ask_with_a_key_and_no_others(serve, registry, promote, bundle, problem):
    promote(registry, bundle())
    _, secret = registry.create_key("app")
    with serve(cors_origins=(APP,)) as service:
        allowed = preflight(service)  # which a browser sends without a key
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, APP)
        assert preflight(service, ELSEWHERE).status_code == 400
        assert preflight(service, headers="x-anything").status_code == 400
        from_app = {"Origin": APP, "Sec-Fetch-Site": "cross-site"}
        with_key = {**from_app, "Authorization": f"Bearer {secret}"}
        answer = service.diagnose(headers=with_key)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, APP)
        assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
        for refused in (service.diagnose(headers=from_app), service.diagnose(b"none", headers=with_key)):
            problem(refused, refused.status_code)
            assert refused.headers["access-control-allow-origin"] == APP
        other = service.diagnose(headers={**with_key, "Origin": ELSEWHERE})
        assert "access-control-allow-origin" not in other.headers
        # A page's form is sent with the browser's own password: never from another site.
        problem(service.client.post("/", files=PICTURE, headers=with_key), 403)


def test_without_keys_a_listed_origin_may_send_pictures_and_no_other(serve, registry, promote, bundle):
    promote(registry, bundle())
    with serve(cors_origins=(APP,)) as service:
        for origin, status in ((APP, 200), (ELSEWHERE, 403), ("null", 403)):
            headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
            assert service.diagnose(headers=headers).status_code == status, origin


def test_without_a_list_no_other_site_is_let_in(service):
    assert preflight(service).status_code == 405
    answer = service.client.get("/v1/models", headers={"Origin": APP})
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_no_header_comes_from_a_sender(service):
    answer = service.client.get("/v1/models/a%0d%0aSet-Cookie:%20a=b/card?x=%0d%0aSet-Cookie:%20a=b")
    assert answer.status_code == 404
    assert "set-cookie" not in answer.headers


def read(policy):
    """Each directive with its sources."""
    return {
        name: rest.split() for name, _, rest in (part.strip().partition(" ") for part in policy.split(";"))
    }


SECURED = {
    "x-content-type-options": ["nosniff"],
    "x-frame-options": ["DENY"],
    "referrer-policy": ["same-origin"],
    "cross-origin-resource-policy": ["same-origin"],
    "cross-origin-opener-policy": ["same-origin"],
    "cache-control": ["no-store"],
}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/nothing"),
        ("GET", "/v1/models/other/card"),
        ("PUT", "/livez"),
        ("POST", "/v1/diagnoses"),
    ],
)
def test_every_answer_is_secured_once(service, method, path):
    sent = PICTURE if method == "POST" else None
    headers = service.client.request(method, path, files=sent).headers
    assert {name: headers.get_list(name) for name in SECURED} == SECURED
    (policy,) = headers.get_list("content-security-policy")
    assert (policy == ANSWER_POLICY) == (path != "/docs")


@pytest.mark.parametrize(
    "policy",
    [ANSWER_POLICY, PAGE_POLICY, PICTURE_POLICY, policy_for("<style>a</style>")],
    ids=["answer", "page", "picture", "page with its style sheet"],
)
def test_no_policy_lets_in_what_is_not_ours(policy):
    said = read(policy)
    assert said["default-src"] == said["frame-ancestors"] == said["base-uri"] == ["'none'"]
    assert "form-action" in said  # it does not fall back to default-src
    assert [name for name, given in said.items() if "data:" in given] in ([], ["img-src"])
    sources = {source for given in said.values() for source in given if not source.startswith("'sha256-")}
    assert sources <= {"'none'", "'self'", "blob:", "data:"}


@pytest.mark.parametrize("path", ["/docs", "/v1/models/skin-lesion/card"])
def test_a_page_may_use_its_own_style_sheet_and_nothing_else(service, path):
    answer = service.client.get(path, headers={"Accept": "text/html"})
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert read(answer.headers["content-security-policy"])["style-src"] == [f"'sha256-{digest}'"]
    # What the policy would keep a browser from using is not there.
    assert not re.search(r"<script|<link|<img|\sstyle=|\son\w+=", answer.text)
