"""What a bundle keeps of a test: metrics from its counts, and nothing that the metrics do not tell."""

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest

from registry.bundle.counts.counting import count
from registry.bundle.evaluation import Evaluation, GroupCounts, ReferenceHistograms, SubgroupHistograms
from registry.bundle.labels import UNDECLARED, Label, Subgroup, malignant_classes
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
    details = {name: decided(block.decisions) for name, block in blocks.items()}
    of_all = decided(reduce(add, blocks.values()).decisions)
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
