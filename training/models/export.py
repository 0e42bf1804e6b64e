"""ONNX export of a trained model, and the proof that graph and model compute the same.

The graph takes uint8 pictures `(batch, size, size, 3)` and gives `probabilities`, `logits` (divided by the
temperature) and `embedding`; scaling, normalisation, network, temperature and softmax are inside.
"""

import io
import warnings

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn

from registry.bundle.model_file.graph import INPUT, OUTPUTS, Graph
from training.errors import ExportError
from training.messages.message import Tensors
from training.models import Classifier

TEMPERATURE = "temperature"
OPSET = 20


class ServedModel(nn.Module):
    """A classifier from stored pictures to calibrated answers."""

    temperature: Tensor

    def __init__(self, classifier: Classifier, temperature: float = 1.0) -> None:
        super().__init__()
        self.classifier = classifier
        self.register_buffer(TEMPERATURE, torch.tensor([temperature]))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Probabilities and logits `(batch, classes)` and embedding `(batch, features)` of uint8 pictures."""
        scaled = images.permute(0, 3, 1, 2).float() / 255
        embedding = self.classifier.embed(scaled)
        logits = self.classifier.classify(embedding) / self.temperature
        return torch.softmax(logits, dim=1), logits, embedding


def export_graph(classifier: Classifier, size: int) -> bytes:
    """The classifier as ONNX, with temperature 1.

    Args:
        classifier: its current weights are exported.
        size: pixels on both sides of a picture.

    Raises:
        ExportError: when torch cannot express the model as ONNX.
    """
    # A temperature of exactly 1 would be optimised away; it is set to 1 once the graph exists.
    served = ServedModel(classifier, temperature=2.0).eval()
    example = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter's own deprecations
            program = torch.onnx.export(
                served,
                (example,),
                dynamo=True,
                input_names=[INPUT],
                output_names=list(OUTPUTS),
                dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
                opset_version=OPSET,
                external_data=False,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise ExportError(f"this model cannot be exported: {error}; choose another model.name") from error
    assert program is not None
    buffer = io.BytesIO()
    onnx.save(program.model_proto, buffer)
    return set_temperature(buffer.getvalue(), 1.0)


def set_temperature(graph: bytes, temperature: float) -> bytes:
    """The same graph with another temperature.

    Raises:
        ExportError: when the graph holds no temperature.
    """
    model = onnx.load_from_string(graph)
    for tensor in model.graph.initializer:
        if tensor.name.endswith(TEMPERATURE):
            tensor.CopyFrom(numpy_helper.from_array(np.array([temperature], np.float32), tensor.name))
            changed: bytes = model.SerializeToString()
            return changed
    raise ExportError("the graph holds no temperature; export the model again with this version")


def largest_difference(
    graph: bytes, classifier: Classifier, images: NDArray[np.uint8], threads: int
) -> float:
    """The largest difference in probability between ONNX Runtime and torch, `images` `(n, size, size, 3)`."""
    onnx_answers = Graph(graph, threads).run(images).probabilities
    served = ServedModel(classifier).eval()
    with torch.inference_mode():
        torch_answers = (
            served(torch.from_numpy(images).to(next(classifier.parameters()).device))[0].cpu().numpy()
        )
    return float(np.abs(onnx_answers - torch_answers).max())


GRAPH = "graph"


def as_tensor(graph: bytes) -> torch.Tensor:
    """The bytes `(n,)` uint8."""
    return torch.frombuffer(bytearray(graph), dtype=torch.uint8)


def as_bytes(tensors: Tensors) -> bytes:
    """The graph that arrived."""
    return bytes(tensors[GRAPH].numpy())
