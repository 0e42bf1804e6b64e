import base64
import logging
from datetime import UTC, datetime, timedelta

import pytest
from starlette.requests import Request

from registry.keys import key_digest
from registry.records import SCOPES, ApiKey
from serving.access.auth import UnknownKey, authorise, authorise_page, on_this_machine
from serving.protocol.problems import KeyMissing, ScopeMissing

OPEN = ("/livez", "/readyz", "/openapi.json", "/docs")
CLOSED = ("/v1/models", "/v1/models/skin-lesion/card", "/metrics")


def asked(client=("127.0.0.1", 5), **headers):
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": raw, "client": client})


@pytest.mark.parametrize("client", [("127.0.0.1", 5), ("127.8.9.1", 5), ("::1", 5)])
@pytest.mark.parametrize(
    "host", [{}, *({"host": name} for name in ("localhost:3000", "127.0.0.1", "[::1]:3000"))]
)
def test_this_machine_is_loopback_asked_by_its_own_names(client, host):
    assert on_this_machine(asked(client, **host))


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
def test_everybody_else_is_elsewhere(client, headers):
    assert not on_this_machine(asked(client, **headers))
    with pytest.raises(KeyMissing, match="dermfed-registry keys add"):
        authorise(asked(client, **headers), (), "read")


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER  {} "])
def test_a_key_is_found_by_its_digest(registry, form):
    key, secret = registry.create_key("app")
    registry.create_key("other")
    assert authorise(asked(authorization=form.format(secret)), registry.keys(), "read") == key


@pytest.mark.parametrize(
    "sent", ["", "Bearer", "Bearer ", "Basic {}", "{}", "Bearer {}x", "Bearer é{}", "Token {}"]
)
def test_what_is_no_key_of_ours_is_refused(registry, sent):
    _, secret = registry.create_key("app")
    request = asked(authorization=sent.format(secret)) if sent else asked()
    with pytest.raises(KeyMissing):
        authorise(request, registry.keys(), "read")


NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def key_of(secret, **parts):
    return ApiKey(secret, "app", key_digest(secret), NOW - 9 * DAY, **{"revoked": None, **parts})


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("asking", [authorise, authorise_page])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_opens_what_its_scopes_say(asking, scope):
    keys = [key_of("both", scopes=("diagnose", "read")), key_of("all")]
    assert asking(asked(authorization="Bearer all"), keys, scope) == keys[1]
    request = asked(authorization="Bearer both")
    if scope in keys[0].scopes:
        assert asking(request, keys, scope) == keys[0]
    else:
        with pytest.raises(ScopeMissing, match=f"`{scope}`: it has diagnose, read") as caught:
            asking(request, keys, scope)
        assert caught.value.status == 403
        assert f"dermfed-registry keys add NAME --scope {scope}" in caught.value.detail
        assert f'error="insufficient_scope", scope="{scope}"' in caught.value.headers["WWW-Authenticate"]
    assert request.state.key == "both"


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"revoked": NOW - DAY}, "was revoked"),
        ({"expires": NOW - DAY}, "has expired"),
        ({"revoked": NOW - DAY, "expires": NOW + DAY}, "was revoked"),
        ({"expires": NOW + DAY}, None),
    ],
)
def test_a_key_that_is_over_opens_nothing(parts, why):
    request, keys = asked(authorization="Bearer a"), [key_of("a", **parts)]
    if why is None:
        assert authorise(request, keys, "read") == keys[0]
        return
    with pytest.raises(KeyMissing, match=why) as caught:
        authorise(request, keys, "read")
    assert not isinstance(caught.value, UnknownKey)
    assert not hasattr(request.state, "key")


def test_only_a_key_that_there_never_was_is_a_guess():
    with pytest.raises(UnknownKey):
        authorise(asked(authorization="Bearer b"), [key_of("a")], "read")
    with pytest.raises(KeyMissing) as caught:
        authorise(asked(), [key_of("a")], "read")
    assert not isinstance(caught.value, UnknownKey)


@pytest.mark.parametrize("user", ["", "anybody", "Jörg"])
def test_a_browser_sends_the_key_as_a_password_and_to_pages_alone(user):
    keys = [key_of("a:b")]  # a password may hold colons, a user name none
    request = asked(authorization=basic(user, "a:b"))
    assert authorise_page(request, keys, "diagnose") == keys[0]
    with pytest.raises(KeyMissing) as caught:
        authorise(request, keys, "diagnose")
    assert caught.value.headers["WWW-Authenticate"] == 'Bearer realm="dermfed"'


def test_pages_are_this_machines_alone_while_there_are_no_keys():
    request = asked()
    assert authorise_page(request, (), "operate") is None
    assert request.state.key is None
    with pytest.raises(KeyMissing, match="this machine alone"):
        authorise_page(asked(("10.0.0.7", 5), authorization=basic("a", "b")), (), "operate")


def test_a_key_is_rotated_without_a_refused_request(serve, registry, promote, bundle):
    promote(registry, bundle())
    old, first = registry.create_key("app", scopes=["read", "diagnose"])
    with serve() as service:

        def status(secret):
            headers = {"Authorization": f"Bearer {secret}"}
            return service.client.get("/v1/models", headers=headers).status_code

        assert status(first) == 200
        second = registry.rotate_key(old.id).secret
        service.eventually(lambda: status(second) == 200)
        assert status(first) == 200
        third = registry.rotate_key(registry.keys()[1].id, grace=timedelta(0)).secret
        service.eventually(lambda: status(second) == 401)
        assert [status(first), status(third)] == [200, 200]


def statuses(service, key=None):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return {
        *(service.client.get(path, headers=headers).status_code for path in CLOSED),
        service.diagnose(headers=headers).status_code,
    }


def test_a_service_opens_and_closes_with_its_keys(serve, registry, promote, bundle, problem, caplog):
    promote(registry, bundle())
    with caplog.at_level(logging.DEBUG), serve(poll_seconds=0.5) as service:
        assert statuses(service) == {200}
        for path in CLOSED:
            answer = service.client.get(path, headers={"X-Forwarded-For": "127.0.0.1"})
            assert "this machine alone" in problem(answer, 401)["detail"]
            assert answer.headers["www-authenticate"] == 'Bearer realm="dermfed"'
        problem(service.client.get("/v1/models", headers={"Host": "rebound.example"}), 401)

        key, secret = registry.create_key("app")
        service.eventually(lambda: statuses(service) == {401})
        wrong = secret[:-1] + ("A" if secret[-1] != "A" else "B")
        for sent in (None, wrong, secret + " x", key.id, key.sha256):
            headers = {"Authorization": f"Bearer {sent}"} if sent else {}
            answer = service.client.get("/v1/models", headers=headers)
            said = problem(answer, 401)
            assert answer.headers["www-authenticate"] == 'Bearer realm="dermfed"'
            assert sent is None or sent not in str(said)
        assert statuses(service, secret) == {200}
        assert [service.client.get(path).status_code for path in OPEN] == [200] * 4

        other, second = registry.create_key("other")
        service.eventually(lambda: statuses(service, second) == {200})
        registry.revoke_key(other.id)
        service.eventually(lambda: statuses(service, second) == {401})
        assert statuses(service, secret) == {200}
        registry.revoke_key(key.id)
        service.eventually(lambda: statuses(service, secret) == {401})
        assert statuses(service) == {401}
        assert [service.client.get(path).status_code for path in OPEN] == [200] * 4
    told = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    assert told.count("/v1/models") > 5
    assert secret not in told
    assert secret.split("_", 2)[2] not in told  # its random part, which may hold the sign too
    assert key.sha256.split(":")[-1] not in told


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}]
)
def test_without_keys_a_page_of_somebody_else_cannot_send_pictures(
    serve, registry, promote, bundle, problem, headers
):
    """A browser on this machine would post its form to localhost without asking anybody."""
    promote(registry, bundle())
    with serve() as service:
        said = problem(service.diagnose(headers=headers), 403)
        assert said["type"] == "urn:dermfed:problem:cross-site"
        assert service.diagnose(headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        _, secret = registry.create_key("app")
        sent = {"Authorization": f"Bearer {secret}", **headers}  # which no browser adds by itself
        service.eventually(lambda: service.diagnose(headers=sent).status_code == 200)


def test_nothing_is_read_of_an_upload_without_a_key(serve, registry, promote, bundle):
    promote(registry, bundle())
    registry.create_key("app")
    with serve() as service:
        head = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
        got = service.raw(head + b"Content-Length: 20000000\r\nExpect: 100-continue\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 401 ")  # and no `100 Continue` before it
        assert service.diagnose(bytes(20_000_000)).status_code == 401


def test_troubles_are_told_to_whoever_may_operate(serve, places, registry, promote, bundle, problem):
    first = bundle()
    promote(registry, first)
    promote(registry, bundle(seed=1))
    _, asking = registry.create_key("app", scopes=["diagnose"])
    _, operating = registry.create_key("operator", scopes=["operate"])
    with serve() as service:

        def ready(secret=None):
            headers = {"Authorization": f"Bearer {secret}"} if secret else {}
            return service.client.get("/readyz", headers=headers).json()

        places.spoil(first.digest)
        registry.rollback("skin-lesion", alias="production")
        service.eventually(lambda: ready()["status"] == "degraded")
        for secret in (None, asking, "dfk_none"):
            (told,) = ready(secret)["troubles"]
            assert told.startswith("1 trouble")
            assert first.digest not in told
        assert first.digest in ready(operating)["troubles"][0]
