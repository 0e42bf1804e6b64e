"""A graph's map is probed like its other answers: what no honest map does is refused."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from registry.bundle.errors import GraphError
from registry.bundle.model import Graph, Promise
from registry.bundle.model_check import check_answers
from tests.map_graphs import SIZE, spot_graph

PROMISE = Promise(SIZE, 2)


def changed(change):
    """The graph of spots, with something changed of it."""
    model = onnx.load_from_string(spot_graph())
    change(model.graph)
    return model.SerializeToString()


def instead(graph, *nodes, **constants):
    """Nodes that make the map of `sound`, what it was."""
    graph.node[-1].output[0] = "sound"
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())


def of_the_batch(graph):
    mean = helper.make_node("ReduceMean", ["sound"], ["mean"], axes=[0], keepdims=1)
    instead(graph, mean, helper.make_node("Sub", ["sound", "mean"], ["map"]))


def not_finite(graph):
    divided = helper.make_node("Div", ["sound", "nothing"], ["map"])
    instead(graph, divided, nothing=np.zeros(1, np.float32))


def of_one_picture(graph):
    cut = helper.make_node("Slice", ["sound", "zero", "one", "zero"], ["map"])
    instead(graph, cut, zero=np.array([0]), one=np.array([1]))


def test_an_honest_map_passes():
    check_answers(Graph(spot_graph()), PROMISE)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (of_the_batch, "alone and among others, the graph answers map"),
        (not_finite, "map that are not finite"),
        (of_one_picture, "a map of shape"),
    ],
)
def test_a_map_that_no_model_may_tell_is_refused(change, why):
    with pytest.raises(GraphError, match=why):
        check_answers(Graph(changed(change)), PROMISE)
