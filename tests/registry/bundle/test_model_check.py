import io
import pickle
import zipfile

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from registry.bundle.errors import GraphError
from registry.bundle.model_check import check_header

FLOATS = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
OUT = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])


def model(*nodes, opsets=(("", 20),), initializers=(), functions=()):
    graph = helper.make_graph(list(nodes), "made", [FLOATS], [OUT], list(initializers))
    imports = [helper.make_opsetid(*one) for one in opsets]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def node(name="Relu", domain="", **attributes):
    return helper.make_node(name, ["x"], ["y"], domain=domain, **attributes)


def body(*nodes):
    return helper.make_graph(list(nodes), "body", [], [OUT])


def nested(depth, innermost):
    inner = innermost
    for _ in range(depth):
        inner = helper.make_node("If", ["c"], ["y"], then_branch=body(inner), else_branch=body(node()))
    return inner


def outside(name, location="weights.bin"):
    tensor = numpy_helper.from_array(np.ones(3, np.float32), name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    return tensor


ATTRIBUTES = model(
    node("Constant", value=numpy_helper.from_array(np.ones(5, np.float32), "c")),
    node("LeakyRelu", alpha=0.5),
    node("Pad", mode="edge", pads=[1, 2, 300]),
)


PICKLED = io.BytesIO()
with zipfile.ZipFile(PICKLED, "w") as _archive:
    _archive.writestr("archive/data.pkl", pickle.dumps({}))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (PICKLED.getvalue(), "it is a zip archive, as torch.save"),
        *((pickle.dumps({"weights": [1.0]}, protocol), "it is a pickle") for protocol in (2, 3, 4, 5)),
        (b"\x89HDF\r\n\x1a\n", "it is an HDF5 file"),
        (b"\x1f\x8b\x08\x00", "it is a gzip archive"),
        (b"\x93NUMPY\x01\x00", "it is a NumPy array"),
        (b"", "it is no ONNX"),
        (b"hello", "it is no ONNX"),
        (pickle.dumps({"weights": [1.0]}, 0), "it is no ONNX"),
    ],
)
def test_what_is_no_onnx_is_named(content, said):
    with pytest.raises(GraphError, match=said) as caught:
        check_header(content)
    assert "export the model" in str(caught.value)


@pytest.mark.parametrize("domain", ["my.domain", "com.microsoft", "ai.onnx.preview.training", "org.pytorch"])
@pytest.mark.parametrize("place", ["top", "nested", "function"])
def test_operators_outside_the_standard_are_refused_wherever_they_are(domain, place):
    custom = node("Fancy", domain)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(domain, 1)]
    made = {
        "top": lambda: model(node(), custom, opsets=[("", 20), (domain, 1)]),
        "nested": lambda: model(nested(2, custom), opsets=[("", 20), (domain, 1)]),
        "function": lambda: model(
            node(), functions=[helper.make_function("ai.onnx", "F", ["x"], ["y"], [custom], imports)]
        ),
    }[place]()
    with pytest.raises(GraphError, match=rf"uses the operators {domain}::Fancy") as caught:
        check_header(made.SerializeToString())
    assert "ai.onnx and ai.onnx.ml" in str(caught.value)


@pytest.mark.parametrize(
    ("opsets", "said"),
    [
        ([("", 22)], "it is of opset 22 of ai.onnx; allowed are 7 to 21: export it with opset_version=20"),
        ([("", 6)], "it is of opset 6 of ai.onnx; allowed are 7 to 21"),
        ([("my.domain", 1)], "it names no opset of ai.onnx"),
        ([("ai.onnx", 10**6)], "it is of opset 1000000 of ai.onnx"),
    ],
)
def test_an_opset_that_is_not_known_is_refused(opsets, said):
    with pytest.raises(GraphError, match=said):
        check_header(model(node(), opsets=opsets).SerializeToString())


def test_each_domain_that_is_used_has_its_own_limit():
    used = (node(), node("Scaler", "ai.onnx.ml"))
    check_header(model(*used, opsets=[("", 20), ("ai.onnx.ml", 5)]).SerializeToString())
    with pytest.raises(GraphError, match=r"opset 6 of ai\.onnx\.ml; allowed are 1 to 5"):
        check_header(model(*used, opsets=[("", 20), ("ai.onnx.ml", 6)]).SerializeToString())
    with pytest.raises(GraphError, match=r"no opset of ai\.onnx\.ml"):
        check_header(model(*used).SerializeToString())


@pytest.mark.parametrize("place", ["initializer", "without entries", "constant", "nested constant", "sparse"])
def test_weights_in_other_files_are_found_wherever_they_are(place):
    far, bare = outside("matrix"), outside("matrix")
    bare.ClearField("external_data")
    sparse = helper.make_sparse_tensor(far, numpy_helper.from_array(np.arange(3), "at"), [9])
    made = {
        "initializer": lambda: model(node(), initializers=[far]),
        "without entries": lambda: model(node(), initializers=[bare]),
        "constant": lambda: model(node("Constant", value=far)),
        "nested constant": lambda: model(nested(2, node("Constant", value=far))),
        "sparse": lambda: model(node("Constant", sparse_value=sparse)),
    }[place]()
    with pytest.raises(
        GraphError, match=r"weights in other files \(matrix\); save the model with all weights"
    ):
        check_header(made.SerializeToString())


def test_graphs_that_nest_without_end_are_refused():
    def within(field, content):
        length, rest = b"", len(content)
        while rest > 127:
            length, rest = length + bytes([rest & 127 | 128]), rest >> 7
        return bytes([field << 3 | 2]) + length + bytes([rest]) + content

    deep = b""
    for _ in range(60):
        deep = within(1, within(5, within(6, deep)))  # a node, its attribute, and the graph in that
    check_header(model(nested(15, node())).SerializeToString())
    with pytest.raises(GraphError, match="it is no ONNX"):
        check_header(within(7, deep))


def test_every_cut_of_a_graph_is_refused_or_read():
    """A file that ends early is never a crash; most cuts are found here, the others lack an opset."""
    content = ATTRIBUTES.SerializeToString()
    for length in range(len(content)):
        with pytest.raises(GraphError):
            check_header(content[:length])


def sparse(name):
    ones = numpy_helper.from_array(np.ones(1, np.float32), name)
    return helper.make_sparse_tensor(ones, numpy_helper.from_array(np.zeros(1, np.int64), "indices"), [3])


def with_every_message():
    """A graph that has each kind of message somewhere."""
    weights = numpy_helper.from_array(np.ones(3, np.float32), "w")
    own = helper.make_function("own", "Fancy", ["x"], ["y"], [node()], [helper.make_opsetid("", 20)])
    own.value_info.append(FLOATS)
    own.attribute_proto.append(helper.make_attribute("alpha", 1.0))
    made = model(
        nested(2, node("Constant", value=weights)),
        node("Constant", sparse_value=sparse("few")),
        node("Optional", type=helper.make_tensor_type_proto(TensorProto.FLOAT, [1])),
        initializers=[weights],
        functions=[own],
    )
    made.graph.value_info.append(OUT)
    made.graph.sparse_initializer.append(sparse("fewer"))
    return made


def messages(message, path=""):
    """Every message within one, with the way to it, as the onnx package has them."""
    yield path, message
    for described, value in message.ListFields():
        if described.message_type is not None:
            many = not hasattr(value, "ListFields")
            for number, inner in enumerate(value if many else [value]):
                yield from messages(inner, f"{path}/{described.name}{number if many else ''}")


def remarks_of(message):
    known = message.DESCRIPTOR.fields_by_name
    return [name for name in ("doc_string", "metadata_props") if name in known]


REMARKS = [(path, name) for path, one in messages(with_every_message()) for name in remarks_of(one)]


@pytest.mark.parametrize(("path", "name"), REMARKS)
def test_a_remark_is_refused_wherever_it_is(path, name):
    made = with_every_message()
    message = dict(messages(made))[path]
    if name == "doc_string":
        message.doc_string = "by /home/lovelace"
    else:
        entry = message.metadata_props.add()
        entry.key, entry.value = "pkg.torch.onnx.stack_trace", 'File "/home/lovelace/model.py"'
    with pytest.raises(
        GraphError, match=rf"texts that compute nothing \({name} of [A-Za-z]+Proto: 1\)"
    ) as caught:
        check_header(made.SerializeToString())
    assert "clear these fields with the onnx package" in str(caught.value)
    assert "lovelace" not in str(caught.value)


def test_remarks_are_counted_and_empty_ones_are_none():
    made = with_every_message()
    for one in (made.graph.input[0], made.graph.output[0]):
        one.doc_string = "Ada's"
    made.doc_string = ""
    made.graph.node[0].doc_string = "x"
    with pytest.raises(GraphError, match=r"\(doc_string of NodeProto: 1, doc_string of ValueInfoProto: 2\)"):
        check_header(made.SerializeToString())


@pytest.mark.parametrize("name", ["training_info", "configuration", "device_configurations"])
def test_what_is_for_training_or_of_devices_is_refused(name):
    made = with_every_message()
    place = made.graph.node[0] if name == "device_configurations" else made
    one = getattr(place, name).add()
    if name == "training_info":
        one.algorithm.name = "/home/ada"
    elif name == "configuration":
        one.name = "ada's laptop"
    else:
        one.configuration_id = "ada's laptop"
    with pytest.raises(GraphError, match=f"{name} of (Model|Node)Proto: 1"):
        check_header(made.SerializeToString())
