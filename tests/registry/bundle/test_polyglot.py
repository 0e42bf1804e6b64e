"""A file that is harmless ONNX to us and another model to ONNX Runtime: read as one thing, and refused."""

import numpy as np
import onnxruntime
import pytest

from registry.bundle.errors import GraphError
from registry.bundle.model import Graph
from registry.bundle.model_check import check_header, read_header
from registry.errors import BundleRefused
from tests.registry.polyglot import ort_format, two_models

PICTURES = np.full((1, 8, 8, 3), 100, np.uint8)
EVEN, ALWAYS_THE_SECOND = np.zeros((3, 3)), np.array([[0.0, 1.0, 0.0]] * 3)


@pytest.fixture
def polyglot(onnx_graph):
    return two_models(onnx_graph(weights=EVEN), ort_format(onnx_graph(weights=ALWAYS_THE_SECOND)))


def test_to_the_header_it_is_the_one_and_to_a_bare_runtime_the_other(polyglot, onnx_graph):
    assert read_header(polyglot) == read_header(onnx_graph(weights=EVEN))
    bare = onnxruntime.InferenceSession(polyglot, providers=["CPUExecutionProvider"])
    (answered,) = bare.run(["probabilities"], {"images": PICTURES})
    assert answered[0, 1] > 0.99


def test_our_graph_is_the_one_that_the_header_tells_of(polyglot):
    assert np.allclose(Graph(polyglot).run(PICTURES).probabilities, 1 / 3)


@pytest.mark.parametrize("alone", [True, False])
def test_what_begins_as_the_runtimes_own_format_is_refused_at_the_header(polyglot, onnx_graph, alone):
    with pytest.raises(GraphError, match=r"ONNX Runtime's own format \(ORTM\).* give the ONNX file"):
        check_header(ort_format(onnx_graph()) if alone else polyglot)


@pytest.mark.sqlite
def test_it_becomes_no_version(registry, bundle, polyglot):
    with pytest.raises(BundleRefused, match=r"ONNX Runtime's own format"):
        registry.add([bundle(graph=polyglot)])
    assert registry.versions() == ()
