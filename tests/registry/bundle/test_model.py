import os
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto

from registry.bundle.errors import GraphError
from registry.bundle.model import Graph
from tests.closeness import assert_close_in_norm

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
WEIGHTS = np.array([[0.01, -0.02], [0.03, 0.01], [-0.01, 0.02]])


def test_it_answers_what_the_network_computes(onnx_graph):
    outputs = Graph(onnx_graph(weights=WEIGHTS)).run(IMAGES)
    embedding = IMAGES.astype(np.float64).mean(axis=(1, 2))
    logits = embedding @ WEIGHTS
    odds = np.exp(logits)
    assert_close_in_norm(outputs.embedding, embedding)
    assert_close_in_norm(outputs.logits, logits)
    assert_close_in_norm(outputs.probabilities, odds / odds.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"input_name": "image"}, "takes image tensor"),
        ({"input_type": TensorProto.FLOAT}, r"takes images tensor\(float\)"),
        ({"input_shape": (4, 8, 8, 3)}, "free batch"),
        ({"input_shape": ("batch", 8, 9, 3)}, "size, size, 3"),
        ({"input_shape": ("batch", 8, 8, 4)}, "size, size, 3"),
        ({"input_shape": ("batch", "height", "width", 3)}, "size, size, 3"),
        ({"outputs": ("probabilities", "logits")}, "answers probabilities, logits, embedding"),
    ],
)
def test_another_graph_is_refused(onnx_graph, broken, message):
    with pytest.raises(GraphError, match=message):
        Graph(onnx_graph(**broken))


@pytest.mark.parametrize("place", ["weights.bin", "../weights.bin", "/etc/hostname"])
def test_weights_in_another_file_are_refused_even_where_the_file_is(onnx_graph, tmp_path, monkeypatch, place):
    WEIGHTS.astype(np.float32).tofile(tmp_path / "weights.bin")
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner" if place.startswith("..") else tmp_path)
    with pytest.raises(GraphError, match="weights in other files"):
        Graph(onnx_graph(external=place))


@pytest.mark.parametrize(
    "images", [IMAGES.astype(np.float32), IMAGES[:, :4], IMAGES[0], IMAGES.transpose(0, 3, 1, 2)]
)
def test_other_pictures_are_refused(onnx_graph, images):
    with pytest.raises(GraphError, match=r"uint8 of shape \(batch, 8, 8, 3\)"):
        Graph(onnx_graph()).run(images)


def test_answers_that_are_not_finite_are_refused(onnx_graph):
    graph = Graph(onnx_graph(weights=np.full((3, 2), np.inf)))
    with pytest.raises(GraphError, match="not finite"):
        graph.run(IMAGES)


def test_nothing_is_told_to_anybody_and_nothing_is_left_in_the_users_folder(onnx_graph, tmp_path):
    """ONNX Runtime would open a socket to its makers and number the device, unless told otherwise."""
    (tmp_path / "model.onnx").write_bytes(onnx_graph())
    script = (
        "import sys; from pathlib import Path; from registry.bundle.model import Graph;"
        "Graph(Path(sys.argv[1]).read_bytes())"
    )
    home = tmp_path / "home"
    home.mkdir()
    # Its makers leave test and build machines alone: a hospital's is neither.
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "VIRTUAL_ENV")}
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "model.onnx")],
        check=True,
        env={**kept, "HOME": str(home)},
    )
    assert list(home.rglob("*")) == []


def test_a_loaded_graph_does_not_hold_the_bytes_of_its_file(onnx_graph):
    content = onnx_graph()
    before = sys.getrefcount(content)
    graph = Graph(content)
    assert sys.getrefcount(content) == before
    assert graph.size
