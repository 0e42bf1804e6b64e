import numpy as np
import pytest

from registry.bundle.cases import read_given
from registry.bundle.diagnose import Question, ask
from registry.bundle.errors import GraphError
from registry.bundle.model import Graph
from tests.case_bundles import CASE, SIZE, case_graph, case_logits, softmax
from tests.closeness import assert_close_in_norm

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (6, SIZE, SIZE, 3), dtype=np.uint8)
CASES = (
    ([0, 1], ["close-up", "dermoscopic"], {"age": "70", "sex": "male", "site": "hand"}),
    ([2], [None], {}),
    ([3, 4, 5], ["close-up", "close-up", "dermoscopic"], {"site": "trunk"}),
)


def questions():
    return [Question(IMAGES[rows], read_given(CASE, kinds, facts)) for rows, kinds, facts in CASES]


def expected(question):
    pictures = list(zip(question.images, question.given.kinds, strict=True))
    return case_logits(pictures, question.given.context)


def test_cases_of_any_number_of_pictures_go_together():
    graph = Graph(case_graph())
    together = ask(graph, questions())
    for row, question in enumerate(questions()):
        alone = ask(graph, [question])
        assert_close_in_norm(alone.logits[0], expected(question), 1e-5)
        assert_close_in_norm(together.logits[row], alone.logits[0], 1e-6)
        np.testing.assert_allclose(together.probabilities[row], softmax(expected(question)), atol=1e-5)
        assert_close_in_norm(together.embedding[row], question.images.mean(axis=(0, 1, 2)), 1e-5)


def test_kinds_and_facts_change_the_answer():
    graph = Graph(case_graph())
    known, unknown = (
        ask(graph, questions()[:1]),
        ask(graph, [Question(IMAGES[[0, 1]], read_given(CASE, [None, None], {}))]),
    )
    assert np.abs(known.logits - unknown.logits).max() > 0.1


def test_what_is_in_an_empty_slot_does_not_count():
    images = np.stack([IMAGES[:2], IMAGES[2:4]])[:1]
    kinds, context = np.array([[1, -1]]), np.full((1, 3), np.nan, np.float32)
    other = images.copy()
    other[0, 1] = 255 - other[0, 1]
    graph = Graph(case_graph())
    first, second = (graph.run_cases(one, kinds, context) for one in (images, other))
    np.testing.assert_array_equal(first.logits, second.logits)
    np.testing.assert_array_equal(first.embedding, second.embedding)


def test_a_case_is_none_for_a_model_of_pictures_nor_the_other_way(onnx_graph):
    with pytest.raises(GraphError, match="the graph takes single pictures"):
        ask(Graph(onnx_graph()), questions())
    with pytest.raises(GraphError, match="the graph takes cases"):
        ask(Graph(case_graph()), [Question(IMAGES[:1])])
