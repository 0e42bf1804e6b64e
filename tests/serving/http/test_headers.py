import base64
import hashlib
import re

import pytest

from serving.http.middleware import (
    ANSWER_POLICY,
    PAGE_POLICY,
    PICTURE_POLICY,
    policy_for,
)

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
