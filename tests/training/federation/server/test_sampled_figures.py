"""Figures from a cohort: by hand, by the textbook, and against what all clients would have given."""

import numpy as np
import pytest

from registry.bundle.counts.histograms import Counts
from training.federation.server.evaluation_cohort import (
    EvaluationCohort,
    Stratum,
    cohort_size,
    drawn_in,
    strata_of,
)
from training.federation.server.sampled_figures import (
    FIGURES,
    counts_of,
    estimated,
    figures_from_clients,
    left_out,
    limits,
    over,
    student,
    weighted,
)
from training.federation.server.sampled_sums import bounded, widest


def counts(right, wrong):
    """Pictures of two classes, as many right as wrong answers of each as are given in pairs."""
    confusion = np.array([[right[0], wrong[0]], [wrong[1], right[1]]])
    scores = np.zeros((2, 2, 2), dtype=np.int64)
    scores[1] = [[right[0], wrong[0]], [wrong[1], right[1]]]
    scores[0] = scores[1, ::-1, ::-1]
    return counts_of(confusion, scores)


def held(strata):
    return [(of, [each for each in many if each is not None], len(many)) for of, many in strata]


def test_each_client_counts_as_often_as_there_are_clients_that_it_stands_for():
    many, few = [counts((8, 0), (2, 0)), counts((6, 0), (4, 0))], [counts((0, 1), (0, 9))]
    found = estimated([(10, many), (1, few)])
    assert found.values["accuracy"] == pytest.approx((5 * 14 + 1) / (5 * 20 + 10))
    assert found.values["balanced_accuracy"] == pytest.approx((14 / 20 + 1 / 10) / 2)
    assert (found.n, found.clients) == (30, 3)


def test_the_variance_is_near_the_textbooks():
    """Cochran 1977, equation 6.4: V = (1 − m/M) / m · Σ (x_c − f n_c)² / (m − 1) / n̄²."""
    rng = np.random.default_rng(0)
    n = rng.integers(20, 60, 40)
    right = rng.binomial(n, rng.beta(8, 2, 40))
    strata = held([(400, [counts((x, 0), (size - x, 0)) for x, size in zip(right, n, strict=True)])])
    total = weighted(strata)
    value = FIGURES["accuracy"](counts_of(*total))
    found = sum(
        float((factor * (FIGURES["accuracy"](replicates) - value) ** 2).sum())
        for factor, replicates in left_out(strata, total)
    )
    share = right.sum() / n.sum()
    textbook = (1 - 0.1) / 40 * ((right - share * n) ** 2).sum() / 39 / n.mean() ** 2
    assert found == pytest.approx(textbook, rel=0.05)


def test_where_all_answered_nothing_is_left_open():
    found = estimated([(2, [counts((8, 1), (2, 1)), counts((6, 1), (4, 1))])])
    for name, value in found.values.items():
        assert found.intervals[name] == [value, value]


def test_clients_that_are_all_right_do_not_show_that_all_clients_are():
    found = estimated([(100, [counts((20, 20), (0, 0))] * 5)])
    low, high = found.intervals["accuracy"]
    assert low < 0.75
    assert high == 1
    one = estimated([(100, [counts((20, 20), (0, 0)), None])])
    assert one.intervals["accuracy"] == [0, 1]


def test_of_few_clients_the_same_variance_says_less():
    """The width of normal limits grows as Student's t; n is large, so that nothing else matters."""
    few, many = (limits(np.array(0.5), 1e-4, 10**9, 40, freedom, 0.9) for freedom in (3, 10**6))
    assert float((few.high - few.low) / (many.high - many.low)) == pytest.approx(3.1824 / 1.96, rel=0.02)


def test_students_t():
    assert [student(k) for k in (1, 3, 10, 1000)] == pytest.approx(
        [12.7062, 3.1824, 2.2281, 1.9623], abs=1e-4
    )


def test_a_stratum_of_which_one_answered_goes_with_the_next():
    cohort = EvaluationCohort((Stratum(("a", "b", "c"), ("a", "b")), Stratum(("d", "e", "f"), ("d", "e"))))
    answers = {name: {"light": counts((8, 2), (2, 2))} for name in ("a", "d", "e")}
    found = figures_from_clients(cohort, answers, ("light", "dark"), ("light", "dark"))
    assert (found.answered, found.of, found.missed) == (3, 6, ("dark",))
    assert found.overall.values["accuracy"] == pytest.approx(10 / 14)
    assert found.overall.intervals["accuracy"] != [0, 1]
    assert figures_from_clients(cohort, {}, ("light",), ()) is None


def drawn_federation(rng, clients, accuracy, rare):
    found = {}
    for number in range(clients):
        of_client = rng.beta(8 * accuracy, 8 * (1 - accuracy))
        groups = ["light", *(["dark"] if rng.random() < 0.4 else []), *(["deep"] if number < rare else [])]
        found[f"c{number:03d}"] = {}
        for group in groups:
            n = rng.integers(3, 40, 2)
            right = rng.binomial(n, of_client)
            found[f"c{number:03d}"][group] = counts(right, n - right)
    return found


GROUPS = ["light", "dark", "deep"]


def of_everybody(federation, groups):
    parts = [part for each in federation.values() if (part := over(each, groups)) is not None]
    return {name: float(figure(sum(parts[1:], parts[0]))) for name, figure in FIGURES.items()}


@pytest.mark.long
@pytest.mark.parametrize("accuracy", [0.8, 0.97])
def test_intervals_hold_the_figure_of_all_clients(accuracy):
    rng = np.random.default_rng(5)
    hits = {name: [] for name in FIGURES}
    plain = []
    for _ in range(8):
        federation = drawn_federation(rng, 120, accuracy, rare=5)
        truth = of_everybody(federation, GROUPS)
        pictures = {name: dict.fromkeys(parts) for name, parts in federation.items()}
        strata = strata_of(tuple(federation), pictures)
        for _ in range(12):
            cohort = drawn_in(strata, [cohort_size(len(each), 0.1, 4) for each in strata], pictures, rng)
            found = figures_from_clients(
                cohort, {name: federation[name] for name in cohort.asked}, GROUPS, GROUPS
            ).overall
            for name in FIGURES:
                low, high = found.intervals[name]
                hits[name].append(low <= truth[name] <= high)
            value = found.values["accuracy"]
            half = 1.96 * np.sqrt(value * (1 - value) / found.n)
            plain.append(abs(value - truth["accuracy"]) <= half)
    for name, held_truth in hits.items():
        assert np.mean(held_truth) >= 0.93, name
    assert np.mean(plain) < 0.9  # the control: pictures taken for independent, and clients for alike


def test_intervals_from_a_sum_are_never_narrower_than_those_from_each_clients_counts():
    rng = np.random.default_rng(2)
    for accuracy in (0.5, 0.8, 0.97):
        federation = list(drawn_federation(rng, 12, accuracy, rare=0).values())
        parts = [over(each, GROUPS) for each in federation]
        apart = estimated([(60, parts)])
        sizes = np.array([part.confusion.sum(axis=1) for part in parts])
        together = bounded(sum(parts[1:], parts[0]), sizes, 12 / 60)
        for name in ("accuracy", "balanced_accuracy"):
            assert together.values[name] == pytest.approx(apart.values[name])
            assert together.intervals[name][0] <= apart.intervals[name][0] + 1e-3
            assert together.intervals[name][1] >= apart.intervals[name][1] - 1e-3
        assert together.intervals["auroc"] is None


def test_no_answers_of_clients_vary_more_than_the_widest_variance():
    rng = np.random.default_rng(4)
    for _ in range(200):
        sizes = rng.integers(1, 50, 6)
        wrong = rng.permutation([1.0, 1, 0, 0, 0, rng.random()])
        right = np.floor(sizes * (1 - wrong))
        share = right.sum() / sizes.sum()
        variance = 6 / 5 * ((right - share * sizes) ** 2).sum() / sizes.sum() ** 2
        assert widest(share, sizes) >= variance - 1e-12
    alike = np.full(6, 10)  # of equal clients it is reached, where two are all wrong
    assert widest(4 / 6, alike) == pytest.approx(6 / 5 * (2 * (4 / 6) ** 2 + 4 * (2 / 6) ** 2) * 100 / 60**2)
    assert widest(0.5, np.array([10])) == 1


def test_a_figure_that_is_undefined_has_no_interval():
    found = limits(np.array(np.nan), 0.1, 10, 5, 4, 0.9)
    assert found.ends() is None
    assert isinstance(counts((1, 1), (0, 0)), Counts)
