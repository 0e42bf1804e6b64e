"""A model of cases as a graph: torch's answers under every pattern, each with its own temperature."""

import numpy as np
import pytest
import torch

from registry.bundle.cases import AGE, SEX, CaseInput, number_of_patterns, pattern_number, pattern_of
from registry.bundle.errors import GraphError
from registry.bundle.model import Graph
from tests.closeness import assert_close_in_norm
from tests.training.conftest import BASE
from tests.training.models.conftest import stirred
from training.models import ModelConfig, initial_model
from training.models.cases import FusionConfig
from training.models.classifier import as_inputs
from training.models.export import answer, export_graph, graph_inputs, largest_differences, set_temperature

SIZE = 16
CASE = CaseInput(slots=3, kinds=("close-up", "dermoscopic"), facts=(AGE, SEX))
MODEL = ModelConfig(**BASE["model"], fusion=FusionConfig(width=4))


def trained(case):
    return stirred(initial_model(MODEL, 0, SIZE, 2, case), 0.2 if case else 0.1)


@pytest.fixture(scope="module")
def classifier():
    return trained(CASE)


@pytest.fixture(scope="module")
def graph(classifier):
    return export_graph(classifier, SIZE)


def test_the_graph_answers_as_torch_does(classifier, graph, examples):
    outputs = answer(Graph(graph), graph_inputs(examples, np.arange(len(examples))))
    inputs = as_inputs(examples, np.arange(len(examples)), torch.device("cpu"))
    with torch.no_grad():
        logits = classifier(inputs)
        features = [
            classifier.features(inputs.images[case][inputs.present[case]]).mean(dim=0)
            for case in range(len(examples))
        ]
    assert_close_in_norm(outputs.logits, logits.numpy())
    np.testing.assert_allclose(outputs.probabilities, torch.softmax(logits, 1).numpy(), atol=1e-5)
    assert_close_in_norm(outputs.embedding, torch.stack(features).numpy())
    assert np.ptp(outputs.logits[:, 0]) > 0.01
    assert largest_differences(graph, classifier, examples, 1).max() < 1e-5


def test_fewer_slots_answer_the_same(graph, examples):
    images, kinds, context = graph_inputs(examples, np.array([0, 1, 3]))
    whole = Graph(graph).run_cases(images, kinds, context)
    few = Graph(graph).run_cases(images[:, :2].copy(), kinds[:, :2].copy(), context)
    assert_close_in_norm(few.logits, whole.logits)
    one = Graph(graph).run_cases(images[1:2, :1].copy(), kinds[1:2, :1].copy(), context[1:2])
    assert_close_in_norm(one.logits, whole.logits[1:2])


def test_every_pattern_has_its_own_temperature(graph, examples):
    _, kinds, context = inputs = graph_inputs(examples, np.arange(len(examples)))
    numbers = [pattern_number(pattern_of(k, c, CASE), CASE) for k, c in zip(kinds, context, strict=True)]
    assert len(set(numbers)) == len(numbers)
    temperatures = 0.5 + 0.1 * np.arange(number_of_patterns(CASE))
    before = answer(Graph(graph), inputs)
    after = answer(Graph(set_temperature(graph, list(temperatures))), inputs)
    assert_close_in_norm(after.logits, before.logits / temperatures[numbers][:, np.newaxis], 1e-6)
    np.testing.assert_array_equal(after.embedding, before.embedding)
    same = answer(Graph(set_temperature(graph, 2.0)), inputs)
    assert_close_in_norm(same.logits, before.logits / 2, 1e-6)


def test_a_case_of_another_shape_is_refused(graph, examples):
    images, kinds, context = graph_inputs(examples, np.arange(2))
    with pytest.raises(GraphError, match=r"the graph takes images \(batch, slots, 16, 16, 3\) uint8"):
        Graph(graph).run_cases(images, kinds, context[:, :1])
    with pytest.raises(GraphError, match="the graph takes cases"):
        Graph(graph).run(images[:, 0].copy())


def test_a_model_without_facts_is_not_asked_for_any(examples):
    case = CaseInput(slots=2, kinds=("close-up",))
    model = trained(case)
    graph = Graph(export_graph(model, SIZE))
    assert (graph.takes_cases, graph.num_facts, graph.size) == (True, 0, SIZE)
    nothing = np.zeros((2, 0), np.float32)
    outputs = graph.run_cases(examples.images[[[0, 1], [2, 3]]], np.array([[1, 0], [1, -1]]), nothing)
    assert outputs.probabilities.shape == (2, 2)
