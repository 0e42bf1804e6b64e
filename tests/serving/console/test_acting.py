"""What is done from the console over HTTP, by whoever signs it, and by whoever would like to."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from registry.people.signatory import TakesDown
from serving.console import signing
from tests.serving.conftest import MODEL, running
from tests.serving.console.conftest import figures, know, text

BOTH = {"versions": [1, 2], "alias": "production"}
GOOD = {"versions": [1, 3], "alias": "production"}
APPROVE, PROMOTE = {"action": "approve", **GOOD}, {"action": "promote", **GOOD}
OVERRIDE = {"action": "promote", **BOTH, "override": True, "reason": "until March"}
BACK = {"action": "roll-back", "alias": "production", "reason": "complaints"}
STOP = {"action": "stop", "alias": "production", "reason": "it harms"}
WITHDRAW = {"action": "withdraw", "versions": [3], "reason": "it harms"}


def kinds(desk):
    return [one.kind for one in desk.registry.history(MODEL)]


def running_now(desk, alias="production"):
    release = desk.registry.release(MODEL, alias)
    return None if release is None else [one.number for one in release.versions]


def test_two_people_release_a_version_and_one_takes_it_back(desk, problem):
    refused = problem(desk.prepare("olga", {"action": "promote", **BOTH}), 409)
    assert "malignant sensitivity is 0.600 for dark" in refused["detail"]
    assert "--override-gates" not in refused["detail"]
    assert desk.act("anna", {**APPROVE, "reason": "seen by the ward"}).status_code == 200
    done = desk.act("olga", {**PROMOTE, "reason": "first"})
    assert done.status_code == 200
    assert "promoted versions 1, 3, production" in done.json()["done"][0][0]
    assert running_now(desk) == [1, 3]
    alone = {"action": "promote", **BOTH, "override": True, "reason": "a trial"}
    assert (
        "takes the approval of 1 person other than olga"
        in problem(desk.prepare("olga", alone), 409)["detail"]
    )
    desk.vouch(1, 2)
    assert (
        desk.act("olga", {"action": "promote", **BOTH, "override": True, "reason": "a trial"}).status_code
        == 200
    )
    assert running_now(desk) == [1, 2]
    assert desk.act("ben", BACK).status_code == 200
    assert running_now(desk) == [1, 3]
    assert desk.act("ben", STOP).status_code == 200
    assert running_now(desk) is None
    assert desk.act("ben", BACK).status_code == 200
    moved = desk.act("ben", WITHDRAW)
    assert [lines[0].split(")  ")[1].split()[0] for lines in moved.json()["done"]] == [
        "withdrawn",
        "stopped,",
    ]
    signed = [one for one in desk.registry.history(MODEL) if one.kind not in ("added", "gates-changed")]
    assert {one.actor for one in signed} == {"olga", "anna", "ben"}
    assert set(desk.registry.signers(signed)) == {
        one.id for one in signed
    }  # each with a signature that holds
    assert desk.registry.verify() == ()


@pytest.mark.parametrize("action", [APPROVE, OVERRIDE, {**PROMOTE, "override": True, "reason": "now"}])
def test_preparing_does_nothing(desk, action):
    before = desk.registry.audit()
    who = "anna" if action is APPROVE else "olga"
    (said,) = desk.said(who, action)
    assert desk.registry.audit() == before
    assert running_now(desk) is None
    assert (said["model"], said["alias"], said["versions"]) == (MODEL, "production", action["versions"])
    assert [one["number"] for one in said["details"]["members"]] == action["versions"]
    assert said["reason"] == action.get("reason")


def test_every_statement_of_a_withdrawal_is_signed(desk):
    desk.vouch(1, 3, alias="staging")
    for alias in ("production", "staging"):
        assert (
            desk.act("olga", {**PROMOTE, "alias": alias, "override": True, "reason": "now"}).status_code
            == 200
        )
    said = desk.said("olga", WITHDRAW)
    assert [(one["kind"], one["alias"]) for one in said] == [
        ("withdrawn", None),
        ("stopped", "production"),
        ("stopped", "staging"),
    ]
    sent = desk.sign("olga", WITHDRAW)
    missing = desk.send("act", {**sent, "signed": sent["signed"][:2]})
    assert missing.status_code == 409
    assert kinds(desk).count("withdrawn") == 0  # all or nothing
    assert running_now(desk, "staging") == [1, 3]
    assert desk.send("act", sent).status_code == 200


def test_where_nothing_would_be_done_nothing_is_signed(desk):
    assert desk.act("olga", OVERRIDE).status_code == 200
    assert desk.prepare("olga", OVERRIDE).json()["statements"] == []


@pytest.mark.parametrize(
    ("who", "action", "said"),
    [
        ("anna", OVERRIDE, "this is for operators"),
        ("anna", BACK, "this is for operators"),
        ("anna", STOP, "this is for operators"),
        ("anna", WITHDRAW, "this is for operators"),
        ("olga", APPROVE, "this is for approvers"),
        ("eve", OVERRIDE, "of nobody whom the registry knows"),
    ],
)
def test_who_may_not_is_refused_before_anything_is_signed(desk, problem, who, action, said):
    desk.registry.signed_by(desk.people("olga").signatory).promote(
        MODEL, [1, 3], to="production", reason="now", override_gates=True
    )
    desk.vouch(2)
    desk.registry.signed_by(desk.people("olga").signatory).promote(
        MODEL, [2], to="production", reason="now", override_gates=True
    )
    before = kinds(desk)
    sent = {**BACK, **action} if action is BACK else action
    assert said in problem(desk.prepare(who, sent), 403)["detail"]
    assert kinds(desk) == before


def test_a_person_whose_key_was_revoked_is_refused(desk, problem):
    sent = desk.sign("anna", APPROVE)
    desk.registry.signed_by(desk.people("olga").signatory).revoke_person("anna")
    for answer in (desk.prepare("anna", APPROVE), desk.send("act", sent)):
        assert "of anna was revoked" in problem(answer, 403)["detail"]


def test_a_signature_by_another_key_does_nothing(desk, problem):
    """Eve has an API key and sees what Olga would sign; she has not got Olga's key."""
    sent = desk.sign("olga", OVERRIDE)
    statement = base64.b64decode(sent["signed"][0]["statement"])
    forged = [{"statement": text(statement), "signature": text(desk.people("eve").sign(statement))}]
    refused = problem(desk.send("act", {**sent, "signed": forged}), 403)
    assert "the signature is not of the key" in refused["detail"]
    for signature in (b"\x00" * 64, b"\xff" * 64, b"x", b"y" * 200):
        forged = [{"statement": text(statement), "signature": text(signature)}]
        said = problem(desk.send("act", {**sent, "signed": forged}), 403)["detail"]
        assert ("and one by the key of olga has 64" in said) == (len(signature) != 64)
    assert running_now(desk) is None


def test_a_signature_is_good_once_and_for_what_was_signed_alone(desk, problem):
    sent = desk.sign("olga", OVERRIDE)
    for changed in (
        {"reason": "for ever"},
        {"alias": "staging"},
        {"versions": [1, 3]},
        {"action": "roll-back", "versions": None, "override": None},
    ):
        action = {name: value for name, value in {**sent["action"], **changed}.items() if value is not None}
        assert desk.send("act", {**sent, "action": action}).status_code in (404, 409)
    assert running_now(desk) is None
    assert desk.send("act", sent).status_code == 200
    desk.vouch(1, 3)
    assert desk.act("olga", {**PROMOTE, "override": True, "reason": "better"}).status_code == 200
    assert desk.act("olga", BACK).status_code == 200
    assert desk.act("olga", {**STOP}).status_code == 200
    desk.vouch(1, 2)
    replayed = problem(desk.send("act", sent), 409)
    assert replayed["type"].endswith(":signed-for-another")
    assert "look again" in replayed["detail"]


def test_what_changed_meanwhile_has_to_be_signed_anew(desk, problem):
    sent = desk.sign("olga", OVERRIDE)
    desk.registry.signed_by(desk.people("anna").signatory).approve(MODEL, [1], to="production")
    assert problem(desk.send("act", sent), 409)["type"].endswith(":signed-for-another")
    sent = desk.sign("olga", OVERRIDE)
    desk.set_other_gates()
    assert problem(desk.send("act", sent), 409)["type"].endswith(":signed-for-another")
    assert running_now(desk) is None


def test_what_was_signed_long_ago_has_to_be_signed_anew(desk, problem, monkeypatch):
    class LongAgo(TakesDown):
        def __init__(self, fingerprint):
            super().__init__(fingerprint)
            self._time = datetime.now(UTC) - timedelta(minutes=16)

    monkeypatch.setattr("registry.people.signatory.TakesDown", LongAgo)
    refused = problem(desk.act("olga", OVERRIDE), 409)
    assert "more than 15 minutes" in refused["detail"]
    assert running_now(desk) is None


@pytest.mark.parametrize(
    ("statement", "status"),
    [
        *((b"no json", 403), (b"[]", 403), (b'{"time": 1}', 403), (b"[" * 100_000, 403)),
        *((b'{"time": "2026-01-01T00:00:00"}', 409), (b'{"time": "0001-01-01T00:00:00+23:00"}', 403)),
    ],
)
def test_what_is_no_statement_is_refused(desk, problem, statement, status):
    signed = [{"statement": text(statement), "signature": text(desk.people("olga").sign(statement))}]
    sent = {**desk.sign("olga", OVERRIDE), "signed": signed}
    assert "sign anew" in problem(desk.send("act", sent), status)["detail"]


@pytest.mark.parametrize("path", ["prepare", "act"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": ""}, 415),
    ],
)
def test_what_a_page_of_another_site_can_send_is_refused(desk, problem, path, headers, status):
    """A form, or fetch without a preflight; the browser adds the API key by itself."""
    sent = desk.sign("olga", OVERRIDE)
    body = sent if path == "act" else {name: sent[name] for name in ("action", "fingerprint")}
    headers = {"Content-Type": "application/json", **headers}
    answer = desk.service.client.post(f"/v1/console/{path}", content=json.dumps(body), headers=headers)
    problem(answer, status)
    assert running_now(desk) is None


def test_our_own_page_is_no_other_site(desk):
    headers = {"Sec-Fetch-Site": "same-origin", "Origin": desk.service.url}
    assert desk.act("olga", OVERRIDE, headers=headers).status_code == 200


def test_only_a_key_with_the_scope_operate_reaches_any_of_it(desk, places, problem):
    sent = desk.sign("olga", OVERRIDE)
    secrets = {
        scope: desk.olga.create_key(scope, scopes=[scope])[1] for scope in ("diagnose", "read", "operate")
    }
    with running(places.open) as service:
        client = service.client
        for how in (
            lambda secret: {"auth": ("anybody", secret)},
            lambda secret: {"headers": {"Authorization": f"Bearer {secret}"}},
        ):
            for scope in ("diagnose", "read"):
                problem(client.get("/console", **how(secrets[scope])), 403)
                problem(client.post("/v1/console/prepare", json={}, **how(secrets[scope])), 403)
                problem(client.post("/v1/console/act", json=sent, **how(secrets[scope])), 403)
        for path, body in (("prepare", {}), ("act", sent)):
            refused = client.post(f"/v1/console/{path}", json=body)
            problem(refused, 401)
            assert refused.headers["www-authenticate"].startswith("Basic ")
        problem(client.get("/console"), 401)
        assert running_now(desk) is None
        assert client.get("/console", auth=("olga", secrets["operate"])).status_code == 200
        assert client.post("/v1/console/act", json=sent, auth=("olga", secrets["operate"])).status_code == 200


def test_requests_are_counted_as_any_other(desk, places, problem):
    secret = desk.olga.create_key("slow", scopes=["operate"], per_minute=2)[1]
    with running(places.open) as service:
        found = [service.client.post("/v1/console/prepare", json={}, auth=("", secret)) for _ in range(3)]
    assert [one.status_code for one in found] == [422, 422, 429]
    assert "ratelimit" in found[0].headers


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"no json", 400, "no JSON"),
        (b"[" * 10_000, 400, "no JSON"),
        (b"{}", 422, "`action`"),
        (b'{"action": {"action": "delete"}}', 422, "`action`"),
        (
            b'{"action": {"action": "stop", "model": "m", "alias": "a"}, "fingerprint": "x"}',
            422,
            "`fingerprint`",
        ),
        (b'{"action": {"action": "stop", "model": "m", "alias": "a", "more": 1}}', 422, "more"),
        (b'{"action": {"action": "withdraw", "model": "m", "versions": []}}', 422, "versions"),
        (b'{"action": {"action": "withdraw", "model": "m", "versions": [-1]}}', 422, "versions"),
        (b'{"action": {"action": "withdraw", "model": "m", "versions": [9999999999999]}}', 422, "versions"),
        (b"x" * 300_000, 413, "262,144 bytes"),
    ],
)
def test_what_cannot_be_read_is_told(desk, problem, body, status, said):
    headers = {"Content-Type": "application/json"}
    answer = desk.service.client.post("/v1/console/prepare", content=body, headers=headers)
    detail = problem(answer, status)["detail"]
    assert said in detail
    assert "Value error" not in detail


@pytest.mark.parametrize(
    ("action", "status", "said"),
    [
        ({**STOP, "reason": " "}, 422, "needs a reason"),
        ({**WITHDRAW, "reason": ""}, 422, "needs a reason"),
        ({**OVERRIDE, "reason": ""}, 422, "needs a reason"),
        ({**PROMOTE, "versions": [7]}, 404, "7"),
        ({**PROMOTE, "model": "other"}, 404, "skin-lesion"),
        ({**PROMOTE, "versions": []}, 409, "no version"),
        ({**PROMOTE, "versions": [3]}, 409, "no version for everybody"),
        ({**PROMOTE, "alias": "../x"}, 422, "alias"),
        (BACK, 404, "production"),
    ],
)
def test_refusals_say_what_to_do(desk, problem, action, status, said):
    assert said in problem(desk.prepare("olga", action), status)["detail"]


def test_a_registry_that_knows_nobody_is_looked_at_and_not_changed(places, registry, bundle, people, problem):
    registry.add([bundle(metrics=figures(light=90))])
    with running(places.open) as service:
        page = service.client.get("/console", params={"choose": "1"}).text
        assert "the registry knows no people" in page
        assert "Private key file" not in page
        assert "skin-lesion, production: nothing runs" in page
        body = {"action": {"model": MODEL, **PROMOTE}, "fingerprint": people("olga").fingerprint}
        refused = problem(service.client.post("/v1/console/prepare", json=body), 409)
        assert "dermfed-registry people add" in refused["detail"]
        know(registry, people, "olga")
        assert "Private key file" in service.client.get("/console").text


def test_without_the_extra_it_says_so(desk, problem, monkeypatch):
    monkeypatch.setattr(signing, "find_spec", lambda name: None)
    assert "dermfed[serve,sign]" in problem(desk.prepare("olga", OVERRIDE), 409)["detail"]
    assert "dermfed[serve,sign]" in desk.service.client.get("/console").text


def test_a_source_that_only_reads_is_said_to(places, registry, problem, bundle):
    registry.add([bundle(metrics=figures(light=90))])

    class Reads:
        """What the service needs of a registry, and no more."""

        def __init__(self, registry):
            self._registry = registry

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self._registry.close()

        def __getattr__(self, name):
            return getattr(self._registry, name)

    with running(lambda: Reads(places.open())) as service:
        assert "only reads its registry" in problem(service.client.get("/console"), 409)["detail"]
