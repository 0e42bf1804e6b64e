"""What a model's test showed, as `bundle.json` has it: counts of test pictures; metrics follow from them.

Of all test pictures, of each class and of each subgroup a bundle has numbers of pictures: how many there are,
how many were answered rightly, what the thresholds do to them. Every share is computed from these by
`Evaluation.metrics`, which report, gates, card and comparison read. What would need more than a bundle
discloses stands there as it was computed where the counts were: areas under curves, means over the classes of
a subgroup, differences between subgroups, and the ends of 95 % intervals, which depend on how alike pictures
of one lesion are.

`registry.bundle.consistency` finds counts that contradict each other. Whether they are those of a test that
was made, only a signature says (`registry.bundle.manifest.attested`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue, model_validator

from registry.bundle.conclusions import Tree
from registry.bundle.counting import Block
from registry.bundle.counts import Confusion, Counts, Decisions, KindSums, ScoreHistograms, Trait
from registry.bundle.frozen import Frozen
from registry.bundle.labels import UNDECLARED, Label, Subgroup, kinds_of, malignant_classes
from registry.bundle.metrics.intervals import mean_defined
from registry.bundle.metrics.selective import OF_KINDS, decided
from registry.bundle.metrics.summary import ANSWERS, BY_CLASS, FAIRNESS, METRICS, number, summarise
from registry.bundle.model import DISTANCE_BINS

Count = Annotated[int, Field(ge=0)]
Interval = tuple[float, float]
Metrics = dict[str, Any]

LOOSE: Final = 1e-6
"""How far the end of an interval may be from where it is computed again: it is found by iteration."""

_UNBOUNDED: Final = frozenset(
    {"set_size", "ece", "mce", "variance", "gap", "worst", "spread", "spread_standardised"}
)
"""Metrics whose intervals may end beyond 1: sizes, and distances whose limits are of drawn noise."""


SHARES: Final[Mapping[str, tuple[str, str]]] = {
    "accuracy": ("right", "n"),
    "malignant_sensitivity": ("found", "n_malignant"),
    "malignant_specificity": ("cleared", "n_other"),
    "coverage": ("covered", "n"),
    "answered": ("answered", "n"),
    "reported": ("reported", "n"),
    "reported_risk": ("reported_wrong", "reported"),
    "sensitivity_at_threshold": ("suspicious", "n_malignant"),
    "specificity_at_threshold": ("not_suspicious", "n_other"),
    "ruled_out_malignant": ("ruled_out_malignant", "n_malignant"),
    "ruled_out_other": ("ruled_out_other", "n_other"),
    "urgent_malignant": ("urgent_malignant", "n_malignant"),
    "urgent_other": ("urgent_other", "n_other"),
}
"""Metrics that are shares of pictures: the count of those that are so, and of those among which they are."""

_COUNTS: Final = ("n", "n_malignant", "n_other", "right", "found", "cleared")


class Decided(Frozen):
    """What a model's thresholds do to some test pictures.

    Attributes:
        covered: pictures whose prediction set has their class; None, as all that follows, where it is not
            disclosed.
        set_classes: classes in all prediction sets together.
        answered: pictures of which something is concluded, or that triage calls urgent or rules out.
        reported: pictures of which something is concluded.
        reported_wrong: of these, those that are none of the classes that were concluded.
        suspicious: malignant pictures at the working point or above; None without a working point.
        not_suspicious: other pictures below it.
        ruled_out_malignant, ruled_out_other: malignant and other pictures that triage rules out; None without
            triage.
        urgent_malignant, urgent_other: those that it calls urgent.
    """

    covered: Count | None = None
    set_classes: Count | None = None
    answered: Count | None = None
    reported: Count | None = None
    reported_wrong: Count | None = None
    suspicious: Count | None = None
    not_suspicious: Count | None = None
    ruled_out_malignant: Count | None = None
    ruled_out_other: Count | None = None
    urgent_malignant: Count | None = None
    urgent_other: Count | None = None

    @classmethod
    def of(cls, decisions: Decisions, kinds: KindSums | None) -> "Decided":
        """The sums over all lesions."""
        sums = {
            "covered": decisions.covered,
            "set_classes": decisions.set_sizes,
            "answered": decisions.answered,
            "reported": decisions.reported,
            "reported_wrong": decisions.wrong,
        }
        if decisions.at_working_point:
            sums |= {"suspicious": decisions.suspicious, "not_suspicious": decisions.cleared}
        if kinds is not None and kinds.triaged:
            for name, of in (("ruled_out", kinds.ruled_out), ("urgent", kinds.urgent)):
                sums |= {f"{name}_malignant": of[1:], f"{name}_other": of[:1]}
        return cls(**{name: int(of.x.sum()) for name, of in sums.items()})


class KindCounts(Frozen):
    """Some test pictures of a kind of malignancy.

    Attributes:
        n: how many.
        found: answered with a malignant class.
        suspicious: at the working point or above; None without a working point.
        ruled_out, urgent: by triage; None without it.
        intervals: the ends of 95 % intervals, by the name of the metric.
    """

    n: Annotated[int, Field(ge=1)]
    found: Count
    suspicious: Count | None = None
    ruled_out: Count | None = None
    urgent: Count | None = None
    intervals: Mapping[str, Interval] = Field(default_factory=dict)

    def shares(self) -> Iterator[tuple[str, int, int]]:
        """Each share: the name of its metric, of how many pictures it is true, and among how many."""
        for name, share in OF_KINDS.items():
            if (x := getattr(self, share)) is not None:
                yield name, x, self.n

    @model_validator(mode="after")
    def _parts_of_the_whole(self) -> "KindCounts":
        for name, x, n in self.shares():
            if x > n:
                raise ValueError(f"{name} is of {x} among {n} pictures; a part is at most the whole")
        if (self.ruled_out or 0) + (self.urgent or 0) > self.n:
            raise ValueError(
                f"{self.ruled_out} pictures ruled out and {self.urgent} urgent are more than {self.n}"
            )
        check_intervals(self.intervals, {name: x / n for name, x, n in self.shares()})
        return self


class AnswerCounts(Frozen):
    """Some test pictures of which the same was concluded.

    Attributes:
        n: how many.
        wrong: those of them that are none of its classes.
    """

    n: Annotated[int, Field(ge=1)]
    wrong: Count

    @model_validator(mode="after")
    def _parts_of_the_whole(self) -> "AnswerCounts":
        if self.wrong > self.n:
            raise ValueError(f"{self.wrong} wrong conclusions are more than {self.n}")
        return self


class GroupCounts(Frozen):
    """Some test pictures: all of them, or those of a subgroup.

    Attributes:
        n: how many; `n_malignant` of them are malignant and `n_other` are not. None, as all that follows,
            where it is not disclosed.
        right: answered with their own class.
        found: malignant ones answered with a malignant class.
        cleared: others answered with a class that is not malignant.
        decided: what the thresholds do to them.
        by_kind: those of each kind of malignancy, by its name; those of few pictures are absent, and others
            from which they would follow (`kept_back`).
        by_answer: those of which the same was concluded, by level and code of the node (`group/NEV`);
            likewise.
        estimates: metrics that do not follow from these counts, by name; None where undefined.
        intervals: the ends of 95 % intervals, by the name of the metric.
    """

    n: Count | None = None
    n_malignant: Count | None = None
    n_other: Count | None = None
    right: Count | None = None
    found: Count | None = None
    cleared: Count | None = None
    decided: Decided | None = None
    by_kind: Mapping[str, KindCounts] = Field(default_factory=dict)
    by_answer: Mapping[str, AnswerCounts] = Field(default_factory=dict)
    estimates: Mapping[str, float | None] = Field(default_factory=dict)
    intervals: Mapping[str, Interval] = Field(default_factory=dict)

    @classmethod
    def of(cls, block: Block, malignant: NDArray[np.bool_]) -> "GroupCounts":
        """The counts of a block, without estimates."""
        confusion = block.point.confusion
        of_class = confusion.sum(axis=-1)
        of_both = bool(malignant.any() and not malignant.all())
        return cls(
            n=int(of_class.sum()),
            n_malignant=int(of_class[malignant].sum()),
            n_other=int(of_class[~malignant].sum()),
            right=int(np.trace(confusion)),
            found=int(confusion[np.ix_(malignant, malignant)].sum()) if of_both else None,
            cleared=int(confusion[np.ix_(~malignant, ~malignant)].sum()) if of_both else None,
            decided=None if block.decisions is None else Decided.of(block.decisions, block.kinds),
        )

    def counts(self) -> dict[str, int]:
        """Every number that is disclosed, by its name."""
        decided = {} if self.decided is None else dict(self.decided)
        own = {name: getattr(self, name) for name in _COUNTS}
        return {name: count for name, count in (own | decided).items() if count is not None}

    def shares(self) -> Iterator[tuple[str, int, int]]:
        """Each share that is disclosed: its name, of how many pictures it is true, and among how many."""
        counts = self.counts()
        for name, (part, whole) in SHARES.items():
            if part in counts and whole in counts:
                yield name, counts[part], counts[whole]

    @model_validator(mode="after")
    def _parts_of_the_whole(self) -> "GroupCounts":
        known = [one for one in (self.n_malignant, self.n_other) if one is not None]
        if self.n is not None and (sum(known) > self.n or (len(known) == 2 and sum(known) != self.n)):
            raise ValueError(f"{' and '.join(map(str, known))} pictures of a kind are not {self.n} in all")
        for name, x, n in self.shares():
            if x > n:
                raise ValueError(f"{name} is of {x} among {n} pictures; a part is at most the whole")
        return self

    @model_validator(mode="after")
    def _estimates_that_can_be(self) -> "GroupCounts":
        computed = {name: x / n if n else None for name, x, n in self.shares()}
        if twice := sorted(computed.keys() & self.estimates.keys()):
            raise ValueError(f"{', '.join(twice)} follow from counts, and are no estimates")
        for name, value in self.estimates.items():
            most = np.inf if name in _UNBOUNDED else 1 + LOOSE
            if value is not None and not (np.isfinite(value) and 0 <= value <= most):
                raise ValueError(f"the estimate {name} is {value:g}; it is from 0 to 1")
        check_intervals(self.intervals, computed | dict(self.estimates))
        return self


def check_intervals(intervals: Mapping[str, Interval], values: Mapping[str, float | None]) -> None:
    """Checks intervals by themselves, and that each has its own value.

    Raises:
        ValueError: one cannot be.
    """
    for name, (low, high) in intervals.items():
        value = values.get(name)
        most = np.inf if name in _UNBOUNDED else 1 + LOOSE
        if not (np.isfinite([low, high]).all() and -LOOSE <= low <= high + LOOSE and high <= most):
            raise ValueError(f"the interval of {name} is {low:g} to {high:g}; it is within 0 and 1")
        if value is not None and not low - LOOSE <= value <= high + LOOSE:
            raise ValueError(f"{name} is {value:g}, and its interval {low:g} to {high:g} does not have it")


class ClassCounts(Frozen):
    """The test pictures of a class.

    Attributes:
        n: how many.
        right: answered with the class.
        given: how many of all test pictures were; None of a class without pictures.
        auroc, auprc: areas under its curves; None where undefined.
    """

    n: Count
    right: Count
    given: Count | None = None
    auroc: float | None = Field(None, ge=0, le=1)
    auprc: float | None = Field(None, ge=0, le=1)

    @model_validator(mode="after")
    def _parts_of_the_whole(self) -> "ClassCounts":
        if self.right > self.n or (self.given is not None and self.right > self.given):
            raise ValueError(
                f"{self.right} right answers are more than {self.n} pictures or {self.given} answers"
            )
        return self


class Fairness(Frozen):
    """What of fairness does not follow from the accuracies of the subgroups.

    Attributes:
        spread_standardised: the spread at one mix of classes; None where there is no such mix.
        intervals: the ends of 95 % intervals, by the name of the metric.
    """

    spread_standardised: float | None = Field(None, ge=0, le=1)
    intervals: Mapping[str, Interval] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _intervals_that_can_be(self) -> "Fairness":
        check_intervals(self.intervals, {"spread_standardised": self.spread_standardised})
        return self


class Difference(Frozen):
    """A difference of a metric between two subgroups, at one mix of classes.

    Attributes:
        between: the subgroups; the first less the second.
        figure: the metric.
        value: the difference.
        interval: its 95 % interval.
        p: two-sided; `p_adjusted` over all pairs (Holm).
    """

    between: tuple[str, str]
    figure: str
    value: float = Field(ge=-1, le=1)
    interval: Interval
    p: float | None = Field(None, ge=0, le=1)
    p_adjusted: float | None = Field(None, ge=0, le=1)

    @model_validator(mode="after")
    def _within_its_interval(self) -> "Difference":
        low, high = self.interval
        if not -1 - LOOSE <= low <= self.value + LOOSE or not self.value - LOOSE <= high <= 1 + LOOSE:
            raise ValueError(f"the difference {self.value:g} is not within {low:g} to {high:g}")
        return self


class SubgroupHistograms(ScoreHistograms):
    """The histograms of one subgroup's test pictures.

    Attributes:
        subgroup: whose they are.
    """

    subgroup: Subgroup


class ReferenceHistograms(ScoreHistograms):
    """The histograms of all test pictures: what drift is measured against.

    Attributes:
        distances: the distance from the training pictures, one count per distance bin; None where nothing is
            called unfamiliar.
        by_subgroup: those of single subgroups, in the global model.
    """

    distances: tuple[int, ...] | None = Field(None, min_length=DISTANCE_BINS, max_length=DISTANCE_BINS)
    by_subgroup: tuple[SubgroupHistograms, ...] = ()


Intersections = Mapping[str, Mapping[str, Mapping[str, GroupCounts | None]]]


class Evaluation(Frozen):
    """What the test of a model showed.

    Attributes:
        all: all test pictures.
        by_class: those of each class, by its code.
        by_subgroup: those of each subgroup, and of no declared one (`undeclared`).
        absent: subgroups without test pictures.
        missing: how many hospitals, and pictures, could not be counted; empty where none are missing.
        fairness: None where it is not disclosed.
        differences: between pairs of subgroups.
        intersections: subgroups and traits, by column, value and subgroup; None where they are few.
    """

    all: GroupCounts = GroupCounts()
    by_class: Mapping[str, ClassCounts] = Field(default_factory=dict)
    by_subgroup: Mapping[str, GroupCounts] = Field(default_factory=dict)
    absent: tuple[str, ...] = ()
    missing: Mapping[str, JsonValue] = Field(default_factory=dict)
    fairness: Fairness | None = None
    differences: tuple[Difference, ...] | None = None
    intersections: Intersections = Field(default_factory=dict)

    @classmethod
    def of(
        cls,
        blocks: Mapping[str, Block],
        labels: Sequence[Label],
        subgroups: Sequence[str],
        reference: ReferenceHistograms | None,
        *,
        traits: Mapping[str, Sequence[str]] | None = None,
        missing: Mapping[str, JsonValue] | None = None,
        least: int = 1,
    ) -> "Evaluation":
        """What the counts of a test disclose.

        Args:
            blocks: the added-up counts of each subgroup.
            labels: the classes.
            subgroups: those that fairness compares.
            reference: the histograms that the bundle has.
            traits: the columns of intersections, as of `summarise`.
            missing: as in the attributes.
            least: how many pictures of a kind of malignancy there are, at least, where they are disclosed.
        """
        malignant, total = malignant_classes(labels), reduce(add, blocks.values())
        details = {
            name: decided(one.decisions, one.kinds)
            for name, one in blocks.items()
            if one.decisions is not None
        }
        found = summarise(blocks, labels, subgroups, details, traits)
        if total.decisions is not None:
            of_all = decided(total.decisions, total.kinds)
            found |= of_all | {"intervals": {**found["intervals"], **of_all["intervals"]}}

        def cell(metrics: Metrics, name: str, trait: Trait) -> GroupCounts:
            counted = blocks[name].cells[trait]
            counts = GroupCounts(n=int(counted.n), right=int(np.trace(counted.confusion)))
            return _with_estimates(counts, metrics, _of_group(counts, {}))

        counted = cls(
            all=GroupCounts.of(total, malignant),
            by_class=_by_class(total.point, labels, found["by_class"]),
            by_subgroup={name: GroupCounts.of(blocks[name], malignant) for name in found["by_subgroup"]},
            absent=tuple(found["absent"]),
            missing=missing or {},
            fairness=Fairness(
                spread_standardised=found["fairness"]["spread_standardised"],
                intervals=_known(found["fairness"]["intervals"]),
            ),
            differences=tuple(Difference(**one) for one in found["differences"]),
            intersections=_each_cell(found.get("intersections", {}), cell),
        )
        computed = counted.metrics(labels, reference)
        groups = {
            name: _with_estimates(group, found["by_subgroup"][name], computed["by_subgroup"][name])
            for name, group in counted.by_subgroup.items()
        }
        whole = _with_estimates(counted.all, found, computed)
        named: dict[str | None, Block] = {name: blocks[name] for name in groups}
        kinds = disclosed({name: _of_kinds(of) for name, of in named.items()}, _of_kinds(total), least)
        nodes = disclosed({name: _of_nodes(of) for name, of in named.items()}, _of_nodes(total), least)
        tree = Tree(labels)

        def with_cells(group: GroupCounts, name: str | None, block: Block, metrics: Metrics) -> GroupCounts:
            answers = _answers(block, nodes[name], tree)
            cells = {"by_kind": _kinds(block.kinds, metrics, kinds[name], labels), "by_answer": answers}
            return group.model_copy(update=cells)

        whole = with_cells(whole, None, total, found)
        groups = {
            name: with_cells(group, name, blocks[name], found["by_subgroup"][name])
            for name, group in groups.items()
        }
        return counted.model_copy(update={"all": whole, "by_subgroup": groups})

    def metrics(self, labels: Sequence[Label], reference: ReferenceHistograms | None = None) -> Metrics:
        """Every metric, by the names of `summarise`: None where it is undefined.

        Args:
            labels: the classes.
            reference: histograms of the same test pictures, from which errors of calibration follow.
        """
        histograms: dict[str, ScoreHistograms] = {}
        if reference is not None:
            histograms = {one.subgroup.name: one for one in reference.by_subgroup}
        of_classes, by_class = _of_classes(self.by_class, labels)
        whole = _of_group(self.all, of_classes | _of_histograms(reference, ("ece", "mce", "aurc")))
        found: Metrics = {
            **whole,
            "by_subgroup": {
                name: _of_group(group, _of_histograms(histograms.get(name), ("ece", "mce")))
                for name, group in self.by_subgroup.items()
            },
            "absent": list(self.absent),
        }
        if by_class:
            found["by_class"] = by_class
        if self.fairness is not None:
            found["fairness"] = self._fairness(self.fairness)
        if self.differences is not None:
            found["differences"] = [one.model_dump(mode="json") for one in self.differences]
        if self.intersections:
            found["intersections"] = _each_cell(
                self.intersections, lambda cell, name, trait: _of_group(cell, {})
            )
        return found | ({"missing": dict(self.missing)} if self.missing else {})

    def _fairness(self, estimated: Fairness) -> Metrics:
        groups = {name: group for name, group in self.by_subgroup.items() if name != UNDECLARED}
        compared = {
            name: Confusion(np.array([[group.right, group.n - group.right], [0, 0]], dtype=np.int64))
            for name, group in groups.items()
            if group.right is not None and group.n
        }
        found: Metrics = dict.fromkeys(FAIRNESS)
        if len(compared) == len(groups):
            of_accuracy = FAIRNESS.keys() - {"spread_standardised"}
            found |= {name: number(FAIRNESS[name](compared)) for name in of_accuracy}
        found["spread_standardised"] = estimated.spread_standardised
        return found | {"intervals": {name: _ends(estimated.intervals.get(name)) for name in found}}


def disclosed(
    groups: Mapping[str | None, NDArray[np.int64]], total: NDArray[np.int64], least: int
) -> dict[str | None, NDArray[np.bool_]]:
    """Which cells are disclosed of each subgroup, and of all pictures (None), `(cells,)`.

    Args:
        groups: pictures of each cell of each subgroup, `(cells,)`.
        total: those of all.
        least: the fewest of a cell that is disclosed.
    """
    n = np.array(list(groups.values()), dtype=np.int64).reshape(len(groups), len(total))
    shown = dict(zip(groups, (n > 0) & ~kept_back(n, least), strict=True))
    return shown | {None: (total > 0) & ~kept_back(total[np.newaxis], least)[0]}


def _of_kinds(block: Block) -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64) if block.kinds is None else block.kinds.found.n[1:]


def _of_nodes(block: Block) -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64) if block.nodes is None else block.nodes[:, 0]


def _answers(block: Block, shown: NDArray[np.bool_], tree: Tree) -> dict[str, AnswerCounts]:
    if block.nodes is None:
        return {}
    return {
        f"{node.level}/{node.code}": AnswerCounts(n=n, wrong=wrong)
        for node, (n, wrong), known in zip(tree.nodes, block.nodes.tolist(), shown, strict=True)
        if known
    }


def kept_back(n: NDArray[np.int64], least: int) -> NDArray[np.bool_]:
    """Which cells of a table whose sums of rows and columns are known are not disclosed, `(rows, columns)`.

    Those of fewer than `least` pictures, and as many others as keep them from following: what is kept back of
    a row or column is of `least` pictures or more, and no cell of it follows from the sums. Where it is not
    so, the smallest cell of it that is disclosed is kept back as well; where none is left, one without any
    pictures, which then may not follow either.

    Args:
        n: pictures of each cell, `(rows, columns)`; of one row no sums of columns are known.
        least: the fewest of a cell that is disclosed.
    """
    hidden = (n > 0) & (n < least)
    lines: list[Any] = [np.s_[i, :] for i in range(n.shape[0])]
    lines += [np.s_[:, j] for j in range(n.shape[1])] if n.shape[0] > 1 else []
    of_lines = np.array([_mask(n.shape, line).ravel() for line in lines], dtype=np.int64)

    def follows(cell: int) -> bool:
        """Whether the sums determine a hidden cell: it is in no cycle of hidden ones."""
        others = hidden.ravel().copy()
        others[cell] = False
        rank = np.linalg.matrix_rank
        return not others.any() or bool(rank(of_lines[:, hidden.ravel()]) > rank(of_lines[:, others]))

    changed = True
    while changed:
        changed = False
        for line in lines:
            cells = np.flatnonzero(_mask(n.shape, line) & hidden)
            few = n[line][hidden[line]].sum() < least or any(map(follows, cells.tolist()))
            left = sorted(
                (not size, size, place) for place, size in enumerate(n[line]) if not hidden[line][place]
            )
            if len(cells) and few and left:
                hidden[line][left[0][-1]] = changed = True
    return hidden


def _mask(shape: tuple[int, ...], line: Any) -> NDArray[np.bool_]:
    mask = np.zeros(shape, dtype=np.bool_)
    mask[line] = True
    return mask


def _kinds(
    sums: KindSums | None, found: Metrics, told: NDArray[np.bool_], labels: Sequence[Label]
) -> dict[str, KindCounts]:
    """The counts of each kind that is disclosed, with the intervals of its metrics."""
    if sums is None:
        return {}
    return {
        kind: KindCounts(
            n=int(sums.found.n[row]),
            intervals=_known(found["by_kind"][kind]["intervals"]),
            **{share: int(of.x[0]) for share, of in sums.of(row).items()},
        )
        for row, kind in enumerate(kinds_of(labels), start=1)
        if told[row - 1] and sums.found.n[row]
    }


def _of_group(group: GroupCounts, more: Metrics) -> Metrics:
    """The metrics of some pictures, with `more` that follows from other counts of them."""
    found: Metrics = {name: x / n if n else None for name, x, n in group.shares()}
    known = group.counts()
    if "set_classes" in known and "n" in known:
        found["set_size"] = known["set_classes"] / known["n"] if known["n"] else None
    found |= dict(group.estimates) | more
    intervals = {name: _ends(group.intervals.get(name)) for name in found}
    pictures = {name: known[name] for name in ("n", "n_malignant", "n_other") if name in known}
    kinds = {
        kind: {"n": own.n}
        | {name: x / n for name, x, n in own.shares()}
        | {"intervals": {name: _ends(own.intervals.get(name)) for name, _, _ in own.shares()}}
        for kind, own in group.by_kind.items()
    }
    answers = {name: own.model_dump() for name, own in group.by_answer.items()}
    more = {name: of for name, of in (("by_kind", kinds), ("by_answer", answers)) if of}
    return pictures | found | {"intervals": intervals} | more


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _known(intervals: Mapping[str, Any]) -> dict[str, Interval]:
    return {name: (ends[0], ends[1]) for name, ends in intervals.items() if ends is not None}


def _with_estimates(group: GroupCounts, found: Metrics, computed: Metrics) -> GroupCounts:
    """The counts with those metrics of `found` that were not computed from them, and all intervals."""
    estimates = {name: found[name] for name in found["intervals"] if name not in computed}
    return group.model_copy(update={"estimates": estimates, "intervals": _known(found["intervals"])})


def _each_cell(
    cells: Mapping[str, Mapping[str, Mapping[str, Any]]], make: Callable[[Any, str, Trait], Any]
) -> dict[str, dict[str, dict[str, Any]]]:
    """What is made of each cell by column, value and subgroup; None where it is not disclosed."""
    return {
        column: {
            value: {
                name: None if cell is None else make(cell, name, (column, value))
                for name, cell in of_value.items()
            }
            for value, of_value in of_column.items()
        }
        for column, of_column in cells.items()
    }


def _by_class(counts: Counts, labels: Sequence[Label], found: Metrics) -> dict[str, ClassCounts]:
    matrix = counts.confusion
    pictures, given = matrix.sum(axis=-1), matrix.sum(axis=-2)
    return {
        label.code: ClassCounts(
            n=int(pictures[k]),
            right=int(matrix[k, k]),
            given=int(given[k]) if pictures[k] else None,
            auroc=found[label.code]["auroc"],
            auprc=found[label.code]["auprc"],
        )
        for k, label in enumerate(labels)
    }


def _of_classes(by_class: Mapping[str, ClassCounts], labels: Sequence[Label]) -> tuple[Metrics, Metrics]:
    """Metrics of all pictures that follow from the classes, and those of each class."""
    if not by_class:
        return {}, {}
    rows = [by_class[label.code] for label in labels]
    matrix = _matrix(rows)
    whole: Metrics = {name: number(metric.value(matrix)) for name, metric in ANSWERS.items()}
    for name in ("auroc", "auprc"):
        areas = np.array([np.nan if (value := getattr(row, name)) is None else value for row in rows])
        whole[name] = number(mean_defined(areas))
    shares = {name: BY_CLASS[name].value(matrix) for name in ("recall", "precision", "f1", "specificity")}
    each = {
        label.code: {"n": row.n}
        | {name: number(values[k]) for name, values in shares.items()}
        | {"auroc": row.auroc, "auprc": row.auprc}
        for k, (label, row) in enumerate(zip(labels, rows, strict=True))
    }
    return whole, each


def _matrix(rows: Sequence[ClassCounts]) -> Confusion:
    """A confusion matrix with these sums of rows, of columns and on the diagonal.

    No metric depends on more. Answers with classes that have no pictures are in the first of these. Wrong
    answers go from every class to the first and from the first to every class; what is left goes round
    through the second and third, where entries may be negative.
    """
    n, right = (np.array([getattr(row, name) for row in rows], dtype=np.int64) for name in ("n", "right"))
    given = np.array([row.given or 0 for row in rows], dtype=np.int64)
    absent = [k for k, row in enumerate(rows) if row.given is None]
    if absent:
        given[absent[0]] = n.sum() - given.sum()
    wrong, false = n - right, given - right
    matrix = np.diag(right)
    matrix[1:, 0], matrix[0, 1:] = wrong[1:], false[1:]
    if len(rows) > 2:
        left = int(wrong[0] + false[0] - wrong.sum())
        matrix[0, 1] += left
        matrix[2, 0] += left
        matrix[2, 1] -= left
    return Confusion(matrix)


def _of_histograms(given: ScoreHistograms | None, names: Iterable[str]) -> Metrics:
    """Errors of calibration from the highest probabilities of right and of wrong answers."""
    if given is None or given.right is None:
        return {}
    right = np.array(given.right, dtype=np.int64)
    wrong = np.array(given.confidence, dtype=np.int64) - right
    nothing = np.zeros((2, len(right)), dtype=np.int64)
    confusion = np.array([[right.sum(), wrong.sum()], [0, 0]], dtype=np.int64)
    counts = Counts(confusion, nothing[np.newaxis], nothing, np.stack([wrong, right]))
    return {name: number(METRICS[name].value(counts)) for name in names}
