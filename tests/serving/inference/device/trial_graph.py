"""The graph of `serving/inference/device/trial.onnx`, drawn again: what a device is tried with."""

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

SIZE, CHANNELS, CLASSES = 8, 4, 2


def draw() -> ModelProto:
    """A convolution and a product, which take the two libraries that a GPU needs, cuDNN and cuBLAS."""
    filters = (np.arange(CHANNELS * 27, dtype=np.float32).reshape(CHANNELS, 3, 3, 3) % 7 - 3) / 700
    weights = (np.arange(CHANNELS * CLASSES, dtype=np.float32).reshape(CHANNELS, CLASSES) % 5 - 2) / 10
    nodes = [
        helper.make_node("Cast", ["images"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["numbers"], ["pixels"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["pixels", "filters"], ["maps"]),
        helper.make_node("Relu", ["maps"], ["bent"]),
        helper.make_node("ReduceMean", ["bent"], ["embedding"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["embedding", "weights"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    widths = {"probabilities": CLASSES, "logits": CLASSES, "embedding": CHANNELS}
    graph = helper.make_graph(
        nodes,
        "what a device is tried with",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", SIZE, SIZE, 3])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", wide])
            for name, wide in widths.items()
        ],
        [numpy_helper.from_array(filters, "filters"), numpy_helper.from_array(weights, "weights")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
