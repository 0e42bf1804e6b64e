"""Which device is taken, and what is said of it."""

import logging

import pytest

from serving.inference.device.choosing import DeviceUnusable, choose_device
from serving.settings import ServeSettings
from tests.serving.inference.device.pretended import Pretended


def choose(providers, runtime, why_not=None, *, driver=False, **settings):
    """The device that is chosen where trying one says this."""
    tried = []

    def try_out(kind):
        tried.append(kind)
        return why_not

    device = choose_device(
        ServeSettings(providers=providers, **settings), runtime, try_out, has_driver=lambda: driver
    )
    return device, tried


def test_auto_takes_the_gpu_that_works_and_says_why(caplog):
    caplog.set_level(logging.INFO, "dermfed.serve")
    device, tried = choose("auto", Pretended("tensorrt", "cuda"), device_bytes=2**30)
    assert (device.kind, device.health_issue, device.device_bytes) == ("cuda", None, 2**30)
    assert tried == ["cuda"]  # TensorRT is taken by name alone
    assert "models run on a GPU (CUDA): a small graph ran on it" in caplog.text


def test_auto_takes_the_processor_where_nothing_speaks_of_a_gpu_and_nobody_is_alarmed(caplog):
    caplog.set_level(logging.INFO, "dermfed.serve")
    device, tried = choose("auto", Pretended())
    assert (device.kind, device.health_issue, tried) == ("cpu", None, [])
    assert [one.levelname for one in caplog.records] == ["INFO"]


def test_a_gpu_without_a_driver_falls_back_loudly(caplog):
    device, tried = choose("auto", Pretended("cuda"), "CUDA failure 35: the driver is insufficient")
    assert (device.kind, tried) == ("cpu", ["cuda"])
    for told in (device.health_issue, caplog.text):
        assert "models run on the processor" in told
        assert "CUDA failure 35" in told
        assert "DERMFED_SERVE_PROVIDERS=cpu" in told
    assert [one.levelname for one in caplog.records] == ["ERROR"]


def test_a_gpu_that_the_installed_runtime_knows_nothing_of_is_told_too():
    device, _ = choose("auto", Pretended(), driver=True)
    assert device.kind == "cpu"
    assert "knows no cuda" in device.health_issue
    assert "dermfed[serve-gpu]" in device.health_issue


@pytest.mark.parametrize("kind", ["cuda", "tensorrt", "cpu"])
def test_one_that_is_named_and_works_is_taken(kind):
    device, tried = choose(kind, Pretended("cuda", "tensorrt"), driver=True)
    assert (device.kind, device.health_issue) == (kind, None)
    assert tried == ([] if kind == "cpu" else [kind])
    assert repr(kind) in device.why


@pytest.mark.parametrize(
    ("kind", "runtime", "why"),
    [
        ("cuda", Pretended(), "knows CPUExecutionProvider alone"),
        ("cuda", Pretended("cuda"), "libcublasLt.so.13"),
        ("tensorrt", Pretended("cuda"), "knows CUDAExecutionProvider, CPUExecutionProvider alone"),
        ("tensorrt", Pretended("cuda", "tensorrt"), "libcublasLt.so.13"),
    ],
)
def test_one_that_is_named_and_does_not_work_ends_the_start_and_says_what_to_do(kind, runtime, why):
    with pytest.raises(DeviceUnusable) as refused:
        choose(kind, runtime, "libcublasLt.so.13: cannot open shared object file")
    for part in (f"DERMFED_SERVE_PROVIDERS is '{kind}'", why, "dermfed[serve-gpu]", "'auto'", "'cpu'"):
        assert part in str(refused.value)
