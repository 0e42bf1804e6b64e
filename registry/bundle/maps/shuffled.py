"""The same graph with its weights shuffled: what a map shows that knows the architecture and learnt nothing.

The sanity check of Adebayo et al. 2018: a map that looks alike with such weights says nothing about the
model. Every tensor of numbers keeps its own values and changes their places.
"""

from typing import Final

import numpy as np

from registry.bundle.model_file.header import as_message, fields

_GRAPH, _INITIALIZER, _DATA_TYPE, _RAW_DATA, _FLOAT = 7, 5, 2, 9, 1
SMALLEST: Final = 16
"""Numbers in a tensor that is shuffled; smaller ones are temperatures, colours and constants."""


def shuffled(content: bytes, seed: int = 0) -> bytes:
    """A graph with its weights shuffled, as many bytes long.

    Args:
        content: the bytes of an ONNX file, as `registry.bundle.model_file.header` accepts them.
        seed: of the shuffling.

    Raises:
        GraphError: the bytes are no ONNX.
    """
    random = np.random.default_rng(seed)
    changed = bytearray(content)
    graphs = [as_message(value) for number, value in fields(memoryview(changed)) if number == _GRAPH]
    for graph in graphs:
        for number, tensor in fields(graph):
            parts = dict(fields(as_message(tensor))) if number == _INITIALIZER else {}
            raw = parts.get(_RAW_DATA)
            if parts.get(_DATA_TYPE) != _FLOAT or not isinstance(raw, memoryview):
                continue
            values = np.frombuffer(raw, dtype="<f4")
            if len(values) >= SMALLEST:
                raw[:] = random.permutation(values).tobytes()
    return bytes(changed)
