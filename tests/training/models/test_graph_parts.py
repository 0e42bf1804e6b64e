"""A graph in two parts answers as the whole one does, under every temperature and whatever is given."""

from dataclasses import replace

import numpy as np
import pytest

from registry.bundle.cases import CaseInput
from registry.bundle.errors import GraphError
from registry.bundle.model import OUTPUTS, Graph
from tests.training.models.test_export_cases import CASE, MODEL, SIZE, trained
from training.models import initial_model
from training.models.export import (
    EncoderPart,
    HeadPart,
    answer,
    export_graph,
    graph_inputs,
    set_temperature,
    split_graph,
)

WITHOUT_FACTS = CaseInput(slots=3, kinds=("close-up", "dermoscopic"))


def in_parts(graph, shown):
    """What the two parts answer, and the whole graph."""
    parts = split_graph(graph)
    seen = replace(shown, images=EncoderPart(parts.encoder, 1).features(shown.images))
    positions = np.arange(len(shown))
    return HeadPart(parts.head, 1).run(seen, positions), answer(Graph(graph), graph_inputs(shown, positions))


def assert_same(found, whole):
    for name in OUTPUTS:
        assert getattr(found, name) == pytest.approx(getattr(whole, name), abs=1e-6, rel=1e-5), name
    assert np.ptp(whole.probabilities, axis=0).max() > 0.01, "all answers are alike: it would not show"


@pytest.mark.parametrize("case", [CASE, pytest.param(WITHOUT_FACTS, marks=pytest.mark.long)])
def test_of_cases(case, examples):
    if not case.facts:
        cases = replace(examples.cases, context=examples.cases.context[:, :0])
        examples = replace(examples, cases=cases)
    graph = export_graph(trained(case), SIZE)
    assert_same(*in_parts(graph, examples))


def test_of_pictures(examples):
    pictures = replace(examples, cases=None)
    graph = export_graph(trained(None), SIZE)
    assert_same(*in_parts(graph, pictures))


@pytest.mark.parametrize("case", [pytest.param(CASE, marks=pytest.mark.long), None])
def test_another_temperature_has_the_same_encoder(case):
    graph = export_graph(trained(case), SIZE)
    parts, hotter = split_graph(graph), split_graph(set_temperature(graph, 3.0))
    assert hotter.encoder == parts.encoder
    assert hotter.head != parts.head


@pytest.mark.long
def test_another_encoder_is_another():
    ours, other = (export_graph(initial_model(MODEL, seed, SIZE, 2, CASE), SIZE) for seed in (0, 1))
    assert split_graph(ours).encoder != split_graph(other).encoder


@pytest.mark.parametrize("case", [pytest.param(CASE, marks=pytest.mark.long), None])
def test_answers_that_are_not_finite_are_refused(case, examples):
    parts = split_graph(export_graph(trained(case), SIZE))
    features = np.full((9, EncoderPart(parts.encoder, 1).num_features), np.nan, np.float32)
    shown = replace(examples, images=features, cases=None if case is None else examples.cases)
    with pytest.raises(GraphError, match="not finite"):
        HeadPart(parts.head, 1).run(shown, np.arange(len(shown)))
