"""Operators, opsets, remarks and external weights of `model.onnx`, before ONNX Runtime loads it.

ONNX Runtime refuses what it cannot run. This refuses what another ONNX Runtime than ours might not run, or
might run otherwise: operators outside the standard, and versions of the standard that are newer than what
the oldest ONNX Runtime that dermfed works with (1.20) knows. And it refuses remarks: texts that compute
nothing, in which exporters leave the folders of the machine that they ran on.

Bytes of strangers are read in the process of a probe alone, which has limits on memory and time.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import onnx
from google.protobuf.message import DecodeError, Message

from registry.bundle.errors import GraphError

STANDARD: Final = "ai.onnx"
OPSETS: Final = {STANDARD: (7, 21), "ai.onnx.ml": (1, 5)}
"""The domains that an operator may be of, with the oldest and newest version of each."""

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

_REMARKS: Final = frozenset(
    ("doc_string", "metadata_props", "training_info", "configuration", "device_configurations")
)
"""The fields that are remarks: no answer depends on them. Graphs for training are among them."""


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

    def add(self, message: Message) -> None:
        """Adds what a message and those within it say."""
        kind = type(message)
        if kind is onnx.NodeProto:
            self.operators[message.domain or STANDARD, message.op_type] += 1
        elif kind is onnx.TensorProto and (message.external_data or message.data_location):
            self.external.append(message.name)
        for described, value in message.ListFields():
            if described.message_type is None and described.name not in _REMARKS:
                continue
            parts: list[Any] = [value] if isinstance(value, Message | str) else list(value)
            if described.name not in _REMARKS:
                for part in parts:
                    self.add(part)
            elif any(parts):
                self.remarks[described.name, kind.__name__] += len(parts)


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
        MemoryError: there is too little for them.
    """
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError as error:
        if "alloc failed" in str(error):
            raise MemoryError from error
        raise _damaged(str(error)) from error
    if not model.HasField("graph"):
        raise _damaged("it holds no graph")
    header = Header({one.domain or STANDARD: one.version for one in model.opset_import})
    header.add(model)
    return header


def _few(names: list[str]) -> str:
    shown = [name[:60] for name in names[:3]]
    return ", ".join(shown) + (f", ... ({len(names)} in all)" if len(names) > 3 else "")


def _damaged(what: str) -> GraphError:
    return GraphError(f"it is no ONNX, or a damaged one ({what}); export the model again")
