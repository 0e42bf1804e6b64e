"""What a run writes is never refused, whatever it counted."""

import json

import numpy as np
import pytest

from registry.bundle.counts.counts import Thresholds
from registry.bundle.labels import Label, Subgroup
from registry.bundle.manifest import canonical, read_manifest
from registry.bundle.recount import recount
from tests.measured import FIVE, TWO, blocks_of, manifest_of
from tests.thresholds import at_log_odds

BENIGN = tuple(label.model_copy(update={"malignancy": "benign"}) for label in FIVE[:3])
THREE = (*FIVE[:2], Label(code="XX", name="Another", malignancy="unknown"))


@pytest.mark.parametrize("labels", [TWO, THREE, FIVE, BENIGN], ids=["two", "three", "five", "benign"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"light": 150, "dark": 30},
        {"dark": 40, "light": 90, "undeclared": 25},
        {"light": 7, "dark": 3},
        {"light": 40},
        {"undeclared": 30},
    ],
    ids=["two", "undeclared", "few", "one", "none"],
)
@pytest.mark.parametrize(("seed", "smallest", "skill"), [(0, 5, 1.5), (1, 1, 0.0), (2, 3, 6.0), (3, 5, -2.0)])
def test_what_was_counted_is_what_is_told(labels, sizes, seed, smallest, skill):
    blocks = blocks_of(np.random.default_rng(seed), labels, sizes, skill=skill, smallest=smallest)
    rules = {} if labels is not BENIGN else {"working_point": None}
    manifest = manifest_of(blocks, labels, smallest=smallest, **rules)
    found = recount(read_manifest(canonical(manifest)))  # names in JSON lose their order
    assert [str(one) for one in found.problems] == []
    assert found.sources == ("classes", "subgroups", "histograms")


@pytest.mark.parametrize("smallest", [1, 5])
@pytest.mark.parametrize("edge", [(0, 0, 0), (0, 320, 320), (at_log_odds(2), at_log_odds(3), None)])
def test_thresholds_of_any_kind_are_theirs(smallest, edge):
    rules = Thresholds(*edge)
    blocks = blocks_of(
        np.random.default_rng(4), FIVE, {"light": 80, "dark": 50}, smallest=smallest, rules=rules
    )
    none = {"working_point": None} if edge[2] is None else {}
    manifest = manifest_of(blocks, FIVE, smallest=smallest, rules=rules, **none)
    assert recount(manifest).problems == ()


def test_a_subgroups_model_tells_of_its_own():
    dark = Subgroup(name="dark", scale="fitzpatrick", values=("5",))
    blocks = blocks_of(np.random.default_rng(5), TWO, {"dark": 60})
    assert recount(manifest_of(blocks, TWO, dark)).problems == ()


@pytest.mark.parametrize(
    "metrics", [{}, {"n": 50, "accuracy": 0.8}, json.loads('{"by_class": 7, "n": null}')]
)
def test_without_counts_nothing_is_computed_again(manifest, metrics):
    found = recount(manifest(metrics=metrics))
    assert (found.problems, found.sources) == ((), ())
