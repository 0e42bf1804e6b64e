"""The device that models run on, over an ONNX Runtime that pretends to know a GPU."""

from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

from registry.bundle.errors import GraphError
from registry.bundle.model import PROCESSOR, Graph, open_session
from serving.inference import device as module
from serving.inference.device import PROVIDER, Device, DeviceUnusable
from serving.settings import ServeSettings

PICTURES = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)


@pytest.fixture
def runtime(monkeypatch):
    """An ONNX Runtime that was built for GPUs: `took` is what a session gets, None for what it asked for."""
    pretended = SimpleNamespace(
        known=[PROVIDER["tensorrt"], PROVIDER["cuda"], PROCESSOR], took=None, raises=None, asked=[]
    )

    def opened(content, threads, providers):
        pretended.asked.append(dict(providers))
        if pretended.raises is not None:
            raise GraphError(pretended.raises)
        session = open_session(content, threads)
        return SimpleNamespace(
            get_inputs=session.get_inputs,
            get_outputs=session.get_outputs,
            run=session.run,
            get_providers=lambda: [*(pretended.took or dict(providers))],
        )

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: pretended.known)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: print("a library is missing"), raising=False)
    monkeypatch.setattr(module, "open_session", opened)
    return pretended


@pytest.mark.parametrize("kind", ["cuda", "tensorrt"])
def test_a_model_runs_on_the_provider_that_is_asked_for(runtime, bundle, capsys, kind):
    device = Device.of(ServeSettings(providers=kind, device_bytes=2**28, lone_threads=2))
    device.require()
    graph, lone_graph = device.load(bundle().model)
    assert lone_graph is None
    np.testing.assert_array_equal(graph.run(PICTURES).logits, Graph(bundle().model).run(PICTURES).logits)
    asked = runtime.asked[-1]
    assert next(iter(asked)) == PROVIDER[kind]
    assert next(reversed(asked)) == PROCESSOR
    assert asked[PROVIDER["cuda"]]["use_tf32"] == "0"
    assert asked[PROVIDER["cuda"]]["gpu_mem_limit"] == str(2**28)
    assert capsys.readouterr().out == ""


def test_on_the_processor_a_picture_that_is_alone_has_several_threads(bundle):
    Device().require()
    assert Device().load(bundle().model)[1] is None
    assert Device(lone_threads=2).load(bundle().model)[1] is not None
    assert 1 <= ServeSettings().lone_threads <= 4


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"known": [PROCESSOR], "took": [PROCESSOR]}, "knows CPUExecutionProvider alone"),
        ({"took": [PROCESSOR]}, "took CPUExecutionProvider in place of CUDAExecutionProvider"),
        ({"raises": "CUDA failure 35"}, "CUDA failure 35"),
    ],
)
def test_one_that_does_not_run_here_is_refused_and_nothing_is_loaded(runtime, bundle, parts, why):
    vars(runtime).update(parts)
    device = Device("cuda")
    with pytest.raises(DeviceUnusable, match=why) as refused:
        device.require()
    for part in ("DERMFED_SERVE_PROVIDERS is 'cuda'", "dermfed[serve-gpu]", "'cpu'"):
        assert part in str(refused.value)
    with pytest.raises(GraphError):
        device.load(bundle().model)


@pytest.mark.gpu
@pytest.mark.skipif(
    PROVIDER["cuda"] not in onnxruntime.get_available_providers(), reason="an ONNX Runtime that knows no GPU"
)
def test_a_gpu_answers_as_the_processor(bundle):
    Device("cuda").require()
    on_gpu, on_processor = Device("cuda").load(bundle().model)[0], Graph(bundle().model)
    for count in (1, 2, 3):
        found, expected = on_gpu.run(PICTURES[:count]), on_processor.run(PICTURES[:count])
        np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=0.001)
