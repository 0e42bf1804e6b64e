"""Models that misbehave: each fits its manifest and loads, or would, and none may answer anybody."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.case_bundles import case_graph
from tests.registry.conftest import draw_graph

TERABYTES = 2**40  # numbers of four bytes


def with_logits(
    nodes: Sequence[onnx.NodeProto], constants: dict[str, np.ndarray], graph: bytes | None = None
) -> bytes:
    """The drawn graph, with nodes that make `logits` of `sound`, what its logits were, and constants."""
    model = onnx.load_from_string(graph or draw_graph())
    place = next(i for i, node in enumerate(model.graph.node) if "logits" in node.output)
    model.graph.node[place].output[0] = "sound"
    kept = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*kept[: place + 1], *nodes, *kept[place + 1 :]])
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return model.SerializeToString()


def nan_weights() -> bytes:
    """A weight that is not a number."""
    model = onnx.load_from_string(draw_graph())
    weights = np.ones((3, 3), np.float32)
    weights[1, 2] = np.nan
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "weights"))
    return model.SerializeToString()


def huge_constant(numbers: int = TERABYTES) -> bytes:
    """A constant of 4 TB, which takes a hundred bytes to write."""
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["huge"]),
        helper.make_node("ReduceMax", ["huge"], ["zero"], keepdims=0),
        helper.make_node("Add", ["sound", "zero"], ["logits"]),
    ]
    return with_logits(nodes, {"shape": np.array([numbers])})


def large_constant() -> bytes:
    """A constant of 2 GiB, which most machines have and no small model needs."""
    return huge_constant(2**29)


def huge_expansion() -> bytes:
    """The same of a picture's own numbers, so that nothing can be computed when it loads."""
    nodes = [
        helper.make_node("ReduceMax", ["sound"], ["largest"], keepdims=0),
        helper.make_node("Expand", ["largest", "shape"], ["huge"]),
        helper.make_node("ReduceMax", ["huge"], ["again"], keepdims=0),
        helper.make_node("Sub", ["sound", "again"], ["logits"]),
    ]
    return with_logits(nodes, {"shape": np.array([TERABYTES])})


def endless_loop() -> bytes:
    """A loop of 2^62 rounds."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go_on"], ["again"]), helper.make_node("Sin", ["carried"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    nodes = [helper.make_node("Loop", ["rounds", "", "sound"], ["logits"], body=body)]
    return with_logits(nodes, {"rounds": np.array(2**62)})


def endless_folding() -> bytes:
    """Products of large constants, which ONNX Runtime computes when it loads the graph: minutes of work."""
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["product_0"])]
    nodes += [
        helper.make_node("MatMul", [f"product_{i}", f"product_{i}"], [f"product_{i + 1}"]) for i in range(200)
    ]
    nodes += [
        helper.make_node("ReduceMax", ["product_200"], ["zero"], keepdims=0),
        helper.make_node("Add", ["sound", "zero"], ["logits"]),
    ]
    return with_logits(nodes, {"shape": np.array([3000, 3000])})


def dropout_in_use() -> bytes:
    """Dropout in training mode."""
    nodes = [helper.make_node("Dropout", ["sound", "ratio", "training"], ["logits"])]
    return with_logits(nodes, {"ratio": np.array(0.5, np.float32), "training": np.array(True)})


def random_numbers() -> bytes:
    """Noise on the logits, of an operator whose name says so."""
    nodes = [
        helper.make_node("RandomNormalLike", ["sound"], ["noise"]),
        helper.make_node("Add", ["sound", "noise"], ["logits"]),
    ]
    return with_logits(nodes, {})


def by_the_batch() -> bytes:
    """An answer that depends on the other pictures of the batch, as batch normalization in training gives."""
    nodes = [
        helper.make_node("ReduceMax", ["sound"], ["of_all"], axes=[0], keepdims=1),
        helper.make_node("Mul", ["of_all", "uneven"], ["shift"]),
        helper.make_node("Add", ["sound", "shift"], ["logits"]),
    ]
    return with_logits(nodes, {"uneven": np.array([0.0, 0.5, 1.0], np.float32)})


def no_softmax() -> bytes:
    """Logits in the place of probabilities."""
    model = onnx.load_from_string(draw_graph())
    model.graph.node[3].op_type = "Identity"
    del model.graph.node[3].attribute[:]
    return model.SerializeToString()


def out_of_unit() -> bytes:
    """Numbers that sum to 1 and are no probabilities: 3, -1 and -1."""
    model = onnx.load_from_string(draw_graph())
    model.graph.node[3].output[0] = "uniform"
    model.graph.node.append(helper.make_node("Add", ["uniform", "shift"], ["probabilities"]))
    shift = np.array([8 / 3, -4 / 3, -4 / 3], np.float32)
    model.graph.initializer.append(numpy_helper.from_array(shift, "shift"))
    return model.SerializeToString()


def other_width() -> bytes:
    """Says that its embedding has 3 numbers, and answers 6."""
    model = onnx.load_from_string(draw_graph())
    model.graph.node[1].output[0] = model.graph.node[2].input[0] = "narrow"
    model.graph.node.append(helper.make_node("Tile", ["narrow", "twice"], ["embedding"]))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2]), "twice"))
    return model.SerializeToString()


def fails_in_batches() -> bytes:
    """Answers one picture at a time, whatever its free batch says."""
    nodes = [helper.make_node("Reshape", ["sound", "one_row"], ["logits"])]
    return with_logits(nodes, {"one_row": np.array([1, 3])})


def stack_traces() -> bytes:
    """Says where on its maker's machine each node was made, as `torch.onnx.export` leaves it."""
    model = onnx.load_from_string(draw_graph())
    for node in model.graph.node:
        entry = node.metadata_props.add()
        entry.key, entry.value = "pkg.torch.onnx.stack_trace", 'File "/home/lovelace/model.py", line 1'
    return model.SerializeToString()


def empty_slots_count() -> bytes:
    """Of cases: what lies in empty slots tips the balance."""
    nodes = [
        helper.make_node("ReduceMax", ["colours"], ["brightest"], axes=[1], keepdims=0),
        helper.make_node("Add", ["sound", "brightest"], ["logits"]),
    ]
    return with_logits(nodes, {}, case_graph())


def missing_facts_spread() -> bytes:
    """Of cases: a fact that is not known makes the answer NaN."""
    model = onnx.load_from_string(case_graph())
    for node in model.graph.node:
        if "known" in node.input:
            node.input[0] = "context"
    return model.SerializeToString()


MADE: dict[str, Callable[[], bytes]] = {
    one.__name__: one
    for one in (
        nan_weights,
        huge_constant,
        large_constant,
        huge_expansion,
        endless_loop,
        endless_folding,
        dropout_in_use,
        random_numbers,
        by_the_batch,
        no_softmax,
        out_of_unit,
        other_width,
        fails_in_batches,
        stack_traces,
    )
}
"""Each for `draw_manifest`."""

MADE_OF_CASES = {one.__name__: one for one in (empty_slots_count, missing_facts_spread)}
"""Each for the manifest of `case_bundle`."""
