"""A model as the graph of a bundle: it computes what torch computes, at the temperature it is given."""

import getpass
import os
import pickle
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from registry.bundle.model import Graph
from registry.bundle.model_check import check_header, read_header
from tests.closeness import assert_close_in_norm
from tests.training.conftest import BASE
from tests.training.models.test_export_cases import CASE, MODEL
from training.data.dataset import Examples
from training.errors import ExportError
from training.models import ModelConfig, build_model, export, initial_model
from training.models.export import ServedModel, export_graph, largest_differences, set_temperature
from training.models.export import _trace as trace

SIZE = 16
CONFIG = ModelConfig(**BASE["model"])
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def classifier():
    """Weights and statistics that no layer has at the start."""
    model = build_model(CONFIG, 2, seed=5)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if "running_var" in name:
                value.uniform_(0.5, 2.0, generator=random)
            elif value.is_floating_point():
                value.add_(0.1 * torch.randn(value.shape, generator=random))
    return model.eval()


@pytest.fixture(scope="module")
def graph(classifier):
    return export_graph(classifier, SIZE)


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (7, SIZE, SIZE, 3), dtype=np.uint8)


def pictures(images):
    numbers = np.arange(len(images))
    return Examples(images, numbers, numbers % 2, np.zeros_like(numbers), numbers)


def answers_of_torch(classifier, images):
    """Scaling, network and softmax, step by step."""
    pixels = torch.from_numpy(images.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    with torch.no_grad():
        embedding = classifier.embed(pixels)
        logits = classifier(pixels)
    return embedding.numpy(), logits.numpy()


def softmax(logits):
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def test_whatever_was_exported_before_a_graph_has_its_own_structure_and_weights(classifier, graph, images):
    other = build_model(CONFIG, 2, seed=6).eval()
    with torch.no_grad():
        other.encoder.get_classifier().weight.normal_(generator=torch.Generator().manual_seed(2))
    found = Graph(export_graph(other, SIZE), 1).run(images).logits
    np.testing.assert_allclose(found, answers_of_torch(other, images)[1], rtol=1e-4, atol=1e-4)
    assert np.abs(found - answers_of_torch(classifier, images)[1]).max() > 0.1
    assert export_graph(classifier, SIZE) == graph


def test_a_structure_is_traced_once(monkeypatch):
    """Also where a model is built again. Tracing parts what a timm model holds twice: no other structure."""
    traced = []
    monkeypatch.setattr(export, "_TRACED", {})
    monkeypatch.setattr(export, "_trace", lambda *given: traced.append(given) or trace(*given))
    first, second, again = [export_graph(build_model(CONFIG, 2, seed), SIZE) for seed in (5, 6, 5)]
    assert first == again != second
    assert len(traced) == 1


def test_a_model_that_cannot_be_pickled_is_exported_too(classifier, graph):
    odd = deepcopy(classifier)
    odd.encoder.note = lambda: None
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(odd)
    assert export_graph(odd, SIZE) == graph


def test_the_graph_answers_as_torch_does(classifier, graph, images):
    embedding, logits = answers_of_torch(classifier, images)
    outputs = Graph(graph).run(images)
    assert_close_in_norm(outputs.logits, logits)
    assert_close_in_norm(outputs.embedding, embedding)
    np.testing.assert_allclose(outputs.probabilities, softmax(logits), atol=1e-5)
    assert np.ptp(logits[:, 0]) > 0.01  # the pictures do not all look alike to it


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_a_temperature_divides_the_logits_and_nothing_else(graph, images, temperature):
    before, after = Graph(graph).run(images), Graph(set_temperature(graph, temperature)).run(images)
    assert_close_in_norm(after.logits, before.logits / temperature, 1e-6)
    np.testing.assert_allclose(after.probabilities, softmax(before.logits / temperature), atol=1e-5)
    np.testing.assert_array_equal(after.embedding, before.embedding)
    np.testing.assert_array_equal(after.probabilities.argmax(axis=1), before.probabilities.argmax(axis=1))


def test_a_graph_without_a_temperature_is_refused():
    import onnx

    empty = onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], [])).SerializeToString()
    with pytest.raises(ExportError, match="holds no temperature; export the model again"):
        set_temperature(empty, 2.0)


def test_the_largest_difference_is_nothing_for_the_same_model_and_found_for_another(
    classifier, graph, images
):
    assert largest_differences(graph, classifier, pictures(images), 1).max() < 1e-5
    with torch.no_grad():
        expected = ServedModel(classifier, temperature=3.0).eval()(torch.from_numpy(images))[0].numpy()
    hot = set_temperature(graph, 3.0)
    served = softmax(answers_of_torch(classifier, images)[1])
    found = largest_differences(hot, classifier, pictures(images), 1).max()
    assert found == pytest.approx(np.abs(expected - served).max(), rel=1e-3)
    assert found > 0.01


def texts(message):
    """Every text of a message and of those within it; weights are none."""
    for field, value in message.ListFields():
        inner = [value] if isinstance(value, str) or hasattr(value, "ListFields") else value
        if field.message_type is not None:
            for one in inner:
                yield from texts(one)
        elif field.type == field.TYPE_STRING:
            yield from inner


def of_pictures(classifier):
    return export_graph(classifier, SIZE)


def with_a_map(classifier):
    content = export_graph(classifier, 2 * SIZE + 32)
    assert Graph(content).map_shape is not None
    return content


def of_cases(_):
    return export_graph(initial_model(MODEL, 0, SIZE, 2, CASE), SIZE)


@pytest.mark.parametrize("exported", [of_pictures, with_a_map, of_cases])
def test_a_graph_names_no_folder_no_machine_and_nobody(exported, classifier):
    content = set_temperature(exported(classifier), 1.5)
    check_header(content)
    model = onnx.load_from_string(content)
    said = list(texts(model))
    assert any(text.startswith("classifier.encoder.") for text in said)  # weights keep their names
    hidden = ("/", "\\", ".py", "torch", "training.", "File ")
    assert [text for text in said if any(word in text for word in hidden)] == []
    assert (model.producer_name, model.producer_version, model.domain) == ("", "", "")
    assert {node.name for node in model.graph.node} == {""}
    places = {str(ROOT), str(Path.home()), os.uname().nodename, sys.prefix, getpass.getuser()}
    assert [place for place in places if len(place) > 4 and place.encode() in content] == []


def test_without_the_guard_torch_names_the_folder(classifier, monkeypatch):
    """The control: what is stripped was there, at nodes and values."""
    monkeypatch.setattr("training.models.export._strip", lambda model: None)
    content = export_graph(classifier, SIZE)
    assert str(ROOT).encode() in content
    counts = read_header(content).remarks
    assert min(counts["metadata_props", kind] for kind in ("GraphProto", "NodeProto", "ValueInfoProto")) > 0
