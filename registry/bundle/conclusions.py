"""Conclusions: what is said of a lesion, at the finest level of the tree of diagnoses at which it is sure.

The tree has the levels `diagnosis` (each class), `group` (classes that are hard to tell apart) and
`malignancy` (malignant, or not). At each level the node of highest summed probability is asked: it is
concluded if its score bin reaches the node's threshold, else the next level is asked. A malignant node is
never concluded of a lesion that triage rules out, and any other node only of one: where malignancy is not
ruled out, nothing benign is concluded.

How often a node is wrong was limited for the lesions on which it is concluded, each node by itself
(`personalization.calibration.conclusions`): a limit over all conclusions would be met by the easy ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.counts import Concluded, Thresholds, ThresholdsOfEach, is_ruled_out
from registry.bundle.errors import CountsError
from registry.bundle.frozen import Frozen
from registry.bundle.labels import Label
from registry.bundle.score_bins import SCORE_BINS, malignancy_probability, score_bin

LevelName = Literal["diagnosis", "group", "malignancy"]
SIDES: Final = {True: ("malignant", "Malignant"), False: ("not-malignant", "Not malignant")}
"""Code and name of the nodes of the last level."""


@dataclass(frozen=True)
class Node:
    """A conclusion that can be drawn.

    Attributes:
        level: of the tree.
        code: of the class, or of the group or side.
        name: as a clinician reads it.
        classes: whose probabilities are summed, by their places among the labels.
        malignant: whether all of them are malignant; else none is.
    """

    level: LevelName
    code: str
    name: str
    classes: tuple[int, ...]
    malignant: bool


class Tree:
    """The tree of diagnoses of some labels.

    Attributes:
        levels: the nodes of each level, finest first; a level that is as the one before is left out.
        nodes: all nodes, level after level.
    """

    def __init__(self, labels: Sequence[Label]) -> None:
        """The tree of these labels.

        Raises:
            ValueError: a group has malignant classes and others.
        """
        malignant = [label.malignancy == "malignant" for label in labels]
        self._any_malignant = any(malignant)
        found: list[tuple[Node, ...]] = []
        of_level: dict[LevelName, list[tuple[str, str]]] = {
            "diagnosis": [(label.code, label.name) for label in labels],
            "group": [(label.group or label.code, label.group or label.name) for label in labels],
            "malignancy": [SIDES[each] for each in malignant],
        }
        for level, names in of_level.items():
            nodes = []
            for code, name in dict.fromkeys(names):
                classes = tuple(k for k, own in enumerate(names) if own == (code, name))
                if len({malignant[k] for k in classes}) > 1:
                    raise ValueError(
                        f"the group {name!r} has malignant classes and others; a group is of one side"
                    )
                nodes.append(Node(level, code, name, classes, malignant[classes[0]]))
            if len(nodes) > 1 and [one.classes for one in nodes] not in [
                [one.classes for one in before] for before in found
            ]:
                found.append(tuple(nodes))
        self.levels = tuple(found)
        self.nodes = tuple(node for level in found for node in level)

    def asked(
        self, level: int, probabilities: NDArray[Any], ruled_out: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The node of a level that is asked of each lesion, and the score bin of its probability.

        Args:
            level: its place among the levels.
            probabilities: `(n, classes)`.
            ruled_out: whether triage rules the lesion out, `(n,)`.

        Returns:
            Places among the nodes of the level, -1 of a lesion of which the node may not be concluded, and
            score bins, `(n,)` each.
        """
        nodes = self.levels[level]
        summed = np.stack([probabilities[:, list(node.classes)].sum(axis=1) for node in nodes], axis=1)
        of_each = summed.argmax(axis=1)
        malignant = np.array([node.malignant for node in nodes])[of_each]
        allowed = (malignant != ruled_out) | (not self._any_malignant)
        return np.where(allowed, of_each, -1), score_bin(summed[np.arange(len(summed)), of_each])

    def concluded(
        self, probabilities: NDArray[Any], ruled_out: NDArray[np.bool_], thresholds: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The node that is concluded of each lesion, `(n,)`: its place among all nodes, -1 of none.

        Args:
            probabilities: `(n, classes)`.
            ruled_out: `(n,)`.
            thresholds: of each node, `(nodes,)`, or for each lesion its own, `(n, nodes)`; `SCORE_BINS` for
                one that is never concluded.
        """
        found = np.full(len(probabilities), -1, dtype=np.int64)
        of_each = np.broadcast_to(thresholds, (len(found), len(self.nodes)))
        first = 0
        for level, nodes in enumerate(self.levels):
            asked, bins = self.asked(level, probabilities, ruled_out)
            sure = (asked >= 0) & (found < 0) & (bins >= of_each[np.arange(len(found)), first + asked])
            found[sure] = first + asked[sure]
            first += len(nodes)
        return found

    def count(
        self,
        probabilities: NDArray[Any],
        labels: NDArray[np.int64],
        malignant: NDArray[np.bool_],
        thresholds: Thresholds | ThresholdsOfEach | None,
    ) -> Concluded | None:
        """What is concluded of labelled pictures; None where there are no thresholds of nodes.

        Args:
            probabilities: `(n, classes)`.
            labels: class indices, `(n,)`.
            malignant: which classes are malignant, `(classes,)`.
            thresholds: of the model.
        """
        if thresholds is None or thresholds.nodes is None or not np.size(thresholds.nodes):
            return None
        if np.shape(thresholds.nodes)[-1] != len(self.nodes):
            raise CountsError(
                f"there are thresholds of {np.shape(thresholds.nodes)[-1]} nodes, and the tree of these "
                f"classes has {len(self.nodes)}; do server and client run the same job?"
            )
        ruled_out = is_ruled_out(score_bin(malignancy_probability(probabilities, malignant)), thresholds)
        found = self.concluded(probabilities, ruled_out, np.asarray(thresholds.nodes, dtype=np.int64))
        return Concluded(found, self.wrong(found, labels), len(self.nodes))

    def wrong(self, concluded: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of which lesions a node was concluded that their class is not of, `(n,)`."""
        of_node = np.zeros(
            (len(self.nodes) + 1, 1 + max(k for node in self.nodes for k in node.classes)), bool
        )
        for place, node in enumerate(self.nodes):
            of_node[place, list(node.classes)] = True
        return (concluded >= 0) & ~of_node[concluded, labels]


class NodeRule(Frozen):
    """The rule of a node that may be concluded.

    Attributes:
        level, code: of the node.
        threshold_bin: it is concluded from this score bin of its summed probability on.
        n: calibration lesions of which it was.
        wrong: those of them that are none of its classes.
        risk_high: the upper limit of the share that is wrong.
    """

    level: LevelName
    code: str
    threshold_bin: int = Field(ge=0, lt=SCORE_BINS)
    n: int = Field(ge=1)
    wrong: int = Field(ge=0)
    risk_high: float = Field(ge=0, le=1)


class Conclusions(Frozen):
    """The rules of conclusions.

    Attributes:
        target_risk: the share of wrong ones that is allowed at each node.
        level: how sure that is, of all nodes together.
        nodes: those of which it is shown; others are never concluded. None where nothing was calibrated.
    """

    target_risk: float = Field(0.1, ge=0, lt=1)
    level: float = Field(0.95, gt=0, lt=1)
    nodes: tuple[NodeRule, ...] = ()

    def thresholds(self, tree: Tree) -> NDArray[np.int64]:
        """The threshold of each node of the tree, `(nodes,)`."""
        known = {(one.level, one.code): one.threshold_bin for one in self.nodes}
        return np.array(
            [known.get((node.level, node.code), SCORE_BINS) for node in tree.nodes], dtype=np.int64
        )

    def rule_of(self, node: Node) -> NodeRule | None:
        """The rule of a node; None of one that is never concluded."""
        return next((one for one in self.nodes if (one.level, one.code) == (node.level, node.code)), None)
