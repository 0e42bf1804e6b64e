"""The tree of diagnoses: which levels there are, and what is concluded at which."""

import numpy as np
import pytest

from registry.bundle.conclusions import Conclusions, NodeRule, Tree
from registry.bundle.counts import Thresholds, ThresholdsOfEach
from registry.bundle.errors import CountsError
from registry.bundle.labels import Label
from registry.bundle.score_bins import SCORE_BINS, score_bin
from tests.measured import GROUPED

TREE = Tree(GROUPED)
CODES = ["BCC", "SCC", "MEL", "NV", "keratinocyte cancer", "MEL", "NV", "malignant", "not-malignant"]


def thresholds(**of):
    """From which probability on nodes are concluded, by level and code with `_` between them."""
    rules = [
        NodeRule(
            level=level, code=code, threshold_bin=int(score_bin(np.array(p))), n=50, wrong=1, risk_high=0.1
        )
        for (level, code), p in ((name.split("_"), p) for name, p in of.items())
    ]
    return Conclusions(target_risk=0.1, level=0.95, nodes=tuple(rules)).thresholds(TREE)


def concluded(probabilities, at, ruled_out=False):
    place = int(TREE.concluded(np.array([probabilities]), np.array([ruled_out]), at)[0])
    return None if place < 0 else (TREE.nodes[place].level, TREE.nodes[place].code)


def test_levels_go_from_single_diagnoses_to_sides():
    assert [node.code for node in TREE.nodes] == CODES
    assert [len(level) for level in TREE.levels] == [4, 3, 2]
    plain = Tree([label.model_copy(update={"group": None}) for label in GROUPED])
    assert [len(level) for level in plain.levels] == [4, 2], "groups of one class each are no level"
    assert [len(level) for level in Tree(GROUPED[2:]).levels] == [2], "nor are sides that are classes"


def test_a_node_without_a_rule_is_never_concluded_and_a_rule_is_of_one_level():
    rule = NodeRule(level="group", code="keratinocyte cancer", threshold_bin=0, n=60, wrong=0, risk_high=0.09)
    rules = Conclusions(nodes=(rule,))
    thresholds = rules.thresholds(TREE)
    assert concluded([0, 0, 1, 0], thresholds) is None, "not even where it is certain"
    assert concluded([1, 0, 0, 0], thresholds) == ("group", "keratinocyte cancer")
    of_codes = [(node.code, rules.rule_of(node) is not None) for node in TREE.nodes]
    assert [code for code, has in of_codes if has] == ["keratinocyte cancer"]
    melanoma = rule.model_copy(update={"code": "MEL"})
    found = [node.level for node in TREE.nodes if Conclusions(nodes=(melanoma,)).rule_of(node) == melanoma]
    assert found == ["group"], "the diagnosis has the same code"


def test_a_group_of_both_sides_is_refused():
    with pytest.raises(ValueError, match="malignant classes and others"):
        Tree([*GROUPED, Label(code="AK", name="k", malignancy="premalignant", group="keratinocyte cancer")])


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ([0.8, 0.1, 0.05, 0.05], ("diagnosis", "BCC")),
        ([0.5, 0.4, 0.05, 0.05], ("group", "keratinocyte cancer")),
        ([0.4, 0.2, 0.35, 0.05], ("malignancy", "malignant")),
        ([0.3, 0.2, 0.2, 0.3], None),
        ([0.05, 0.05, 0.1, 0.8], None),
    ],
)
def test_the_finest_level_that_is_sure_is_concluded(probabilities, expected):
    at = thresholds(diagnosis_BCC=0.7, **{"group_keratinocyte cancer": 0.8}, malignancy_malignant=0.9)
    assert concluded(probabilities, at) == expected


def test_nothing_benign_is_concluded_unless_it_is_ruled_out_and_nothing_malignant_then():
    at = thresholds(diagnosis_NV=0.7, malignancy_malignant=0.0)
    naevus, unclear = [0.05, 0.05, 0.1, 0.8], [0.2, 0.2, 0.2, 0.4]
    assert concluded(naevus, at) is None
    assert concluded(naevus, at, ruled_out=True) == ("diagnosis", "NV")
    assert concluded(unclear, at) == ("malignancy", "malignant")
    assert concluded(unclear, at, ruled_out=True) is None


def test_where_no_class_is_malignant_nothing_has_to_be_ruled_out():
    tree = Tree([Label(code=code, name=code, malignancy="benign") for code in ("NV", "DF")])
    found = tree.concluded(np.array([[0.9, 0.1]]), np.array([False]), np.zeros(len(tree.nodes), dtype=int))
    assert tree.nodes[found[0]].code == "NV"


def test_what_is_wrong_is_what_the_node_is_not_of():
    places = [CODES.index("keratinocyte cancer"), CODES.index("keratinocyte cancer"), -1, 0]
    assert TREE.wrong(np.array(places), np.array([1, 2, 3, 0])).tolist() == [False, True, False, False]


def test_each_picture_may_have_thresholds_of_its_own():
    at = np.stack([np.zeros(len(TREE.nodes), dtype=int), np.full(len(TREE.nodes), SCORE_BINS)])
    probabilities, labels = np.array([[0.1, 0.1, 0.7, 0.1]] * 2), np.array([0, 2])
    malignant = np.array([True, True, True, False])
    rules = ThresholdsOfEach(*np.zeros((2, 2), dtype=int), nodes=at)
    found = TREE.count(probabilities, labels, malignant, rules)
    assert found.node.tolist() == [2, -1]
    assert found.count()[2].tolist() == [1, 1], "a wrong melanoma"
    assert TREE.count(probabilities, labels, malignant, Thresholds(0)) is None
    with pytest.raises(CountsError, match="thresholds of 3 nodes"):
        TREE.count(probabilities, labels, malignant, Thresholds(0, nodes=(1, 2, 3)))
