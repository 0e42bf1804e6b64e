import numpy as np
import pytest

from registry.bundle.counts.counts import Confusion
from registry.bundle.metrics.estimate import ANSWERS, BY_CLASS, MALIGNANCY, limits_of
from registry.bundle.metrics.intervals import DesignEffect, Sample, clopper_pearson
from registry.bundle.metrics.summary import FIGURES
from registry.bundle.metrics.summary import MALIGNANCY as MALIGNANCY_FIGURES

MALIGNANT = np.array([True, False, False])


def sample(matrix, correlation=0.0, sizes=1.0):
    classes = len(matrix)
    return Sample(Confusion(np.array(matrix)), DesignEffect(np.array(correlation), np.full(classes, sizes)))


MATRIX = [[14, 3, 3], [2, 36, 2], [1, 1, 6]]


def test_values_are_those_of_the_figures(of_confusion):
    counts = of_confusion(np.array(MATRIX))
    for name in ANSWERS:
        assert limits_of(name, sample(MATRIX)).value == pytest.approx(FIGURES[name](counts))
    for name in MALIGNANCY:
        expected = MALIGNANCY_FIGURES[name](counts, malignant=MALIGNANT)
        assert limits_of(name, sample(MATRIX), MALIGNANT).value == pytest.approx(expected)


def test_a_recall_has_exact_limits():
    found = BY_CLASS["recall"](sample(MATRIX)).limits()
    for k, (right, n) in enumerate([(14, 20), (36, 40), (6, 8)]):
        assert found[k].ends() == pytest.approx(clopper_pearson(right, n))


def test_pictures_of_one_lesion_are_worth_fewer():
    found = BY_CLASS["recall"](sample(MATRIX, correlation=0.5, sizes=3.0)).limits()
    assert found[0].ends() == pytest.approx(clopper_pearson(14 / 2, 20 / 2))


@pytest.mark.parametrize("name", ANSWERS)
def test_the_variance_is_that_of_drawn_answers(name):
    """Multinomial answers in rows of 200: the linear parts against what is drawn."""
    rng, matrix = np.random.default_rng(3), np.array([[140, 30, 30], [20, 160, 20], [10, 10, 180]])
    drawn = np.stack([rng.multinomial(200, row / 200, size=3000) for row in matrix], axis=1)
    many = Sample(Confusion(drawn), DesignEffect(np.zeros(3000), np.ones((3000, 3))))
    told = ANSWERS[name](sample(matrix)).variance
    assert told == pytest.approx(np.var(ANSWERS[name](many).value), rel=0.1)


def test_a_class_never_answered_has_a_precision_that_may_be_anything_but_certain():
    found = BY_CLASS["precision"](sample([[20, 0], [5, 0]])).limits()
    assert found.value[1] == found.low[1] == 0
    assert found.high[1] > 0.9
