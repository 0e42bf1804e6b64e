"""What a bundle keeps of a test: metrics from its counts, and nothing that the metrics do not tell."""

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.optimize import linprog

from registry.bundle.counting import count
from registry.bundle.evaluation import (
    Evaluation,
    GroupCounts,
    ReferenceHistograms,
    SubgroupHistograms,
    kept_back,
)
from registry.bundle.labels import UNDECLARED, Label, Subgroup, kind_of_each, kinds_of, malignant_classes
from registry.bundle.metrics.selective import decided
from registry.bundle.metrics.summary import summarise
from tests.measured import FIVE, RULES, TONES, TWO, blocks_of, evaluation_of, manifest_of

BENIGN = tuple(Label(code=code, name=code, malignancy="benign") for code in ("NV", "DF", "SK"))
SIZES = {"light": 120, "dark": 50, UNDECLARED: 20}
TRAITS = {"sex": ("female", "male")}


def drawn(labels, sizes=SIZES, seed=3):
    return blocks_of(np.random.default_rng(seed), labels, sizes)


def with_cells(labels):
    """Blocks of which the traits of pictures are known."""
    rng, malignant = np.random.default_rng(5), malignant_classes(labels)
    blocks = {}
    for name, n in {"light": 200, "dark": 70}.items():
        odds = rng.gamma(1, size=(n, len(labels)))
        truth = rng.choice(len(labels), size=n)
        sex = rng.choice(["female", "male", "unknown"], size=n, p=[0.5, 0.4, 0.1])
        blocks[name] = count(
            odds / odds.sum(axis=1, keepdims=True),
            truth,
            malignant=malignant,
            smallest_cell=5,
            thresholds=RULES,
            kinds=kind_of_each(labels),
            parts={("sex", value): sex == value for value in ("female", "male", "unknown")},
        )
    return blocks


CASES = {
    "two classes": lambda: (drawn(TWO), TWO),
    "five classes": lambda: (drawn(FIVE), FIVE),
    "none malignant": lambda: (drawn(BENIGN), BENIGN),
    "one subgroup": lambda: (drawn(FIVE, {"dark": 60}), FIVE),
    "few pictures": lambda: (drawn(FIVE, {"light": 3, "dark": 1}), FIVE),
    "traits": lambda: (with_cells(FIVE), FIVE),
}


def test_without_a_working_point_there_is_no_sensitivity_at_one():
    rng, malignant = np.random.default_rng(1), malignant_classes(TWO)
    odds, truth = rng.gamma(1, size=(60, 2)), rng.integers(0, 2, 60)
    thresholds = replace(RULES, malignant_from=None)
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    block = count(probabilities, truth, malignant=malignant, thresholds=thresholds)
    found = Evaluation.of({"dark": block}, TWO, ["dark"], None)
    assert (found.all.decided.suspicious, found.all.decided.not_suspicious) == (None, None)
    assert "sensitivity_at_threshold" not in found.metrics(TWO)


@pytest.fixture(params=CASES)
def test_of(request):
    """Blocks, labels, the metrics that `summarise` makes of them, and the histograms of a bundle."""
    blocks, labels = CASES[request.param]()
    traits = TRAITS if request.param == "traits" else None
    compared = [name for name in blocks if name != UNDECLARED]
    details = {name: decided(block.decisions, block.kinds) for name, block in blocks.items()}
    total = reduce(add, blocks.values())
    of_all = decided(total.decisions, total.kinds)
    metrics = summarise(blocks, labels, compared, details, traits)
    metrics |= of_all | {"intervals": {**metrics["intervals"], **of_all["intervals"]}}
    reference = ReferenceHistograms.from_counts(
        reduce(add, blocks.values()).point,
        by_subgroup=tuple(
            SubgroupHistograms.from_counts(
                blocks[name].point, subgroup=Subgroup(name=name, scale="fitzpatrick", values=TONES[name])
            )
            for name in compared
        ),
    )
    return blocks, labels, compared, traits, metrics, reference


def near(found, expected, place=""):
    """Asserts that two records are the same, numbers to the last digits."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for name in expected:
            near(found[name], expected[name], f"{place}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for at, each in enumerate(expected):
            near(found[at], each, f"{place}.{at}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-12), place
    else:
        assert found == expected, place


@pytest.mark.parametrize("has_histograms", [True, False])
def test_metrics_are_those_of_all_counts(test_of, has_histograms):
    blocks, labels, compared, traits, metrics, reference = test_of
    given = reference if has_histograms else None
    found = Evaluation.of(blocks, labels, compared, given, traits=traits)
    kept = Evaluation.model_validate_json(found.model_dump_json())
    near(kept.metrics(labels, given), metrics)


TABLES = {
    "one small cell": [[100, 50, 3], [90, 60, 40]],
    "two small cells in a row": [[100, 2, 3], [90, 60, 40]],
    "a cell of its own in each": [[3, 50, 60], [90, 4, 40], [80, 70, 2]],
    "one subgroup": [[100, 50, 3]],
    "a kind that nobody has": [[100, 0, 30], [90, 0, 4]],
    "a kind of one subgroup": [[100, 4, 30], [90, 0, 40]],
    "two kinds": [[100, 4], [90, 60]],
    "four by four": [[2, 3, 80, 90], [3, 2, 9, 80], [70, 80, 2, 3], [60, 50, 3, 2]],
}


def feasible(table, hidden, cell):
    """The least and the most that a hidden cell may have, of whoever knows the sums and all other cells."""
    cells = np.argwhere(hidden)
    lines = [cells[:, 0] == i for i in range(table.shape[0])]
    sums = [table[i][hidden[i]].sum() for i in range(table.shape[0])]
    if table.shape[0] > 1:
        lines += [cells[:, 1] == j for j in range(table.shape[1])]
        sums += [table[:, j][hidden[:, j]].sum() for j in range(table.shape[1])]
    target = (cells == cell).all(axis=1).astype(float)
    found = [
        linprog(sign * target, A_eq=np.array(lines, dtype=float), b_eq=sums, bounds=(0, None)).fun
        for sign in (1, -1)
    ]
    return found[0], -found[1]


@pytest.mark.parametrize("name", TABLES)
def test_no_small_number_of_a_kind_follows_from_the_others(name):
    table, least = np.array(TABLES[name]), 10
    small = (table > 0) & (table < least)
    hidden = kept_back(table, least)
    assert (hidden >= small).all()
    for cell in np.argwhere(small):
        low, high = feasible(table, hidden, cell)
        assert high - low >= 1, (name, cell.tolist())


def test_without_further_cells_kept_back_small_numbers_follow():
    """The control: small cells alone."""
    table = np.array(TABLES["one small cell"])
    assert feasible(table, table < 10, [0, 2]) == (3, 3)


def test_no_more_is_kept_back_than_has_to_be():
    assert kept_back(np.array(TABLES["one small cell"]), 10).sum() == 4, "two of each row and column"
    assert not kept_back(np.array([[100, 50, 30], [90, 60, 0]]), 10).any()
    assert kept_back(np.array(TABLES["one subgroup"]), 10).tolist() == [[False, True, True]]


def test_kinds_of_few_pictures_are_absent_from_a_bundle():
    blocks = drawn(FIVE, {"light": 400, "dark": 30})
    told = Evaluation.of(blocks, FIVE, [*blocks], None, least=10)
    every = Evaluation.of(blocks, FIVE, [*blocks], None)
    few = {kind: own.n for kind, own in every.by_subgroup["dark"].by_kind.items() if own.n < 10}
    assert few, "the control"
    assert not few.keys() & told.by_subgroup["dark"].by_kind.keys()
    assert told.all.by_kind.keys() == set(kinds_of(FIVE))
    for kind, own in told.all.by_kind.items():
        assert own.n == sum(group.by_kind[kind].n for group in every.by_subgroup.values())


def test_every_count_follows_from_the_metrics(test_of):
    """So a bundle of counts discloses no more of a patient than one of metrics alone."""
    blocks, labels, compared, traits, metrics, _ = test_of
    found = Evaluation.of(blocks, labels, compared, None, traits=traits)
    rebuilt = evaluation_of(metrics)
    for mine, theirs in [(found.all, rebuilt.all), *pairs(found.by_subgroup, rebuilt.by_subgroup)]:
        assert counts_of(mine).items() <= counts_of(theirs).items()
    for mine, theirs in pairs(found.by_class, rebuilt.by_class):
        assert (mine.n, mine.right, mine.given) == (theirs.n, theirs.right, theirs.given)
    for column, values in found.intersections.items():
        for value, cells in values.items():
            for mine, theirs in pairs(cells, rebuilt.intersections[column][value]):
                assert (mine is None) == (theirs is None)
                assert mine is None or counts_of(mine).items() <= counts_of(theirs).items()


def test_a_count_that_does_not_follow_is_found():
    """The control: malignant pictures of an intersection, which no metric tells."""
    blocks, labels = with_cells(FIVE), FIVE
    metrics = summarise(blocks, labels, [*blocks], None, TRAITS)
    cell = Evaluation.of(blocks, labels, [*blocks], None, traits=TRAITS).intersections["sex"]["female"][
        "light"
    ]
    lifted = cell.model_copy(update={"n_malignant": 40})
    known = counts_of(evaluation_of(metrics).intersections["sex"]["female"]["light"])
    assert counts_of(cell).items() <= known.items()
    assert not counts_of(lifted).items() <= known.items()


def pairs(mine, theirs):
    assert mine.keys() == theirs.keys()
    return [(mine[name], theirs[name]) for name in mine]


def counts_of(group):
    """Its counts but for those of no picture: 0 of 0 is no share, and says nothing."""
    record = group.model_dump(exclude={"estimates", "intervals", "decided"})
    record |= group.decided.model_dump() if group.decided else {}
    return {name: count for name, count in record.items() if count}


def test_a_copy_has_the_metrics_of_its_own_counts():
    whole = manifest_of(drawn(TWO), TWO)
    assert whole.metrics["n"] == 380
    group = GroupCounts(n=10, right=9)
    other = whole.model_copy(update={"evaluation": Evaluation(all=group), "reference": None})
    assert (other.metrics["accuracy"], whole.metrics["n"]) == (0.9, 380)
