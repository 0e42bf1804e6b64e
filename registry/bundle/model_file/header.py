"""The header of `model.onnx`, read before anything loads it: operators, opsets, remarks, where weights lie.

ONNX is protocol buffers; a reader of just these fields needs no library and runs nothing. It follows lengths
within the bytes alone, copies no weights, and goes no deeper than graphs nest in earnest. Field numbers are
those of onnx.proto3 (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3).

ONNX Runtime refuses what it cannot run. This refuses what another ONNX Runtime than ours might not run, or
might run otherwise: operators outside the standard, and versions of the standard that are newer than what
the oldest ONNX Runtime that dermfed works with (1.20) knows. And it refuses remarks: texts that compute
nothing, in which exporters leave the folders of the machine that they ran on.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from registry.bundle.errors import GraphError

STANDARD: Final = "ai.onnx"
OPSETS: Final = {STANDARD: (7, 21), "ai.onnx.ml": (1, 5)}
"""The domains that an operator may be of, with the oldest and newest version of each."""

DEEPEST: Final = 16
"""Graphs within graphs (the bodies of `If` and `Loop`) that are followed."""

# What people keep weights in, by its first bytes; loading most of these runs code that they hold.
_OTHER_FILES: Final = {
    b"PK\x03\x04": "a zip archive, as torch.save and Keras write it",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "a gzip archive",
    b"\x93NUMPY": "a NumPy array",
}

# ONNX Runtime's own format names itself here, and ONNX Runtime looks there before it reads ONNX.
_ORT_PLACE, _ORT = 4, b"ORTM"

_RANDOM: Final = frozenset(
    (STANDARD, name)
    for name in (
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    )
)

# The fields of each message that are remarks: no answer depends on them. Graphs for training are among them.
_DOC_STRING, _METADATA = "doc_string", "metadata_props"
_REMARKS: Final = {
    "model": {6: _DOC_STRING, 14: _METADATA, 20: "training_info", 26: "configuration"},
    "graph": {10: _DOC_STRING, 16: _METADATA},
    "function": {8: _DOC_STRING, 14: _METADATA},
    "node": {6: _DOC_STRING, 9: _METADATA, 10: "device_configurations"},
    "attribute": {13: _DOC_STRING},
    "tensor": {12: _DOC_STRING, 16: _METADATA},
    "value": {3: _DOC_STRING, 4: _METADATA},
}

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


@dataclass
class Header:
    """The operators, opsets and external tensors of a graph.

    Attributes:
        opsets: the version of each domain that it was written for.
        operators: how often each operator is used, by domain and name.
        external: names of tensors whose values lie in other files.
        remarks: how many texts there are that compute nothing, by field and kind of message.
    """

    opsets: dict[str, int] = field(default_factory=dict)
    operators: Counter[tuple[str, str]] = field(default_factory=Counter)
    external: list[str] = field(default_factory=list)
    remarks: Counter[tuple[str, str]] = field(default_factory=Counter)

    def parts(self, message: memoryview, kind: str) -> Iterator[tuple[int, memoryview | int]]:
        """The fields of a message of that kind, its remarks counted and left out."""
        remarks = _REMARKS[kind]
        for number, value in fields(message):
            if number not in remarks:
                yield number, value
            elif as_message(value):
                self.remarks[remarks[number], kind] += 1


def check_header(content: bytes) -> None:
    """Checks that a file is ONNX alone, in standard operators of known opsets, with all weights in it.

    And that it holds no remarks.

    Raises:
        GraphError: saying what it holds, what is allowed, and what to do.
    """
    for start, kind in _OTHER_FILES.items():
        if content.startswith(start):
            raise GraphError(f"it is {kind}, and no ONNX; export the model with `torch.onnx.export`")
    if content.startswith(_ORT, _ORT_PLACE):
        raise GraphError(
            "it begins as a file of ONNX Runtime's own format (ORTM), which may hold another model than the "
            "ONNX after it; give the ONNX file that it was made from, as `torch.onnx.export` writes it"
        )
    header = read_header(content)
    if header.external:
        raise GraphError(
            f"it keeps weights in other files ({_few(header.external)}); save the model with all weights "
            "inside it (external_data=False)"
        )
    if header.remarks:
        found = [f"{name} of {kind}: {count}" for (name, kind), count in sorted(header.remarks.items())]
        raise GraphError(
            f"it holds texts that compute nothing ({_few(found)}), which may name a folder, a machine or a "
            "person; export it with this version of dermfed, or clear these fields with the onnx package"
        )
    if custom := sorted({domain for domain, _ in header.operators} - set(OPSETS)):
        found = [f"{domain}::{name}" for domain, name in sorted(header.operators) if domain in custom]
        raise GraphError(
            f"it uses the operators {_few(found)}, which are not of the ONNX standard; allowed are those "
            f"of {' and '.join(OPSETS)}: export it without custom operators, functions and vendors' fusions"
        )
    if random := sorted(name for domain, name in header.operators if (domain, name) in _RANDOM):
        raise GraphError(
            f"it uses the operators {_few(random)}, which answer otherwise each time; export it in "
            "evaluation mode (`model.eval()`), without noise"
        )
    for domain in sorted({STANDARD, *(domain for domain, _ in header.operators)}):
        oldest, newest = OPSETS[domain]
        version = header.opsets.get(domain)
        if version is None or not oldest <= version <= newest:
            said = "names no opset" if version is None else f"is of opset {version}"
            raise GraphError(
                f"it {said} of {domain}; allowed are {oldest} to {newest}: export it with "
                f"opset_version={min(20, newest)}"
            )


def read_header(content: bytes) -> Header:
    """Reads the header of a graph.

    Raises:
        GraphError: the bytes are no ONNX.
    """
    header = Header()
    graphs = 0
    for number, value in header.parts(memoryview(content), "model"):
        if number == 7:  # graph
            graphs += 1
            _read_graph(as_message(value), header, 1)
        elif number == 8:  # opset_import
            parts = dict(fields(as_message(value)))
            header.opsets[_domain(parts.get(1))] = _number(parts.get(2, 0))
        elif number == 25:  # functions: operators that the file brings along
            for inner, part in header.parts(as_message(value), "function"):
                if inner == 7:  # node
                    _read_node(as_message(part), header, 1)
                elif inner == 11:  # attribute_proto
                    _read_attribute(as_message(part), header, 1)
                elif inner == 12:  # value_info
                    _read_value(as_message(part), header)
    if graphs != 1:
        raise _damaged(f"it holds {graphs} graphs")
    return header


def _read_graph(graph: memoryview, header: Header, depth: int) -> None:
    if depth > DEEPEST:
        raise GraphError(f"it nests more than {DEEPEST} graphs; export it without such loops")
    for number, value in header.parts(graph, "graph"):
        if number == 1:  # node
            _read_node(as_message(value), header, depth)
        elif number in (11, 12, 13):  # input, output, value_info
            _read_value(as_message(value), header)
        elif number == 5:  # initializer
            _read_tensor(as_message(value), header)
        elif number == 15:  # sparse_initializer
            _read_sparse(as_message(value), header)


def _read_node(node: memoryview, header: Header, depth: int) -> None:
    name, domain = "", STANDARD
    for number, value in header.parts(node, "node"):
        if number == 4:  # op_type
            name = _text(value)
        elif number == 7:  # domain
            domain = _domain(value)
        elif number == 5:  # attribute
            _read_attribute(as_message(value), header, depth)
    header.operators[domain, name] += 1


def _read_attribute(attribute: memoryview, header: Header, depth: int) -> None:
    for number, value in header.parts(attribute, "attribute"):
        if number in (5, 10):  # t, tensors
            _read_tensor(as_message(value), header)
        elif number in (6, 11):  # g, graphs
            _read_graph(as_message(value), header, depth + 1)
        elif number in (22, 23):  # sparse_tensor, sparse_tensors
            _read_sparse(as_message(value), header)


def _read_value(value: memoryview, header: Header) -> None:
    for _ in header.parts(value, "value"):
        pass


def _read_sparse(sparse: memoryview, header: Header) -> None:
    for number, value in fields(sparse):
        if number in (1, 2):  # values, indices
            _read_tensor(as_message(value), header)


def _read_tensor(tensor: memoryview, header: Header) -> None:
    name, outside = "", False
    for number, value in header.parts(tensor, "tensor"):
        if number == 8:  # name
            name = _text(value)
        elif number == 13 or (number == 14 and value == 1):  # external_data, data_location
            outside = True
    if outside:
        header.external.append(name)


def fields(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """The fields of a protobuf message: varints as numbers, everything else as bytes."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire == _BYTES:
            length, position = _varint(message, position)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise _damaged(f"a field is of wire type {wire}")
        if number == 0 or length > len(message) - position:
            raise _damaged("a field reaches beyond its end")
        yield number, message[position : position + length]
        position += length


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """Reads a varint; returns it and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            raise _damaged("it ends within a number")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise _damaged("a number is too long")


def as_message(value: memoryview | int) -> memoryview:
    """The message in a field.

    Raises:
        GraphError: a number is there.
    """
    if isinstance(value, int):
        raise _damaged("a number stands for a message")
    return value


def _number(value: memoryview | int) -> int:
    if not isinstance(value, int):
        raise _damaged("a message stands for a number")
    return value


def _text(value: memoryview | int) -> str:
    return bytes(as_message(value)).decode("utf-8", "backslashreplace")


def _domain(value: memoryview | int | None) -> str:
    """A domain's name; the standard's may be left out or empty."""
    return STANDARD if value is None else _text(value) or STANDARD


def _few(names: list[str]) -> str:
    shown = [name[:60] for name in names[:3]]
    return ", ".join(shown) + (f", ... ({len(names)} in all)" if len(names) > 3 else "")


def _damaged(what: str) -> GraphError:
    return GraphError(f"it is no ONNX, or a damaged one ({what}); export the model again")
