"""What only a GPU can show; skipped where there is none, or no ONNX Runtime that knows one."""

import gc
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from registry.bundle.errors import GraphError
from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.manifest.schema import ModelFile
from registry.bundle.model_file.graph import Graph
from registry.bundle.model_file.probe_answers import TOLERANCE
from registry.bundle.pictures.rule import PictureRule
from serving.inference.device.batching import Batching
from serving.inference.device.choosing import DRIVER, choose_device
from serving.inference.device.device import Device
from serving.inference.device.kinds import PROVIDER
from serving.inference.device.models import Models
from serving.inference.device.runtime import OnnxRuntime
from serving.inference.device.trial import try_apart
from serving.settings import ServeSettings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        PROVIDER["cuda"] not in OnnxRuntime().available() or not any(path.exists() for path in DRIVER),
        reason="no GPU, or an ONNX Runtime that knows none",
    ),
]

SIZE = 64
MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def network(bundle) -> Bundle:
    """A bundle with a ResNet-18 of random weights."""
    pytest.importorskip("torch")
    from training.models import ModelConfig, build_model
    from training.models.export import export_graph

    content = export_graph(build_model(ModelConfig(name="resnet18", weights="none"), 3, 0), SIZE)
    given = {"file": ModelFile.of(content), "picture": PictureRule(size=SIZE)}
    manifest = bundle().manifest.model_copy(update=given)
    return Bundle(manifest, content, bundle_digest(manifest))


def load(network, **parts):
    """It, on the GPU."""
    return Models(Device("cuda", **parts), batching=Batching(16)).load(network.model, network.manifest).graph


def memory_used() -> int:
    """Bytes of the first GPU that are taken."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) * MEBIBYTE


def test_it_works_and_is_what_auto_takes():
    assert try_apart("cuda") is None
    device = choose_device(ServeSettings())
    assert (device.kind, device.health_issue) == ("cuda", None)


def test_batches_of_every_size_are_answered_as_on_the_processor(network):
    on_gpu, on_processor = load(network), Graph(network.model)
    pictures = np.random.default_rng(0).integers(0, 256, (16, SIZE, SIZE, 3), dtype=np.uint8)
    expected = on_processor.run(pictures)
    for count in (1, 3, 5, 16):
        found = on_gpu.run(pictures[:count])
        np.testing.assert_allclose(found.probabilities, expected.probabilities[:count], atol=TOLERANCE)


def test_every_node_of_a_network_runs_on_it(network, caplog):
    load(network)
    assert "do not run on" not in caplog.text


def test_threads_that_ask_at_once_get_their_own_answers(network):
    graph = load(network)
    pictures = np.random.default_rng(1).integers(0, 256, (64, 1, SIZE, SIZE, 3), dtype=np.uint8)
    alone = [graph.run(one).logits for one in pictures]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda one: graph.run(one).logits, pictures))
    np.testing.assert_allclose(np.concatenate(together), np.concatenate(alone), rtol=1e-3, atol=1e-4)


def test_its_memory_is_given_back(network):
    load(network)
    gc.collect()
    before = memory_used()
    for _ in range(8):
        load(network)
        gc.collect()
    assert memory_used() <= before + 64 * MEBIBYTE  # one of them takes as much


def test_too_little_memory_is_refused_at_load(network):
    with pytest.raises(GraphError):
        load(network, device_bytes=MEBIBYTE)
