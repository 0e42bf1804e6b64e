"""A graph that tells red spots from green ones, with a map that is known by hand, or one that lies."""

from typing import Literal

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SIZE, GRID, FEATURES = 32, 4, 16

Truth = Literal["honest", "inverted", "nothing"]


def spot_graph(truth: Truth = "honest", classes: int = 2) -> bytes:
    """Red minus green, and green minus red, of each cell; a class adds up its own over all cells.

    Args:
        truth: whether the map says where that was, where it was least, or is the same everywhere.
        classes: red, green, and some that nothing speaks for.
    """
    encoder = np.zeros((FEATURES, 3, 1, 1), np.float32)
    encoder[: FEATURES // 2, :2, 0, 0] = 1, -1
    encoder[FEATURES // 2 :, :2, 0, 0] = -1, 1
    head = np.zeros((FEATURES, classes), np.float32)
    head[: FEATURES // 2, 0] = head[FEATURES // 2 :, 1] = 8
    centred = (head - head.mean(axis=1, keepdims=True)).T[:, :, None, None]
    sign = {"honest": 1, "inverted": -1, "nothing": 0}[truth]
    constants = {
        "scale": np.array([1 / 255], np.float32),
        "encoder": encoder,
        "head": head,
        "centred": np.ascontiguousarray(sign * centred),
    }
    nodes = [
        helper.make_node("Cast", ["images"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["numbers", "scale"], ["scaled"]),
        helper.make_node("Transpose", ["scaled"], ["pixels"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["pixels", "encoder"], ["contrasts"]),
        helper.make_node("Relu", ["contrasts"], ["fine"]),
        helper.make_node(
            "AveragePool", ["fine"], ["cells"], kernel_shape=[SIZE // GRID] * 2, strides=[SIZE // GRID] * 2
        ),
        helper.make_node("ReduceMean", ["cells"], ["embedding"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["embedding", "head"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
        helper.make_node("Conv", ["cells", "centred"], ["map"]),
    ]
    outputs = {
        "probabilities": ("batch", classes),
        "logits": ("batch", classes),
        "embedding": ("batch", FEATURES),
        "map": ("batch", classes, GRID, GRID),
    }
    graph = helper.make_graph(
        nodes,
        "spots",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ("batch", SIZE, SIZE, 3))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def spot(row: int, column: int, colour: tuple[int, int, int] = (220, 60, 60)) -> np.ndarray:
    """Grey skin `(SIZE, SIZE, 3)` with one cell of a colour."""
    pixels = np.full((SIZE, SIZE, 3), 150, np.uint8)
    side = SIZE // GRID
    pixels[row * side : (row + 1) * side, column * side : (column + 1) * side] = colour
    return pixels
