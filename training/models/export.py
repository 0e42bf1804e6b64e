"""ONNX export of a trained model, and the proof that graph and model compute the same.

The graph takes uint8 pictures, or cases, and gives `probabilities`, `logits` (divided by the temperature) and
`embedding`; scaling, normalisation, network, temperature and softmax are inside. Where the encoder pools its
cells it gives a `map` too, where each class's logit comes from (`class_activation`), which the temperature
does not touch. See `registry.bundle.model`. The temperature of a case is that of its pattern; the
embedding of one is the mean of its pictures' features, by which an unfamiliar picture is known whatever else
is given. What the encoder makes of pictures has a name in the graph, at which `split_graph` cuts it in two.
Of the machine, its folders and its user nothing is in the graph: torch leaves stack traces in it.

An exported graph in two parts: what the encoder makes of a picture, and what follows from that.

The first part is the same for every temperature, and whatever else is given of a case: it runs once for a
picture. Together the parts compute what the whole graph does.
"""

import hashlib
import io
import pickle
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.utils import Extractor
from onnxscript import ir
from torch import Tensor, nn

from registry.bundle.cases import EMPTY, number_of_patterns
from registry.bundle.model import CONTEXT, INPUT, KINDS, MAP, OUTPUTS, Graph, Outputs, open_session
from training.data.dataset import Examples
from training.errors import ExportError
from training.messages import Tensors
from training.models.cases import CaseClassifier
from training.models.classifier import ENCODER_BATCH, CaseBatch, Classifier
from training.models.saliency import (
    CellRule,
    case_activation,
    cell_rule,
    class_activation,
    features_and_cells,
)

TEMPERATURE = "temperature"
FEATURES = "features"  # the tensor of a graph of cases that has what the encoder makes of every slot
OPSET = 20
MOST_TRACED = 8

# Tracing takes seconds, and models of one structure differ in their weights alone: the graphs as torch traced
# them, without weights, by what `_structure` says. The weights are put in, and then folded into constants.
_TRACED: dict[str, onnx.ModelProto] = {}

# What a message of a graph says besides what it computes: its remarks, and with some its name.
_REMARKS = ("doc_string", "metadata_props")
_SAID = {
    "ModelProto": (*_REMARKS, "producer_name", "producer_version", "domain", "model_version"),
    "NodeProto": (*_REMARKS, "name"),
}


class ServedModel(nn.Module):
    """A classifier from stored pictures to calibrated answers."""

    temperature: Tensor

    def __init__(
        self, classifier: Classifier, temperature: float = 1.0, rule: CellRule | None = None
    ) -> None:
        super().__init__()
        self.classifier, self.rule = classifier, rule
        self.register_buffer(TEMPERATURE, torch.tensor([temperature]))

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Probabilities and logits `(batch, classes)` and embedding `(batch, features)` of uint8 pictures.

        And with a rule the maps, `(batch, classes, rows, columns)`.
        """
        scaled = images.permute(0, 3, 1, 2).float() / 255
        maps: tuple[Tensor, ...] = ()
        if self.rule is None:
            embedding = self.classifier.embed(scaled)
        else:
            embedding, parts = features_and_cells(self.classifier, scaled, self.rule)
            maps = (class_activation(self.classifier, parts),)
        logits = self.classifier.classify(embedding) / self.temperature
        return (torch.softmax(logits, dim=1), logits, embedding, *maps)


class ServedCases(nn.Module):
    """A classifier of cases from stored pictures, kinds and facts to calibrated answers.

    Its temperatures `(patterns, 1)` are in the order of `registry.bundle.cases.pattern_number`.
    """

    temperature: Tensor

    def __init__(
        self, classifier: CaseClassifier, temperatures: Tensor | None = None, rule: CellRule | None = None
    ) -> None:
        super().__init__()
        self.classifier, self.rule = classifier, rule
        ones = torch.ones(number_of_patterns(classifier.case))
        self.register_buffer(TEMPERATURE, (ones if temperatures is None else temperatures)[:, None])

    def forward(self, images: Tensor, kinds: Tensor, context: Tensor | None = None) -> tuple[Tensor, ...]:
        """Probabilities and logits `(batch, classes)` and embedding `(batch, features)` of cases.

        And the features of every slot, `(batch, slots, features)`; with a rule before them the maps, `(batch,
        slots, classes, rows, columns)`.
        """
        if context is None:
            context = kinds[:, :0].float()
        scaled = images.flatten(0, 1).permute(0, 3, 1, 2).float() / 255
        parts = None
        if self.rule is None:
            found = self.classifier.features(scaled).view(*kinds.shape, -1)
        else:
            found, parts = features_and_cells(self.classifier, scaled, self.rule)
            found = found.view(*kinds.shape, -1)
        present = (kinds != EMPTY)[..., None].float()
        features = found * present
        cases = CaseBatch(features, kinds, context)
        logits = self.classifier.classify(self.classifier.fuse(features, cases))
        # So selected, the temperatures keep their name in the graph.
        logits = logits / torch.index_select(self.temperature, 0, self.pattern_numbers(kinds, context))
        embedding = features.sum(dim=1) / present.sum(dim=1)
        answers = (torch.softmax(logits, dim=1), logits, embedding)
        if self.rule is None or parts is None:
            return (*answers, found)
        parts = parts.view(*kinds.shape, *parts.shape[1:])
        return (*answers, case_activation(self.classifier, parts, features, cases, self.rule), found)

    def pattern_numbers(self, kinds: Tensor, context: Tensor) -> Tensor:
        """The number of each case's pattern `(batch,)`, as `pattern_number` counts."""
        known_kinds = 1 + len(self.classifier.case.kinds)
        there = (kinds[..., None] == torch.arange(known_kinds, device=kinds.device)).any(dim=1)
        bits = (there * (1 << torch.arange(known_kinds, device=kinds.device))).sum(dim=1)
        if not context.shape[1]:
            return bits
        known = ~torch.isnan(context)
        facts = known.any(dim=1).long() + known.all(dim=1).long()  # none, some, all
        return bits + (1 << known_kinds) * facts


def served(classifier: Classifier) -> nn.Module:
    """What is exported of a classifier, with temperature 1."""
    return ServedCases(classifier) if isinstance(classifier, CaseClassifier) else ServedModel(classifier)


def export_graph(classifier: Classifier, size: int) -> bytes:
    """The classifier as ONNX, with temperature 1.

    Args:
        classifier: its current weights are exported.
        size: pixels on both sides of a picture.

    Raises:
        ExportError: when torch cannot express the model as ONNX.
    """
    # A temperature of exactly 1 would be optimised away; it is set to 1 once the graph exists.
    batch = torch.export.Dim("batch")
    rule = cell_rule(classifier.eval(), size)
    if isinstance(classifier, CaseClassifier):
        slots, case = torch.export.Dim("slots", max=classifier.case.slots), classifier.case
        temperatures = 2 + torch.arange(float(number_of_patterns(case)))
        model: nn.Module = ServedCases(classifier, temperatures, rule)
        example = [torch.zeros(2, 2, size, size, 3, dtype=torch.uint8), torch.zeros(2, 2, dtype=torch.int64)]
        dimensions = [{0: batch, 1: slots}, {0: batch, 1: slots}]
        if case.facts:
            example.append(torch.zeros(2, len(case.facts)))
            dimensions.append({0: batch})
    else:
        model = ServedModel(classifier, 2.0, rule)
        example = [torch.zeros(2, size, size, 3, dtype=torch.uint8)]
        dimensions = [{0: batch}]
    names = [INPUT, KINDS, CONTEXT][: len(example)]
    cut = [FEATURES] if isinstance(classifier, CaseClassifier) else []
    key = _structure(model.eval(), size)
    traced = None if key is None else _TRACED.get(key)
    if traced is None:
        outputs = [*OUTPUTS, *([] if rule is None else [MAP]), *cut]
        # Of a copy: tracing changes what a model holds, and then its structure would have another digest.
        traced = _trace(deepcopy(model), example, dict(zip(names, dimensions, strict=True)), outputs)
    if key is not None:
        _TRACED[key] = traced
        while len(_TRACED) > MOST_TRACED:
            _TRACED.pop(next(iter(_TRACED)))
    model_file = _with_weights(traced, model)
    for output in [output for output in model_file.graph.output if output.name in cut]:
        model_file.graph.output.remove(output)  # a name inside the graph, and no answer
        model_file.graph.value_info.append(output)
    _strip(model_file)
    return set_temperature(model_file.SerializeToString(), 1.0)


class _WithoutTensors(pickle.Pickler):
    """Writes a model with the shapes of its tensors in place of them."""

    def persistent_id(self, obj: Any) -> Any:
        """What is written of it, less what no graph depends on: values, their origin, the order of sets."""
        if isinstance(obj, dict) and "_modules" in obj:
            return {name: value for name, value in obj.items() if name != "origins"}
        if isinstance(obj, set | frozenset):
            return sorted(map(repr, obj))
        return (tuple(obj.shape), str(obj.dtype)) if isinstance(obj, Tensor) else None


def _structure(model: nn.Module, size: int) -> str | None:
    """A digest of all that a graph depends on except the values of weights.

    None for a model that holds what cannot be pickled, such as a lambda: it is traced each time.
    """
    written = io.BytesIO()
    try:
        _WithoutTensors(written).dump((model, size))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return hashlib.sha256(written.getvalue()).hexdigest()


def _trace(
    model: nn.Module, example: Sequence[Tensor], dimensions: Mapping[str, Any], outputs: Sequence[str]
) -> onnx.ModelProto:
    """The model as a graph that is not simplified yet, whose initializers have names and no values.

    Raises:
        ExportError: when torch cannot express the model as ONNX.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter's own deprecations
            program = torch.onnx.export(
                model,
                tuple(example),
                dynamo=True,
                input_names=list(dimensions),
                output_names=list(outputs),
                dynamic_shapes=dict(dimensions),
                opset_version=OPSET,
                external_data=False,
                verbose=False,
                optimize=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise ExportError(f"this model cannot be exported: {error}; choose another model.name") from error
    assert program is not None
    traced: onnx.ModelProto = program.model_proto
    weights = _tensors_of(model)
    for initializer in traced.graph.initializer:
        if initializer.name in weights:
            initializer.ClearField("raw_data")
    return traced


def _with_weights(traced: onnx.ModelProto, model: nn.Module) -> onnx.ModelProto:
    """A traced graph with the weights of a model of that structure, simplified."""
    weights = _tensors_of(model)
    filled = onnx.ModelProto()
    filled.CopyFrom(traced)
    for initializer in filled.graph.initializer:
        if initializer.name in weights:
            values = weights[initializer.name].detach().cpu().contiguous().numpy()
            initializer.CopyFrom(numpy_helper.from_array(values, initializer.name))
    program = torch.onnx.ONNXProgram(ir.from_proto(filled), None)
    program.optimize()
    simplified: onnx.ModelProto = program.model_proto
    return simplified


def _tensors_of(model: nn.Module) -> dict[str, Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _strip(message: Any) -> None:
    """Clear what computes nothing and says where, when and with what a graph was made, also within it."""
    for name in _SAID.get(message.DESCRIPTOR.name, _REMARKS):
        if name in message.DESCRIPTOR.fields_by_name:
            message.ClearField(name)
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                _strip(inner)


def temperatures_of(graph: bytes) -> list[float]:
    """The temperature of a graph, or that of each pattern.

    Raises:
        ExportError: when the graph holds none.
    """
    for tensor in onnx.load_from_string(graph).graph.initializer:
        if tensor.name.endswith(TEMPERATURE):
            values: list[float] = numpy_helper.to_array(tensor).reshape(-1).tolist()
            return values
    raise ExportError("the graph holds no temperature; export the model again with this version")


def set_temperature(graph: bytes, temperature: float | Sequence[float]) -> bytes:
    """The same graph with another temperature: one for all, or one for each pattern.

    Raises:
        ExportError: when the graph holds no temperature, or not so many.
    """
    model = onnx.load_from_string(graph)
    for tensor in model.graph.initializer:
        if tensor.name.endswith(TEMPERATURE):
            values = np.empty(tuple(tensor.dims), np.float32)
            values.reshape(-1)[:] = temperature
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
            changed: bytes = model.SerializeToString()
            return changed
    raise ExportError("the graph holds no temperature; export the model again with this version")


def largest_differences(
    graph: bytes, classifier: Classifier, examples: Examples, threads: int
) -> NDArray[np.float32]:
    """The largest difference in a probability of each example `(n,)` between ONNX Runtime and torch.

    Args:
        graph: as it was exported, with temperature 1.
        classifier: of which it is.
        examples: pictures or cases.
        threads: of ONNX Runtime.
    """
    device = next(classifier.parameters()).device
    session, model = Graph(graph, threads), served(classifier).to(device).eval()
    found = np.zeros(len(examples), dtype=np.float32)
    for start in range(0, len(examples), ENCODER_BATCH):
        batch = np.arange(start, min(start + ENCODER_BATCH, len(examples)))
        inputs = graph_inputs(examples, batch)
        tensors = [torch.from_numpy(values).to(device) for values in inputs if values.size]
        with torch.inference_mode():
            torch_answers = model(*tensors)[0].cpu().numpy()
        found[batch] = np.abs(answer(session, inputs).probabilities - torch_answers).max(axis=1)
    return found


GraphInputs = tuple[NDArray[np.uint8]] | tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float32]]
"""Pictures; or the pictures of cases, their kinds and facts."""


def graph_inputs(examples: Examples, positions: NDArray[np.int64]) -> GraphInputs:
    """The examples at `positions` as a graph takes them."""
    if examples.cases is None:
        return (examples.batch(positions),)
    cases = examples.cases.where(positions)
    return examples.images[np.maximum(cases.pictures, 0)], cases.kinds, cases.context


def answer(graph: Graph, inputs: GraphInputs) -> Outputs:
    """What a graph answers to pictures or cases."""
    return graph.run(inputs[0]) if len(inputs) == 1 else graph.run_cases(*inputs)


GRAPH = "graph"


def as_tensor(graph: bytes) -> torch.Tensor:
    """The bytes `(n,)` uint8."""
    return torch.frombuffer(bytearray(graph), dtype=torch.uint8)


def as_bytes(tensors: Tensors) -> bytes:
    """The graph that arrived."""
    return bytes(tensors[GRAPH].numpy())


PROBABILITIES, LOGITS, EMBEDDING = OUTPUTS


@dataclass(frozen=True)
class GraphParts:
    """Two ONNX files.

    Attributes:
        encoder: from uint8 pictures to features.
        head: from features, with kinds and facts of cases, to the outputs of the whole graph.
    """

    encoder: bytes
    head: bytes


def split_graph(graph: bytes) -> GraphParts:
    """A graph cut where its encoder ends."""
    model = onnx.load_from_string(graph)
    inputs = [one.name for one in model.graph.input]
    extractor = Extractor(model)
    if KINDS in inputs:
        encoder = extractor.extract_model([INPUT, KINDS], [FEATURES])
        head = extractor.extract_model([FEATURES, *inputs[1:]], list(OUTPUTS))
    else:
        encoder = extractor.extract_model([INPUT], [EMBEDDING])
        head = extractor.extract_model([EMBEDDING], [PROBABILITIES, LOGITS])
    return GraphParts(encoder.SerializeToString(), head.SerializeToString())


class EncoderPart:
    """The first part, ready to run."""

    def __init__(self, content: bytes, threads: int) -> None:
        """Loads it.

        Args:
            content: `GraphParts.encoder`.
            threads: within one operator.
        """
        self._session = open_session(content, threads)
        self._of_cases = any(one.name == KINDS for one in self._session.get_inputs())
        self.num_features = int(self._session.get_outputs()[0].shape[-1])

    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features `(batch, features)` of pictures `(batch, size, size, 3)`."""
        feed: dict[str, NDArray[Any]] = {INPUT: images}
        if self._of_cases:
            feed = {INPUT: images[:, None], KINDS: np.zeros((len(images), 1), dtype=np.int64)}
        (found,) = self._session.run(None, feed)
        features: NDArray[np.float32] = found.reshape(len(images), self.num_features)
        return features


class HeadPart:
    """The second part, ready to run."""

    def __init__(self, content: bytes, threads: int) -> None:
        """Loads it.

        Args:
            content: `GraphParts.head`.
            threads: within one operator.
        """
        self._session = open_session(content, threads)
        first, *_ = self._session.get_inputs()
        self._takes = [one.name for one in self._session.get_inputs()]
        self.num_features = int(first.shape[-1])

    def run(self, examples: Examples, positions: NDArray[np.int64]) -> Outputs:
        """The whole graph's outputs for examples whose images are features `(pictures, features)`."""
        given = graph_inputs(examples, positions)
        feed = dict(zip((FEATURES, KINDS, CONTEXT) if len(given) > 1 else (EMBEDDING,), given, strict=True))
        answers = self._session.run(None, {name: feed[name] for name in self._takes})
        named = dict(zip((one.name for one in self._session.get_outputs()), answers, strict=True))
        return Outputs(named[PROBABILITIES], named[LOGITS], named.get(EMBEDDING, given[0]))
