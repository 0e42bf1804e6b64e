import time

import pytest
from starlette.requests import Request

from serving.access import limits
from serving.access.limits import MINUTE, UNKNOWN_KEY_RATE, network_address


@pytest.fixture
def clock(monkeypatch):
    """A clock of the rates alone, which stands still until it is moved; nanoseconds."""
    now = [10 * MINUTE]

    class Standing:
        monotonic = staticmethod(time.monotonic)
        sleep = staticmethod(time.sleep)

        @staticmethod
        def monotonic_ns():
            return now[0]

    monkeypatch.setattr(limits, "time", Standing)
    return now


@pytest.fixture
def keyed(registry, promote, bundle):
    """A registry with a release and a key; gives its secret."""
    promote(registry, bundle())
    return registry.create_key("app")[1]


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def ask(service, secret, times, path="/v1/models"):
    return [service.client.get(path, headers=bearer(secret)).status_code for _ in range(times)]


def test_a_key_is_refused_until_the_time_that_it_is_told(serve, keyed, problem, clock):
    with serve(requests_per_minute=6, burst=3) as service:
        told = [service.client.get("/v1/models", headers=bearer(keyed)) for _ in range(3)]
        assert [one.status_code for one in told] == [200] * 3
        assert {one.headers["ratelimit-policy"] for one in told} == {'"key";q=3;w=30'}
        assert [one.headers["ratelimit"] for one in told] == [
            f'"key";r={2 - n};t={10 * n + 10}' for n in range(3)
        ]

        clock[0] += MINUTE // 20
        answer = service.diagnose(headers=bearer(keyed))
        said = problem(answer, 429)
        assert said["type"] == "urn:dermfed:problem:too-many-requests"
        assert "6 times a minute" in said["detail"]
        assert "ask again in 7 s" in said["detail"]
        assert answer.headers["retry-after"] == "7"
        assert answer.headers["ratelimit"] == '"key";r=0;t=27'
        assert answer.headers["ratelimit-policy"] == '"key";q=3;w=30'

        clock[0] += MINUTE // 60 * 7 - 1
        assert ask(service, keyed, 1) == [429]
        clock[0] += 1
        assert ask(service, keyed, 2) == [200, 429]


def test_nothing_is_read_of_an_upload_that_comes_too_often(serve, keyed):
    with serve(requests_per_minute=1, burst=1) as service:
        assert ask(service, keyed, 1) == [200]
        head = f"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {keyed}\r\n"
        rest = "Content-Type: image/jpeg\r\nContent-Length: 20000000\r\nExpect: 100-continue\r\n\r\n"
        assert service.raw((head + rest).encode()).startswith(b"HTTP/1.1 429 ")


def test_a_keys_own_rate_counts_before_the_services(serve, registry, keyed, clock):
    _, slow = registry.create_key("slow", per_minute=2)
    _, fast = registry.create_key("fast", per_minute=30)
    with serve(requests_per_minute=4, burst=20) as service:
        assert ask(service, slow, 4) == [200] * 2 + [429] * 2
        assert ask(service, keyed, 6) == [200] * 4 + [429] * 2
        assert ask(service, fast, 22) == [200] * 20 + [429] * 2
        clock[0] += MINUTE // 2
        assert ask(service, slow, 2) == [200, 429]


def test_a_request_for_something_else_than_the_key_is_for_counts_too(serve, registry, keyed, clock):
    _, reader = registry.create_key("reader", scopes=["read"])
    with serve(requests_per_minute=10, burst=3) as service:
        assert ask(service, reader, 4, "/metrics") == [403] * 3 + [429]
        assert service.diagnose(headers=bearer(reader)).status_code == 429
        assert ask(service, keyed, 1) == [200]


def test_this_machine_has_a_limit_where_one_is_set(serve, registry, promote, bundle, problem, clock):
    promote(registry, bundle())
    with serve(requests_per_minute=1, burst=5) as service:
        assert ask(service, "none", 20) == [200] * 20
    with serve(open_per_minute=3, burst=5) as service:
        assert ask(service, "none", 3) == [200] * 3
        said = problem(service.client.get("/v1/models"), 429)
        assert "this machine may ask 3 times a minute" in said["detail"]
        assert service.client.get("/livez").status_code == 200
        assert service.client.get("/readyz").status_code == 200


def test_guesses_run_out_and_good_keys_do_not(serve, keyed, registry, problem, clock):
    key, over = registry.create_key("over")
    registry.revoke_key(key.id)
    with serve() as service:
        assert ask(service, over, UNKNOWN_KEY_RATE.burst + 2) == [401] * (
            UNKNOWN_KEY_RATE.burst + 2
        )  # it is known
        assert ask(service, "", 5) == [401] * 5
        guesses = [f"dfk_{n:012x}_guess" for n in range(UNKNOWN_KEY_RATE.burst)]
        assert [ask(service, one, 1) for one in guesses] == [[401]] * UNKNOWN_KEY_RATE.burst
        answer = service.client.get("/v1/models", headers=bearer("dfk_another"))
        assert "keys that are not known" in problem(answer, 429)["detail"]
        assert answer.headers["retry-after"] == "2"
        assert "dfk_another" not in answer.text
        assert ask(service, keyed, 3) == [200] * 3
        assert ask(service, over, 1) == [401]
        clock[0] += MINUTE // 30
        assert ask(service, "guess", 2) == [401, 429]


def asked(host):
    return Request({"type": "http", "headers": [], "client": host and (host, 5)})


@pytest.mark.parametrize(
    ("host", "whose"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("::1", "::/64"),
        ("testclient", "testclient"),
        (None, ""),
    ],
)
def test_one_caller_has_one_address(host, whose):
    assert network_address(asked(host)) == whose


def test_each_of_several_workers_admits_its_share(serve, keyed, clock):
    with serve(requests_per_minute=6, burst=4, workers=2) as service:
        assert ask(service, keyed, 3) == [200] * 2 + [429]
        said = service.client.get("/v1/models", headers=bearer(keyed)).json()["detail"]
        assert "6 times a minute" in said, "of the key, whichever worker says so"
        clock[0] += MINUTE // 3
        assert ask(service, keyed, 2) == [200, 429]
