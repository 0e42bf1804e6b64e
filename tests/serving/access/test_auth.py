import base64
import logging
from datetime import UTC, datetime, timedelta

import pytest
from starlette.requests import Request

from registry.keys import key_digest
from registry.records import SCOPES, ApiKey
from serving.auth import UnknownKey, authorise, on_this_machine
from serving.protocol.problems import KeyMissing, ScopeMissing

OPEN = ("/livez", "/readyz", "/openapi.json", "/docs")
CLOSED = ("/v1/models", "/v1/models/skin-lesion/card", "/metrics")
NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def asked(client=("127.0.0.1", 5), **headers):
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": raw, "client": client})


def key_of(secret, **parts):
    return ApiKey(secret, "app", key_digest(secret), NOW - 9 * DAY, **{"revoked": None, **parts})


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.9.1", "::1"])
@pytest.mark.parametrize("host", [None, "localhost:3000", "127.0.0.1", "[::1]:3000"])
def test_this_machine_is_loopback_asked_by_its_own_names(client, host):
    assert on_this_machine(asked((client, 5), **({"host": host} if host else {})))


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        (("10.0.0.7", 5), {}),
        (("0.0.0.0", 5), {}),
        (("testclient", 5), {}),
        (None, {}),
        (("127.0.0.1", 5), {"x_forwarded_for": "127.0.0.1"}),
        (("127.0.0.1", 5), {"forwarded": "for=127.0.0.1"}),
        (("127.0.0.1", 5), {"x_real_ip": "127.0.0.1"}),
        (("127.0.0.1", 5), {"via": "1.1 proxy"}),
        (("127.0.0.1", 5), {"host": "rebound.example:3000"}),
        (("127.0.0.1", 5), {"host": "localhost.example"}),
        (("127.0.0.1", 5), {"host": "["}),
        (("127.0.0.1", 5), {"host": ""}),
        (("127.0.0.1", 5), {"host": "0" * 5000 + ".0.0.1"}),
    ],
)
def test_all_others_are_elsewhere_and_need_a_key(client, headers):
    assert not on_this_machine(asked(client, **headers))
    with pytest.raises(KeyMissing, match="dermfed-registry keys add"):
        authorise(asked(client, **headers), (), "read")


@pytest.mark.parametrize("page", [False, True])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_opens_what_its_scopes_say(page, scope):
    keys = [key_of("both", scopes=("diagnose", "read")), key_of("all")]
    assert authorise(asked(authorization="Bearer all"), keys, scope, page=page) == keys[1]
    request = asked(authorization="Bearer both")
    if scope in keys[0].scopes:
        assert authorise(request, keys, scope, page=page) == keys[0]
    else:
        with pytest.raises(ScopeMissing) as caught:
            authorise(request, keys, scope, page=page)
        assert f"dermfed-registry keys add NAME --scope {scope}" in caught.value.detail
        assert f'error="insufficient_scope", scope="{scope}"' in caught.value.headers["WWW-Authenticate"]
    assert request.state.key == "both"


GOOD, NONE, NOT_KNOWN = None, "send your API key", "is not known"
OVER = {"revoked": NOW - DAY}


@pytest.mark.parametrize(
    ("sent", "parts", "why"),
    [
        ("Bearer a", {}, GOOD),
        ("bearer a", {}, GOOD),
        ("BEARER  a ", {}, GOOD),
        ("Bearer a", {"expires": NOW + DAY}, GOOD),
        ("Bearer a", {"expires": NOW - DAY}, "has expired"),
        ("Bearer a", OVER, "was revoked"),
        ("Bearer a", {**OVER, "expires": NOW + DAY}, "was revoked"),
        ("Bearer b", {}, NOT_KNOWN),
        ("Bearer ax", {}, NOT_KNOWN),
        ("Bearer éa", {}, NOT_KNOWN),
        ("", {}, NONE),
        ("a", {}, NONE),
        ("Bearer", {}, NONE),
        ("Bearer ", {}, NONE),
        ("Basic a", {}, NONE),
        ("Token a", {}, NONE),
    ],
)
def test_a_key_that_is_sent_as_one_and_is_not_over_opens_the_service(sent, parts, why):
    request, keys = asked(authorization=sent), [key_of("other"), key_of("a", **parts)]
    if why is GOOD:
        assert authorise(request, keys, "read") == keys[1]
        return
    with pytest.raises(KeyMissing, match=why) as caught:
        authorise(request, keys, "read")
    assert isinstance(caught.value, UnknownKey) == (why == NOT_KNOWN)  # which is a guess
    assert not hasattr(request.state, "key")


@pytest.mark.parametrize("user", ["", "anybody", "Jörg"])
def test_a_browser_sends_the_key_as_a_password_and_to_pages_alone(user):
    keys = [key_of("a:b")]  # a password may hold colons, a user name none
    request = asked(authorization=basic(user, "a:b"))
    assert authorise(request, keys, "diagnose", page=True) == keys[0]
    with pytest.raises(KeyMissing) as caught:
        authorise(request, keys, "diagnose")
    assert caught.value.headers["WWW-Authenticate"] == 'Bearer realm="dermfed"'


def test_pages_are_this_machines_alone_while_there_are_no_keys():
    request = asked()
    assert authorise(request, (), "operate", page=True) is None
    assert request.state.key is None
    with pytest.raises(KeyMissing, match="this machine alone"):
        authorise(asked(("10.0.0.7", 5), authorization=basic("a", "b")), (), "operate", page=True)


# Over HTTP.


def test_a_key_is_rotated_without_a_refused_request(serve, registry, released, statuses):
    old, first = registry.create_key("app", scopes=["read", "diagnose"])
    with serve() as service:

        def status(secret):
            return statuses(service, secret, ["/v1/models"])[0]

        assert status(first) == 200
        second = registry.rotate_key(old.id).secret
        service.eventually(lambda: status(second) == 200)
        assert status(first) == 200
        third = registry.rotate_key(registry.keys()[1].id, grace=timedelta(0)).secret
        service.eventually(lambda: status(second) == 401)
        assert [status(first), status(third)] == [200, 200]


def test_a_service_opens_and_closes_with_its_keys(
    serve, registry, released, problem, caplog, bearer, statuses
):
    with caplog.at_level(logging.DEBUG), serve(poll_seconds=0.5) as service:

        def closed(secret=None):
            return {
                *statuses(service, secret, CLOSED),
                service.diagnose(headers=bearer(secret)).status_code,
            }

        assert closed() == {200}
        for path in CLOSED:
            problem(service.client.get(path, headers={"X-Forwarded-For": "127.0.0.1"}), 401)
        problem(service.client.get("/v1/models", headers={"Host": "rebound.example"}), 401)

        key, secret = registry.create_key("app")
        service.eventually(lambda: closed() == {401})
        wrong = secret[:-1] + ("A" if secret[-1] != "A" else "B")
        for sent in (wrong, secret + " x", key.id, key.sha256):
            answer = service.client.get("/v1/models", headers=bearer(sent))
            assert sent not in str(problem(answer, 401))
            assert answer.headers["www-authenticate"] == 'Bearer realm="dermfed"'
        assert closed(secret) == {200}
        assert statuses(service, None, OPEN) == [200] * 4

        other, second = registry.create_key("other")
        service.eventually(lambda: closed(second) == {200})
        registry.revoke_key(other.id)
        service.eventually(lambda: closed(second) == {401})
        assert closed(secret) == {200}
        registry.revoke_key(key.id)
        service.eventually(lambda: closed(secret) == {401})
        assert closed() == {401}  # without a good key it does not open again
        assert statuses(service, None, OPEN) == [200] * 4
    log = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    assert log.count("/v1/models") > 5
    assert secret not in log
    assert secret.split("_", 2)[2] not in log  # its random part, which may hold the sign too
    assert key.sha256.split(":")[-1] not in log


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}]
)
def test_without_keys_a_page_of_another_site_cannot_send_pictures(
    serve, registry, released, problem, headers, bearer
):
    """A browser on this machine would post its form to localhost without asking."""
    with serve() as service:
        assert problem(service.diagnose(headers=headers), 403)["type"].endswith(":cross-site")
        assert service.diagnose(headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        _, secret = registry.create_key("app")
        sent = {**bearer(secret), **headers}  # which no browser adds by itself
        service.eventually(lambda: service.diagnose(headers=sent).status_code == 200)


@pytest.mark.parametrize(
    ("times", "status"),
    [pytest.param(0, 401, id="without a key"), pytest.param(1, 429, id="of a key that asks too often")],
)
def test_nothing_is_read_of_an_upload(serve, keyed, statuses, times, status):
    with serve(requests_per_minute=1, burst=1) as service:
        assert statuses(service, keyed, ["/v1/models"] * times) == [200] * times
        lines = ["POST /v1/diagnoses HTTP/1.1", "Host: localhost", "Content-Type: image/jpeg"]
        lines += [f"Authorization: Bearer {keyed}"] * times
        head = "\r\n".join([*lines, "Content-Length: 20000000", "Expect: 100-continue", "", ""])
        got = service.raw(head.encode())
        assert got.startswith(f"HTTP/1.1 {status} ".encode())  # and no `100 Continue` before it
