"""Both clients against the real service, by the same tests."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from clients.api import errors
from tests.case_bundles import case_bundle
from tests.clients.both_clients import NAMES, connector, told_apart
from tests.serving.conftest import (
    DARK,
    LIGHT,
    MODEL,
    Places,
    Service,
    draw_bundle,
    encode,
    paint,
    release,
    running,
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """A registry with a release for everybody, for light and for dark skin."""
    made = Places(tmp_path_factory.mktemp("registry"))
    with made.open() as registry:
        release(registry, draw_bundle(), draw_bundle(LIGHT), draw_bundle(DARK))
    return made


@pytest.fixture(scope="module")
def service(places: Places) -> Iterator[Service]:
    with running(places.open, max_bytes=200_000, max_pixels=1000) as started:
        yield started


@pytest.fixture(params=NAMES, ids=told_apart)
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes a client for a service: of the one kind, and of the other."""
    with start_blocking_portal("asyncio") as portal:

        @contextmanager
        def make(service: Service, *arguments: Any, **settings: Any) -> Iterator[Any]:
            with connector(request.param, portal)(service.url, *arguments, **settings) as client:
                yield client

        yield make


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_a_picture_is_diagnosed(service, connect, form):
    picture = encode(paint(), form)
    with connect(service) as client:
        diagnosis = client.diagnose(picture, skin_tone="VI", top=2)
    said = service.diagnose(picture, f"image/{form.lower()}", params={"skin_tone": "6", "top": 2}).json()
    given = diagnosis.model_dump(mode="json", exclude_unset=True)
    left_out = {"id", "created"}
    assert {name: value for name, value in given.items() if name not in left_out} == {
        name: value for name, value in said.items() if name in given and name not in left_out
    }
    assert (diagnosis.model.subgroup, diagnosis.model.route, len(diagnosis.findings)) == (
        "dark",
        "declared",
        2,
    )


def test_a_path_is_read(service, connect, tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(encode(paint()))
    with connect(service) as client:
        assert client.diagnose(path).model.route == client.diagnose(str(path)).model.route == "unknown-tone"


@pytest.mark.parametrize(
    ("picture", "parameters", "error", "says"),
    [
        (encode(paint())[:400], {}, errors.BadRequest, "end early"),
        (encode(paint(size=(40, 30))), {}, errors.TooLarge, "1,200 pixels"),
        (encode(paint(), "JPEG") + b"\0" * 200_000, {}, errors.TooLarge, "200,000 bytes"),
        (
            encode(paint(), "PNG", save_all=True, append_images=[paint((1, 2, 3))]),
            {},
            errors.UnsupportedType,
            "animated",
        ),
        (encode(paint()), {"skin_tone": "7"}, errors.InvalidParameter, "not on the scale"),
        (encode(paint()), {"skin_tone": 3, "skin_tone_scale": "x"}, errors.InvalidParameter, "'x'"),
        (encode(paint()), {"top": 0}, errors.InvalidParameter, "from 1 to"),
        (encode(paint()), {"model": "skin-lesions"}, errors.NotFound, MODEL),
    ],
    ids=["cut", "pixels", "bytes", "animated", "tone", "scale", "top", "model"],
)
def test_a_refusal_is_a_typed_error_that_says_why(service, connect, picture, parameters, error, says):
    with connect(service) as client, pytest.raises(error, match=says) as caught:
        client.diagnose(picture, **parameters)
    assert caught.value.type.startswith("urn:dermfed:problem:")
    assert caught.value.request_id


def test_models_and_cards(service, connect):
    with connect(service) as client:
        assert client.models() == service.client.get("/v1/models").json()
        assert client.card(MODEL) == service.client.get(f"/v1/models/{MODEL}/card").json()
        assert client.ready() is True
        with pytest.raises(errors.NotFound, match=MODEL):
            client.card("skin lesion?")


def test_keys(connect, tmp_path):
    places = Places(tmp_path / "registry")
    with places.open() as registry:
        release(registry, draw_bundle())
        secret = registry.create_key("app")[1]
        with running(places.open) as service:
            with connect(service, secret) as client:
                assert client.diagnose(encode(paint())).decision
            for wrong in (None, secret[:-1] + "x"):
                with connect(service, wrong) as client:
                    with pytest.raises(errors.Unauthorized, match="API key") as caught:
                        client.diagnose(encode(paint()))
                    assert str(wrong) not in str(caught.value)
                    assert client.ready() is True


def test_a_key_that_asks_too_often_waits_as_long_as_it_is_told(connect, tmp_path, monkeypatch):
    places, waits, now = Places(tmp_path / "registry"), [], [time.monotonic_ns()]
    monkeypatch.setattr("serving.access.gcra.time", SimpleNamespace(monotonic_ns=lambda: now[0]))

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += round(seconds * 1e9)

    with places.open() as registry:
        release(registry, draw_bundle())
        secret = registry.create_key("app", per_minute=60)[1]
        rare = registry.create_key("rare", per_minute=1)[1]
        with running(places.open, burst=1) as service:
            with connect(service, secret, sleep=wait) as client:
                assert [client.diagnose(encode(paint())).model.version for _ in range(2)] == [1, 1]
            with connect(service, rare, retries=0) as client:
                client.diagnose(encode(paint()))
                with pytest.raises(errors.TooManyRequests):
                    client.diagnose(encode(paint()))
    assert len(waits) == 1
    assert 1 <= waits[0] < 3


def test_a_service_without_a_model_is_waited_for_as_long_as_it_asks(connect, tmp_path):
    places, waits = Places(tmp_path / "registry"), []
    with places.open() as registry, running(places.open) as service:

        def promote(seconds: float) -> None:
            """The first wait is when somebody promotes a model."""
            if not waits:
                release(registry, draw_bundle())
                service.eventually(lambda: service.client.get("/readyz").status_code == 200)
            waits.append(seconds)

        with connect(service, sleep=promote) as client:
            assert client.ready() is False
            assert client.diagnose(encode(paint())).model.version == 1
    assert len(waits) == 1
    assert waits[0] >= 5  # its Retry-After


def test_a_service_that_stays_without_a_model_is_given_up(connect, tmp_path):
    waits: list[float] = []
    with (
        running(Places(tmp_path / "registry").open) as service,
        connect(service, retries=2, sleep=waits.append) as client,
        pytest.raises(errors.Unavailable, match="promoted to production"),
    ):
        client.diagnose(encode(paint()))
    assert len(waits) == 2


@pytest.fixture(scope="module")
def of_cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    places = Places(tmp_path_factory.mktemp("cases"))
    with places.open() as registry:
        release(registry, case_bundle())
    with running(places.open) as started:
        yield started


def test_a_case_is_sent_whole(of_cases, connect, tmp_path):
    close, derm = encode(paint(), "PNG"), encode(paint((90, 160, 40)))
    (tmp_path / "derm.jpg").write_bytes(derm)
    with connect(of_cases) as client:
        diagnosis = client.diagnose(
            close_up=close,
            dermoscopic=tmp_path / "derm.jpg",
            facts={"age": 70, "site": "back", "sex": None},
            skin_tone="V",
            top=2,
        )
        alone = client.diagnose(dermoscopic=derm)
        assert client.diagnose(close).inputs.pictures == ("unknown",)
    assert diagnosis.inputs.pictures == ("close-up", "dermoscopic")
    assert diagnosis.inputs.facts == {"age": "70", "site": "trunk"}
    assert diagnosis.inputs.promised
    assert diagnosis.would_help[0].missing == ("sex",)
    assert len(diagnosis.findings) == 2
    assert any("skin tone 5" in warning for warning in diagnosis.warnings)
    form = of_cases.form(
        {"age": "70", "site": "trunk", "skin_tone": "5", "top": "2"},
        files={"close_up": ("a", close, "image/png"), "dermoscopic": ("b", derm, "image/jpeg")},
    ).json()
    assert [one.probability for one in diagnosis.findings] == [one["probability"] for one in form["findings"]]
    assert alone.inputs.pattern == "dermoscopic"


def test_what_a_model_does_not_take_is_an_invalid_parameter(of_cases, service, connect):
    picture = encode(paint())
    with connect(of_cases) as client:
        with pytest.raises(errors.InvalidParameter, match="age 700 is out of bounds"):
            client.diagnose(picture, facts={"age": 700})
        with pytest.raises(errors.InvalidInput, match="there is no picture"):
            client.diagnose(facts={"age": 70})
        with pytest.raises(errors.InvalidInput, match="top is no fact"):
            client.diagnose(picture, facts={"top": 1})
    with connect(service) as client:
        assert client.diagnose(picture).inputs is None
        with pytest.raises(errors.InvalidParameter, match="takes one picture"):
            client.diagnose(close_up=picture)


def test_no_fact_is_in_the_address_that_is_asked(of_cases, connect, caplog):
    with caplog.at_level("INFO"), connect(of_cases) as client:
        client.diagnose(encode(paint()), facts={"age": 83.0625}, skin_tone="5")
        client.diagnose(encode(paint()), skin_tone="5")
    asked = [one.getMessage() for one in caplog.records if one.name == "httpx"]
    assert len(asked) == 2
    assert "skin_tone=5" in asked[1]  # an address that is asked is in these lines
    assert "83" not in asked[0].replace(str(of_cases.port), "")
    assert "age" not in asked[0]
