"""`model.onnx`: from uint8 pictures to probabilities, everything between them inside the graph.

The graph has one input, `images`, uint8 `(batch, size, size, 3)` with a free batch, and three float
outputs: `probabilities` and `logits` `(batch, classes)`, `embedding` `(batch, features)`. It brings
all its weights with it: a graph that points to other files is refused, since only the bytes of
`model.onnx` are what was digested.
"""

import os
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import GraphError

# ONNX Runtime reports its use to its makers and writes a device number into the user's cache, unless
# it is told otherwise before it is loaded. Nothing goes over the network uninvited.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

INPUT = "images"
OUTPUTS = ("probabilities", "logits", "embedding")

_PROVIDERS = ("CPUExecutionProvider",)


@dataclass(frozen=True)
class Outputs:
    """The graph's outputs for a batch.

    Attributes:
        probabilities: `(batch, classes)` float32, calibrated.
        logits: `(batch, classes)` float32, divided by the temperature.
        embedding: `(batch, features)` float32.
    """

    probabilities: NDArray[np.float32]
    logits: NDArray[np.float32]
    embedding: NDArray[np.float32]


class Graph:
    """A loaded `model.onnx`, ready to run; safe to share between threads.

    Attributes:
        size: pixels on both sides of a picture.
        num_classes: classes it answers with.
        num_features: length of the embedding.
    """

    def __init__(self, content: bytes, threads: int = 1) -> None:
        """Loads the graph and checks that it is one a bundle may hold.

        Args:
            content: the bytes of `model.onnx`.
            threads: threads within one operator; other counts may round sums differently. They sleep
                between operators: spinning would take the cores from whatever else runs.

        Raises:
            GraphError: the bytes are no graph, or one with other inputs, outputs or files.
        """
        self._session = _session(content, threads)
        self.size = _picture_size(self._session.get_inputs())
        widths = _output_widths(self._session.get_outputs())
        self.num_classes, self.num_features = widths["probabilities"], widths["embedding"]
        if widths["logits"] != self.num_classes:
            raise GraphError(
                f"the graph has {self.num_classes} probabilities and {widths['logits']} logits; "
                "both are one per class"
            )

    def run(self, images: NDArray[np.uint8]) -> Outputs:
        """Answers for a batch of pictures `(batch, size, size, 3)`.

        Raises:
            GraphError: the pictures are not of this shape and type, or an answer is not finite.
        """
        shape = (self.size, self.size, 3)
        if images.dtype != np.uint8 or images.shape[1:] != shape:
            raise GraphError(
                f"the pictures are {images.dtype} of shape {images.shape}; the graph takes uint8 of shape "
                f"(batch, {self.size}, {self.size}, 3)"
            )
        answers = self._session.run(list(OUTPUTS), {INPUT: images})
        for name, answer in zip(OUTPUTS, answers, strict=True):
            if not np.isfinite(answer).all():
                raise GraphError(
                    f"the graph answered {name} that are not finite; the model is broken: export it again"
                )
        return Outputs(*answers)


def _session(content: bytes, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is raised; nothing is printed besides
    with tempfile.TemporaryDirectory() as nothing:
        # Weights in other files would be looked for in the working directory: look where there are none.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", nothing)
        try:
            return onnxruntime.InferenceSession(content, options, providers=list(_PROVIDERS))
        except Exception as error:
            # ONNX Runtime's exceptions share no base of their own.
            raise _refusal(error) from error


def _refusal(error: Exception) -> GraphError:
    if "external data" in str(error).lower():
        return GraphError(
            f"the graph keeps weights in other files ({error}); save the model with all weights inside it"
        )
    return GraphError(f"ONNX Runtime cannot load the graph ({error}); export the model again")


def _picture_size(inputs: list[Any]) -> int:
    found = ", ".join(f"{one.name} {one.type} {one.shape}" for one in inputs)
    wanted = f"one input `{INPUT}`, tensor(uint8) of shape (batch, size, size, 3) with a free batch"
    if len(inputs) != 1 or inputs[0].name != INPUT or inputs[0].type != "tensor(uint8)":
        raise GraphError(f"the graph takes {found}; a bundle's graph takes {wanted}")
    shape = inputs[0].shape
    batch, sides = shape[:1], shape[1:]
    free = bool(batch) and not isinstance(batch[0], int)
    if not free or len(sides) != 3 or not isinstance(sides[0], int) or sides[0] != sides[1] or sides[2] != 3:
        raise GraphError(f"the graph takes {found}; a bundle's graph takes {wanted}")
    return int(sides[0])


def _output_widths(outputs: list[Any]) -> dict[str, int]:
    found = ", ".join(f"{one.name} {one.type} {one.shape}" for one in outputs)
    by_name = {one.name: one for one in outputs}
    fits = sorted(by_name) == sorted(OUTPUTS) and all(
        one.type == "tensor(float)" and len(one.shape) == 2 and isinstance(one.shape[1], int)
        for one in outputs
    )
    if not fits:
        raise GraphError(
            f"the graph answers {found}; a bundle's graph answers {', '.join(OUTPUTS)}, each tensor(float) "
            "of shape (batch, a fixed width)"
        )
    return {name: int(by_name[name].shape[1]) for name in OUTPUTS}
