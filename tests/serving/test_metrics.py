import re

import pytest


@pytest.fixture
def counted(serve, registry, promote, bundle, light):
    promote(registry, bundle(), bundle(light))
    with serve() as service:
        yield service


def series(service):
    """Every sample, by its name with its labels."""
    text = service.client.get("/metrics").text
    found = (re.fullmatch(r"(\S+?(?:\{.*\})?) (\S+)", line) for line in text.splitlines() if line[0] != "#")
    return {one[1]: float(one[2]) for one in found}


def of(found, name):
    return {key.removeprefix(name): value for key, value in found.items() if key.startswith(name + "{")}


def test_requests_and_diagnoses_are_counted_by_route_and_decision(counted, picture):
    sure, unsure = picture(), picture("PNG", colour=(90, 90, 90))
    counted.diagnose(sure)
    counted.diagnose(sure)
    counted.diagnose(sure, params={"skin_tone": "1"})
    counted.diagnose(sure, params={"skin_tone": "5"})
    counted.diagnose(unsure, "image/png")
    counted.diagnose(picture(size=(2, 2)), params={"skin_tone": "1", "skin_tone_scale": "monk"})
    counted.diagnose(b"nothing")
    counted.client.get("/v1/models/skin-lesion/card")
    counted.client.get("/v1/models/other/card")
    counted.client.delete("/v1/models")
    found = series(counted)
    labels = 'model="skin-lesion",'
    assert of(found, "dermfed_diagnoses_total") == {
        f'{{decision="report",{labels}route="unknown-tone",subgroup="global",version="1"}}': 2,
        f'{{decision="report",{labels}route="declared",subgroup="light",version="2"}}': 1,
        f'{{decision="report",{labels}route="no-model-for-subgroup",subgroup="global",version="1"}}': 1,
        f'{{decision="refer",{labels}route="unknown-tone",subgroup="global",version="1"}}': 1,
        f'{{decision="retake",{labels}route="other-scale",subgroup="global",version="1"}}': 1,
    }
    assert of(found, "dermfed_requests_total") == {
        '{method="POST",path="/v1/diagnoses",status="200"}': 6,
        '{method="POST",path="/v1/diagnoses",status="400"}': 1,
        '{method="GET",path="/v1/models/{name}/card",status="200"}': 1,
        '{method="GET",path="/v1/models/{name}/card",status="404"}': 1,
        '{method="DELETE",path="/v1/models",status="405"}': 1,
    }
    assert of(found, "dermfed_request_seconds_count") == {
        '{path="/v1/diagnoses"}': 7,
        '{path="/v1/models/{name}/card"}': 2,
        '{path="/v1/models"}': 1,
    }


def test_no_caller_makes_the_series_grow(counted):
    counted.client.get("/nothing")
    counted.client.request("BREW", "/v1/models")
    before = series(counted)
    before = series(counted)  # the first look has been counted itself
    for n in range(1000):
        assert counted.client.get(f"/nothing/{n}?{n}").status_code == 404
    for n in range(20):
        counted.client.request(f"BREW{n}", "/v1/models")
        counted.client.get(f"/v1/models/{n}/card")
    after = series(counted)
    new = {name for name in set(after) - set(before) if "/card" not in name}
    assert new == set()
    unknown = '{method="GET",path="other",status="404"}'
    assert of(after, "dermfed_requests_total")[unknown] == 1001
    assert of(after, "dermfed_requests_total")['{method="other",path="/v1/models",status="405"}'] == 21


def test_they_are_in_prometheus_own_format(counted):
    answer = counted.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE dermfed_diagnoses_total counter" in answer.text
