"""Releases whose models run on a GPU that pretends: what answers, what is refused, and what is told."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from serving.inference.device.choosing import choose_device
from serving.inference.device.device import Device
from serving.inference.device.models import Models
from serving.metrics.metrics import Metrics
from serving.releases.current_release import CurrentRelease
from serving.settings import ServeSettings
from tests.serving.inference.device.pretended import Pretended

MODEL = "skin-lesion"
GREY = np.full((1, 8, 8, 3), 128, np.uint8)


@pytest.fixture
def runtime():
    """An ONNX Runtime that pretends to have a GPU."""
    return Pretended("cuda")


@pytest.fixture
def following(registry, promote, bundle, runtime, monkeypatch):
    """What follows a registry with a first release, on that GPU, and is polled by hand alone."""
    monkeypatch.setattr(CurrentRelease, "_poll_until_closed", lambda self: None)
    promote(registry, bundle())
    settings = ServeSettings(max_batch=2)
    models = Models.of(settings, Device("cuda", runtime=runtime))
    return CurrentRelease(registry, settings, Metrics(), models=models)


def numbers(following):
    """The numbers of the versions that answer."""
    return [one.version.number for one in following.served.releases[MODEL].versions.values()]


def test_a_release_that_answers_otherwise_on_the_device_is_refused_and_the_one_before_answers_on(
    following, runtime, registry, promote, bundle
):
    runtime.error = 0.01
    promote(registry, bundle(seed=1))
    following.refresh()
    assert numbers(following) == [1]
    issue = following.served.health_issues[MODEL]
    assert "cannot be served" in issue
    assert "differ by up to 0.0" in issue
    (loaded,) = following.served.releases[MODEL].versions.values()
    runtime.error = 0.0
    assert np.isfinite(loaded.graph.run(GREY).logits).all()


def test_a_gpu_whose_memory_is_full_refuses_the_next_release_alone(
    following, runtime, registry, promote, bundle
):
    runtime.refuses = "CUDA failure 2: out of memory"
    promote(registry, bundle(seed=1))
    following.refresh()
    assert numbers(following) == [1]
    assert "out of memory" in following.served.health_issues[MODEL]


def test_a_version_has_run_on_the_device_before_it_answers(following, runtime):
    assert numbers(following) == [1]
    assert runtime.ran[:2] == [1, 2]


def test_the_device_holds_nothing_of_a_version_that_has_gone(following, runtime, registry, promote, bundle):
    promote(registry, bundle(seed=1))
    following.refresh()
    following.refresh()
    gc.collect()
    assert numbers(following) == [2]
    assert len(runtime.sessions) == 1


@pytest.fixture
def fallen_back(monkeypatch):
    """Lets services find a GPU that does not work."""
    runtime = Pretended("cuda")
    monkeypatch.setattr(
        "serving.state.choose_device",
        lambda settings: choose_device(settings, runtime, lambda kind: "CUDA failure 35"),
    )


def test_a_service_that_fell_back_answers_and_says_so_to_its_operator(
    fallen_back, serve, registry, promote, bundle
):
    promote(registry, bundle())
    with serve() as service:
        assert service.diagnose().status_code == 200
        ready = service.client.get("/readyz").json()
        assert ready["status"] == "degraded"
        assert any("CUDA failure 35" in one for one in ready["troubles"])
        told = 'dermfed_device_workers{device="cpu",wanted="auto"} 1.0'
        assert told in service.client.get("/metrics").text
        assert "CUDA failure 35" in service.client.get("/operator").text


def test_a_service_on_a_gpu_answers_as_one_on_the_processor(
    serve, registry, promote, bundle, runtime, monkeypatch
):
    promote(registry, bundle())
    with serve() as service:
        expected = service.diagnose().json()["findings"]
    monkeypatch.setattr(
        "serving.state.choose_device", lambda settings: choose_device(settings, runtime, lambda kind: None)
    )
    with serve(providers="cuda") as service:
        assert service.diagnose().json()["findings"] == expected
        assert "Models run on a GPU (CUDA)" in service.client.get("/operator").text
        told = 'dermfed_device_workers{device="cuda",wanted="cuda"} 1.0'
        assert told in service.client.get("/metrics").text
    assert runtime.ran


def test_a_crowd_on_a_gpu_gets_the_answers_that_each_would_get_alone(
    serve, registry, promote, bundle, picture, runtime, monkeypatch
):
    promote(registry, bundle())
    sent = [picture(colour=(20 * number, 90, 250 - 20 * number)) for number in range(12)]
    with serve() as service:
        expected = [service.diagnose(one).json()["findings"] for one in sent]
    monkeypatch.setattr(
        "serving.state.choose_device", lambda settings: choose_device(settings, runtime, lambda kind: None)
    )
    with serve(providers="cuda", threads=3, max_batch=4) as service, ThreadPoolExecutor(12) as callers:
        answers = list(callers.map(service.diagnose, sent))
    for answer, findings in zip(answers, expected, strict=True):
        found = answer.json()["findings"]
        assert [one["code"] for one in found] == [one["code"] for one in findings]
        np.testing.assert_allclose(
            [one["probability"] for one in found], [one["probability"] for one in findings], atol=1e-6
        )
    assert runtime.most_at_once == 1
    assert max(runtime.ran) <= 4
