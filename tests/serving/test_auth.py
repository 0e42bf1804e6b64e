import logging
import time

import pytest
from starlette.requests import Request

from serving.auth import authorise, on_this_machine
from serving.problems import KeyMissing, NothingServed

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
    ],
)
def test_everybody_else_is_elsewhere(client, headers):
    assert not on_this_machine(asked(client, **headers))
    with pytest.raises(KeyMissing, match="dermfed-registry keys add"):
        authorise(asked(client, **headers), ())


def test_while_nobody_knows_the_keys_nobody_may_ask():
    with pytest.raises(NothingServed, match="no key can be checked"):
        authorise(asked(authorization="Bearer x"), None)


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER  {} "])
def test_a_key_is_found_by_its_digest(registry, form):
    key, secret = registry.create_key("app")
    registry.create_key("other")
    assert authorise(asked(authorization=form.format(secret)), registry.keys()) == key


@pytest.mark.parametrize(
    "sent", ["", "Bearer", "Bearer ", "Basic {}", "{}", "Bearer {}x", "Bearer é{}", "Token {}"]
)
def test_what_is_no_key_of_ours_is_refused(registry, sent):
    _, secret = registry.create_key("app")
    request = asked(authorization=sent.format(secret)) if sent else asked()
    with pytest.raises(KeyMissing):
        authorise(request, registry.keys())


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
        made = time.monotonic()
        service.eventually(lambda: statuses(service) == {401})
        assert time.monotonic() - made < 1
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


def test_nothing_is_read_of_an_upload_without_a_key(serve, registry, promote, bundle):
    promote(registry, bundle())
    registry.create_key("app")
    with serve() as service:
        head = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
        began = time.monotonic()
        got = service.raw(head + b"Content-Length: 20000000\r\nExpect: 100-continue\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 401 ")  # and no `100 Continue` before it
        assert time.monotonic() - began < 1
        assert service.diagnose(bytes(20_000_000)).status_code == 401
