"""A graph's map is probed like its other answers: what no honest map does is refused.

What people are shown of a map lies on the part of the picture, as it was sent, that it speaks of.
"""

import io

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from PIL import Image

from registry.bundle.errors import GraphError
from registry.bundle.model import Graph, Promise
from registry.bundle.model_check import check_answers
from registry.bundle.pictures.rule import PictureRule, decode_picture, overlay_png, placement, relevance
from tests.map_graphs import GRID, SIZE, spot_graph

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


ORIENTATION = 0x0112


def with_a_spot(width, height, x, y, orientation):
    """A picture as it is looked at, with a red spot, saved so that EXIF asks for a turn; and its bytes."""
    upright = Image.new("RGB", (width, height), (150, 150, 150))
    upright.paste((230, 40, 40), (x, y, x + 40, y + 40))
    back = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        6: Image.Transpose.ROTATE_90,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    stored = upright if back is None else upright.transpose(back)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    file = io.BytesIO()
    stored.save(file, format="PNG", exif=exif)
    return file.getvalue()


@pytest.mark.parametrize("orientation", [1, 2, 3, 6, 8])
@pytest.mark.parametrize(
    ("fit", "size", "spot"),
    [
        ("squash", (400, 200), (20, 150)),
        ("squash", (200, 400), (150, 20)),
        ("crop", (400, 200), (120, 150)),
        ("crop", (200, 400), (10, 120)),
    ],
)
def test_the_overlay_lies_on_the_spot_that_the_answer_hangs_on(fit, size, spot, orientation):
    content = with_a_spot(*size, *spot, orientation)
    rule = PictureRule(size=SIZE, fit=fit)
    outputs = Graph(spot_graph()).run(decode_picture(content, rule)[None], with_map=True)
    grid = relevance(outputs.map[:, int(outputs.probabilities[0].argmax())])[0]
    overlay = Image.open(io.BytesIO(overlay_png(grid, placement(*size, rule)))).convert("RGBA").resize(size)
    opacity = np.asarray(overlay.getchannel("A")).astype(float)
    y, x = np.unravel_index(opacity.argmax(), opacity.shape)
    cell = min(size) / GRID if fit == "crop" else np.array(size) / GRID
    offset = np.abs(np.array([x, y]) - (np.array(spot) + 20))
    assert np.all(offset <= cell), (offset, cell)
    # As much strength lies left of the spot's middle as right of it, to a cell.
    middle = np.array([opacity.sum(0) @ np.arange(size[0]), opacity.sum(1) @ np.arange(size[1])])
    assert np.all(np.abs(middle / opacity.sum() - np.array(spot) - 20) <= cell)


def test_what_speaks_against_a_class_is_not_shown_and_pictures_share_a_scale():
    grids = np.array([[[2.0, -3.0]], [[1.0, 0.0]]], np.float32)
    np.testing.assert_allclose(relevance(grids), [[[1, 0]], [[0.5, 0]]])
    assert not relevance(-np.abs(grids)).any()
