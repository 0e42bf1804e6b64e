"""What is around every request: its ids, its log line, where it ends, who may ask, and security headers."""

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

# The asking side, and the server of the tests: `dermfed-serve` keeps no access log.
NOT_OURS = ("httpx", "httpcore", "uvicorn.access", "python_multipart")
SECRETS = ("Marker-In-The-Picture", "marker-file-name", "markerquery", "marker_tone", "markeragent")


def served_lines(caplog):
    """What the service has logged."""
    return [record.getMessage() for record in caplog.records if record.name == "dermfed.serve"]


def test_a_line_says_who_what_and_how_long_and_nothing_else(service, picture, caplog):
    sent = picture(comment=SECRETS[0].encode())
    headers = {"User-Agent": SECRETS[4], "Authorization": "Bearer markerkey"}
    with caplog.at_level(logging.DEBUG):
        answers = [
            service.diagnose(sent, params={"skin_tone": "5"}, headers=headers),
            service.form({}, files={"image": (SECRETS[1], sent, "image/jpeg")}, headers=headers),
            service.diagnose(sent, params={SECRETS[2]: "1"}, headers=headers),
            service.diagnose(sent, params={"skin_tone": SECRETS[3]}, headers=headers),
            service.diagnose(SECRETS[0].encode(), headers=headers),
            service.form({"image": SECRETS[0]}, files={}, headers=headers),
            service.form(
                {SECRETS[2]: SECRETS[0]}, files={"markerfield": (SECRETS[1], sent)}, headers=headers
            ),
            service.client.get(f"/{SECRETS[2]}", headers=headers),
            service.client.get(f"/v1/models/{SECRETS[2]}/card", headers=headers),
        ]
        ids = {answer.headers["x-request-id"] for answer in answers}
        # What the asking side logs has the ids too: it is the service's own lines that have to come.
        service.eventually(lambda: ids <= {line.partition(" ")[0] for line in served_lines(caplog)})
    assert [answer.status_code for answer in answers] == [200, 200, 422, 422, 400, 415, 422, 404, 404]
    told = [record for record in caplog.records if not record.name.startswith(NOT_OURS)]
    assert "marker" not in "\n".join(record.getMessage() for record in told).lower()
    for answer in answers:  # a line is written once its answer has left: not always in their order
        [line] = [line for line in served_lines(caplog) if answer.headers["x-request-id"] in line]
        known = re.fullmatch(r"[0-9a-f-]{36} (GET|POST) (\S+) (\d{3}) \d+\.\d ms", line)
        assert known, line
        assert int(known[3]) == answer.status_code
        assert known[2] in ("/v1/diagnoses", "/v1/models/{name}/card", "other")


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
    assert uuid.UUID(own)  # a diagnosis is found by our own id: what a sender chooses may be chosen twice
    (line,) = [line for line in served_lines(caplog) if line.startswith(own)]
    assert line.endswith(f" ms request=chosen-1 traceparent={TRACE}")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("X-Request-Id", "")],
        [("X-Request-Id", "a b")],
        [("X-Request-Id", "a\tb")],
        [("X-Request-Id", "é".encode())],
        [("X-Request-Id", "a" * 129)],
        [("X-Request-Id", "a"), ("X-Request-Id", "b")],
        [("Traceparent", TRACE.upper())],
        [("Traceparent", TRACE[:-1])],
        [("Traceparent", "ff" + TRACE[2:])],
        [("Traceparent", f"00-{'0' * 32}-b7ad6b7169203331-01")],
        [("Traceparent", f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01")],
    ],
)
def test_ids_that_are_none_are_left_out(service, headers):
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


@pytest.mark.parametrize("stripped", [True, False])
def test_under_a_prefix_every_link_form_and_file_is_under_it(under_a_prefix, stripped):
    """Follows every link from the first page, through a proxy that takes the prefix off or leaves it."""
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
    id_ = client.post(f"{PREFIX}/v1/diagnoses", files={"image": ("a.jpg", encode(paint()))}).json()["id"]
    sent = client.get(f"{PREFIX}/diagnoses", params={"id": id_})
    assert (sent.status_code, sent.headers["location"]) == (303, f"{PREFIX}/diagnoses/{id_}")
    page = client.get(sent.headers["location"])
    assert f'action="{PREFIX}/diagnoses/{id_}"' in page.text
    assert client.get(f"{PREFIX}/openapi.json").json()["servers"] == [{"url": PREFIX}]


def test_without_a_prefix_nothing_is_under_one(service):
    assert service.client.get("/openapi.json").json()["servers"] == [{"url": "/"}]
    assert service.client.get(f"{PREFIX}/livez").status_code == 404


APP = "https://app.example"


def preflight(service, origin=APP, headers="authorization,content-type,x-request-id"):
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    return service.client.options(
        "/v1/diagnoses", headers={**asked, "Access-Control-Request-Headers": headers}
    )


def test_pages_of_listed_origins_may_ask_from_a_browser_and_no_others(
    serve, registry, promote, bundle, problem
):
    promote(registry, bundle())
    _, secret = registry.create_key("app")
    with serve(cors_origins=(APP,)) as service:
        allowed = preflight(service)  # which a browser sends without a key
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == APP
        assert preflight(service, "https://elsewhere.example").status_code == 400
        assert preflight(service, headers="x-anything").status_code == 400
        from_app = {"Origin": APP, "Sec-Fetch-Site": "cross-site"}
        with_key = {**from_app, "Authorization": f"Bearer {secret}"}
        answer = service.diagnose(headers=with_key)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, APP)
        assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
        for refused in (
            service.diagnose(headers=from_app),
            service.diagnose(b"no picture", headers=with_key),
        ):
            problem(refused, refused.status_code)
            assert refused.headers["access-control-allow-origin"] == APP
        other = service.diagnose(headers={**with_key, "Origin": "https://elsewhere.example"})
        assert "access-control-allow-origin" not in other.headers
        # A page's form is sent with the browser's own password: never from another site.
        files = {"image": ("a.jpg", encode(paint()))}
        problem(service.client.post("/", files=files, headers=with_key), 403)


def test_without_keys_a_listed_origin_may_send_pictures_and_no_other(serve, registry, promote, bundle):
    promote(registry, bundle())
    with serve(cors_origins=(APP,)) as service:
        for origin, status in ((APP, 200), ("https://elsewhere.example", 403), ("null", 403)):
            headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
            assert service.diagnose(headers=headers).status_code == status


def test_without_a_list_no_other_site_is_let_in(service):
    assert preflight(service).status_code == 405
    answer = service.client.get("/v1/models", headers={"Origin": APP})
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_no_header_comes_from_a_sender(service):
    answer = service.client.get("/v1/models/a%0d%0aSet-Cookie:%20a=b/card?x=%0d%0aSet-Cookie:%20a=b")
    assert answer.status_code == 404
    assert "set-cookie" not in answer.headers


def test_a_method_is_cut_in_the_log(service, caplog):
    with caplog.at_level(logging.INFO, "dermfed.serve"):
        got = service.raw(b"G" * 9000 + b" /livez HTTP/1.1\r\nHost: " + b"h" * 5000 + b"\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 405 ")
        service.eventually(lambda: any(" 405 " in line for line in caplog.messages))
    assert all(len(line) < 200 for line in caplog.messages if " 405 " in line)


PATHS = [
    "/v1/models",
    "/livez",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/nothing",
    "/v1/models/other/card",
]


def read(policy):
    """Each directive with its sources."""
    return {
        name: rest.split() for name, _, rest in (part.strip().partition(" ") for part in policy.split(";"))
    }


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_is_secured_once(service, path):
    headers = service.client.get(path).headers
    once = {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-store",
    }
    assert {name: headers.get_list(name) for name in once} == {name: [value] for name, value in once.items()}
    (policy,) = headers.get_list("content-security-policy")
    assert read(policy)["default-src"] == read(policy)["frame-ancestors"] == ["'none'"]
    assert (policy == ANSWER_POLICY) == (path != "/docs")


def test_a_diagnosis_and_its_refusal_are_secured_too(service):
    for answer in (service.diagnose(), service.diagnose(b"nothing"), service.client.put("/livez")):
        assert answer.headers["content-security-policy"] == ANSWER_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "policy", [ANSWER_POLICY, PAGE_POLICY, PICTURE_POLICY, policy_for("<style>a</style>")]
)
def test_no_policy_lets_in_what_is_not_ours(policy):
    said = read(policy)
    assert said["default-src"] == said["frame-ancestors"] == said["base-uri"] == ["'none'"]
    sources = {source for given in said.values() for source in given}
    if "data:" in sources:
        assert [name for name, given in said.items() if "data:" in given] == ["img-src"]
        sources.remove("data:")
    assert {one for one in sources if not one.startswith("'sha256-")} <= {"'none'", "'self'", "blob:"}
    assert "form-action" in said  # it does not fall back to default-src


@pytest.mark.parametrize("path", ["/docs", "/v1/models/skin-lesion/card"])
def test_a_page_may_use_the_style_sheet_that_it_holds_and_nothing_else(service, path):
    answer = service.client.get(path, headers={"Accept": "text/html"})
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert read(answer.headers["content-security-policy"])["style-src"] == [f"'sha256-{digest}'"]
    # What the policy would keep a browser from using is not there.
    assert not re.search(r"<script|<link|<img|\sstyle=|\son\w+=", answer.text)
