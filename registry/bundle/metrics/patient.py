"""What matters for a patient: malignant lesions found, what that costs, and what went wrong in a run.

`patient_figures` reads how many malignant lesions are found, and what that costs, for each subgroup, from
metrics as `summarise` or a bundle has them. A metric of few pictures is shown like any other, with its
interval; where it is undefined, words say why. Sensitivity is read by kind of malignancy as well: that of all
of them is mostly of the kind that is common.

`findings` are what went wrong:

| kind | of a subgroup, or of all pictures together |
| --- | --- |
| `lost_sensitivity` | a stage lowered malignant sensitivity by more than 5 points, or by more than chance |
| `missed_sensitivity` | at the working point, sensitivity on test pictures is below its target |
| `missed_risk` | of the answers given, more were wrong than the target allows |
| `nearly_nobody_answered` | fewer than 20 % of the pictures got an answer |
| `untested` | there are no malignant test pictures, or none at all |

Of a single kind of malignancy a missed sensitivity is reported where it is more than chance.

More than chance is a loss, or a miss, whose 95 % interval excludes none. That of a loss is of independent
metrics (MOVER, Zou & Donner 2008): the same pictures were judged, but which of them were found before and
after is not known, so that the interval is wider than it need be. All that is found is reported, chance or
not.

`GAINS` are how much a second model gains over a first on the same pictures, with one-sided limits. Of n
pictures g are right with the second model alone and l with the first alone; the difference of the two
proportions of right ones is d = (g − l) / n. Its lower limit is where the score test of Tango (1998, equation
8) of "the difference is Δ" rejects smaller ones:

    (g − l − n Δ) / √(n (2 q + Δ (1 − Δ))) = z,   q = (√(B² − 4 A C) − B) / (2 A),
    A = 2 n,   B = −g − l + (2 n − g + l) Δ,   C = −l Δ (1 − Δ),

which has width also where nothing changed: then it is −z² / (n + z²). The limit of the mean of K differences
of different pictures follows by MOVER: d̄ − √(Σ_k (d_k − low_k)²) / K. Pictures of a lesion are not
independent: n of them are worth n / deff, deff = Σ_g n_g² / n, as if they were all alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from registry.bundle.labels import GLOBAL, UNDECLARED
from registry.bundle.lesion_counts import PairedCounts
from registry.bundle.metrics.intervals import Figure, Limits

ALL: Final = "all"
"""All test pictures together."""

COUNTS: Final = ("n", "n_malignant", "n_other")
"""Numbers of test pictures: of all, of malignant ones and of others."""

FIGURES: Final[Mapping[str, str]] = {
    "malignant_sensitivity": "sensitivity",
    "malignant_specificity": "specificity",
    "malignancy_auroc": "AUROC",
    "balanced_accuracy": "balanced accuracy",
}
"""What counts, in the order in which it is read, and what it is called."""

AT_WORKING_POINT: Final[Mapping[str, str]] = {
    "sensitivity_at_threshold": "sensitivity at the working point",
    "specificity_at_threshold": "specificity at the working point",
}
"""What comes beside them where a model has a working point."""

OF_A_KIND: Final[Mapping[str, str]] = {
    "malignant_sensitivity": "sensitivity",
    "sensitivity_at_threshold": "sensitivity at the working point",
    "ruled_out": "ruled out",
    "urgent": "urgent",
}
"""What is read of each kind of malignancy, and what it is called."""

_SIDES: Final = ("malignant_sensitivity", "malignant_specificity")
_OF_MALIGNANCY: Final = (*_SIDES, "malignancy_auroc", *AT_WORKING_POINT)

NO_MALIGNANT: Final = "no malignant pictures"
NO_OTHER: Final = "no other pictures"
UNKNOWN: Final = "unknown"
TOO_FEW: Final = "too few to tell"
"""What is said of numbers that are not disclosed."""


@dataclass(frozen=True)
class Told:
    """A figure: a value and its 95 % interval, or words on why there is none.

    `n` are the pictures behind it, where they are not those of the whole row.
    """

    value: float | None
    interval: tuple[float, float] | None = None
    words: str = ""
    n: int | None = None

    def __str__(self) -> str:
        if self.value is None:
            return self.words
        ends = "" if self.interval is None else f" ({self.interval[0]:.3f} to {self.interval[1]:.3f})"
        return f"{self.value:.3f}{ends}{'' if self.n is None else f', n {self.n}'}"


@dataclass(frozen=True)
class KindFigures:
    """What counts of the malignant pictures of one kind.

    Attributes:
        n: test pictures.
        figures: of `OF_A_KIND`, by name.
    """

    n: int
    figures: Mapping[str, Told]


@dataclass(frozen=True)
class PatientFigures:
    """What counts of one subgroup.

    Attributes:
        n: test pictures; None if not disclosed, as the next two.
        n_malignant: malignant ones.
        n_other: those that are not.
        figures: of `FIGURES`, and of `AT_WORKING_POINT` where they are disclosed, by name.
        by_kind: of each kind of malignancy where there are several; None of one that is too few to tell.
    """

    n: int | None
    n_malignant: int | None
    n_other: int | None
    figures: Mapping[str, Told]
    by_kind: Mapping[str, KindFigures | None] = field(default_factory=dict)


def patient_figures(metrics: Mapping[str, Any], kinds: Sequence[str] = ()) -> dict[str, PatientFigures]:
    """What counts, of all pictures under `ALL` and of each subgroup that was tested.

    Args:
        metrics: as `summarise` makes them.
        kinds: of malignancy; without them, those that any row has.
    """
    rows: dict[str, Mapping[str, Any]] = {ALL: metrics, **metrics.get("by_subgroup", {})}
    kinds = kinds or list(dict.fromkeys(kind for row in rows.values() for kind in row.get("by_kind", ())))
    return {
        name: PatientFigures(
            row.get("n"),
            row.get("n_malignant"),
            row.get("n_other"),
            {name: told(row, name) for name in (*FIGURES, *AT_WORKING_POINT) if name in {*FIGURES, *row}},
            figures_by_kind(row, kinds),
        )
        for name, row in rows.items()
    }


def figures_by_kind(row: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, KindFigures | None]:
    """What counts of each kind of malignancy in a row of metrics; nothing where there is but one kind."""
    known = row.get("by_kind", {})
    return {
        kind: None
        if (of := known.get(kind)) is None
        else KindFigures(
            of["n"],
            {name: replace(told(of, name), n=of["n"]) for name in OF_A_KIND if of.get(name) is not None},
        )
        for kind in (kinds if len(kinds) > 1 else ())
    }


def sides(row: Mapping[str, Any]) -> str:
    """`21 malignant, 79 other`; empty where a row of figures does not tell it."""
    n_malignant, n_other = row.get("n_malignant"), row.get("n_other")
    return "" if n_malignant is None or n_other is None else f"{n_malignant} malignant, {n_other} other"


def told(row: Mapping[str, Any], name: str) -> Told:
    """One figure of a row, or why there is none."""
    if (value := row.get(name)) is not None:
        ends = row.get("intervals", {}).get(name)
        return Told(value, None if ends is None else (ends[0], ends[1]))
    of_both_kinds = any(row.get(one) is not None for one in _SIDES)
    if name not in _OF_MALIGNANCY or not of_both_kinds:
        return Told(None, words=UNKNOWN)
    if row.get("n_malignant") == 0 and "specificity" not in name:
        return Told(None, words=NO_MALIGNANT)
    if row.get("n_other") == 0 and "sensitivity" not in name:
        return Told(None, words=NO_OTHER)
    return Told(None, words=UNKNOWN)


Kind = Literal["lost_sensitivity", "missed_sensitivity", "missed_risk", "nearly_nobody_answered", "untested"]

LOST: Final = 0.05
"""A sensitivity that falls farther than this is reported even where it may be chance."""

ANSWERED: Final = 0.2
"""Where a smaller share of pictures than this is answered, the model is of nearly no use."""

_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class Finding:
    """One thing that went wrong.

    Attributes:
        kind: what.
        subgroup: for whom; `all` for all test pictures.
        figure: the metric that shows it, by its name in the test metrics.
        value: what it is; None without test pictures.
        limit: what it should have kept to: the target, or the metric before the stage.
        text: a sentence for people, with numbers and intervals.
    """

    kind: Kind
    subgroup: str
    figure: str
    value: float | None
    limit: float
    text: str


@dataclass(frozen=True)
class Judged:
    """The test metrics of the models that a stage left.

    Attributes:
        stage: its name.
        test: what `summarise` made of their counts.
        models: per model, `global` among them, what calibration fixed: `conclusions` with its `target_risk`,
            and `working_point` with its `target`; empty of a stage that does not calibrate.
    """

    stage: str
    test: Mapping[str, Any]
    models: Mapping[str, Mapping[str, Any]]


def findings(stages: Sequence[Judged]) -> list[Finding]:
    """What went wrong, the worst kind first.

    Args:
        stages: those that left models to be released, in order.
    """
    found = [one for pair in pairwise(stages) for one in _lost(*pair)]
    calibrated = [stage for stage in stages if any("conclusions" in model for model in stage.models.values())]
    if calibrated:
        answered = list(_answered_by(calibrated[-1]))
        found += [one for each in answered for one in _missed_sensitivity(*each)]
        for judge in (_missed_risk, _nearly_nobody):
            found += filter(None, (judge(*each) for each in answered))
    return [*found, *_untested(stages[-1].test)] if stages else found


def _lost(before: Judged, after: Judged) -> Iterator[Finding]:
    name = "malignant_sensitivity"
    earlier = patient_figures(_rows_together(before.test))
    for subgroup, now in patient_figures(_rows_together(after.test)).items():
        if subgroup not in earlier:
            continue
        then = earlier[subgroup]
        was, now_is = then.figures[name], now.figures[name]
        if was.value is None or now_is.value is None or now_is.value >= was.value:
            continue
        lost = _limits(was) - _limits(now_is)
        certain = bool(lost.low > 0)
        if certain or lost.value > LOST + _ROUNDING:
            points = f"{100 * lost.value:.1f} points ({100 * lost.low:.1f} to {100 * lost.high:.1f})"
            yield Finding(
                "lost_sensitivity",
                subgroup,
                name,
                now_is.value,
                was.value,
                f"{_who(subgroup)}: {after.stage} lowered malignant sensitivity from {_share(was.value)} to "
                f"{_share(now_is.value)} ({_found(was, then)}, then {_found(now_is, now)} malignant "
                f"pictures), by {points}. {_chance(certain)}",
            )


def _missed_sensitivity(subgroup: str, row: Mapping[str, Any], rules: Mapping[str, Any]) -> Iterator[Finding]:
    name = "sensitivity_at_threshold"
    target = (rules.get("working_point") or {}).get("target")
    if target is None:
        return
    for kind, of in {"": row, **row.get("by_kind", {})}.items():
        reached = told(of, name)
        if reached.value is None or reached.value >= target - _ROUNDING:
            continue
        missed = reached.interval is not None and reached.interval[1] < target
        if kind and not missed:  # the target is of all kinds together
            continue
        text = (
            f"{_who(subgroup)}: at the working point {_with_interval(reached)} of the malignant test pictures"
            f"{f' of {kind}' * bool(kind)} are suspicious, where {_share(target)} was asked for: "
            f"{'the target is missed' if missed else 'it is not shown to be reached'}."
        )
        yield Finding("missed_sensitivity", subgroup, name, reached.value, target, text)


def _missed_risk(subgroup: str, row: Mapping[str, Any], rules: Mapping[str, Any]) -> Finding | None:
    name = "reported_risk"
    target, risk = (rules.get("conclusions") or {}).get("target_risk"), told(row, name)
    if target is None or risk.value is None or risk.value <= target + _ROUNDING:
        return None
    certain = risk.interval is not None and risk.interval[0] > target
    text = (
        f"{_who(subgroup)}: {_with_interval(risk)} of the conclusions are wrong, where at most "
        f"{_share(target)} are allowed. {_chance(certain)}"
    )
    return Finding("missed_risk", subgroup, name, risk.value, target, text)


def _nearly_nobody(subgroup: str, row: Mapping[str, Any], rules: Mapping[str, Any]) -> Finding | None:
    answered = told(row, "answered")
    if answered.value is None or answered.value >= ANSWERED - _ROUNDING:
        return None
    whom = "nobody is" if not answered.value else "nearly nobody is"
    text = f"{_who(subgroup)}: {whom} answered: {_with_interval(answered)} of the test pictures."
    return Finding("nearly_nobody_answered", subgroup, "answered", answered.value, ANSWERED, text)


def _untested(test: Mapping[str, Any]) -> Iterator[Finding]:
    for name in test.get("absent", ()):
        if name != UNDECLARED:
            yield Finding(
                "untested", name, "n", None, 1, f"{_who(name)}: no test pictures, so nothing is known of it."
            )
    for name, row in patient_figures(test).items():
        of_both_kinds = row.figures["malignant_specificity"].value is not None
        if name not in (ALL, UNDECLARED) and row.n_malignant == 0 and of_both_kinds:
            text = "no malignant test pictures, so it is unknown whether malignant lesions are found."
            yield Finding("untested", name, "n_malignant", 0, 1, f"{_who(name)}: {text}")


def _answered_by(stage: Judged) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Each subgroup with its metrics, and what was fixed of the model that answers for it."""
    test = _rows_together(stage.test)
    for name, row in {ALL: test, **test["by_subgroup"]}.items():
        yield name, row, stage.models.get(name, stage.models.get(GLOBAL, {}))


def _rows_together(test: Mapping[str, Any]) -> dict[str, Any]:
    """The test metrics; those of all pictures are left out where all are of one subgroup."""
    rows = test.get("by_subgroup") or {}
    return {"by_subgroup": rows} if len(rows) == 1 else {**test, "by_subgroup": rows}


def _limits(figure: Told) -> Limits:
    assert figure.value is not None, "a figure that is there"
    low, high = figure.interval or (0.0, 1.0)
    return Limits(*(np.array(end) for end in (figure.value, low, high)))


def _who(subgroup: str) -> str:
    return "All pictures" if subgroup == ALL else subgroup


def _found(figure: Told, of: PatientFigures) -> str:
    """`18 of 21`."""
    if figure.value is None or of.n_malignant is None:
        return "of unknown number"
    return f"{round(figure.value * of.n_malignant)} of {of.n_malignant}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _with_interval(figure: Told) -> str:
    assert figure.value is not None, "a figure that is there"
    if figure.interval is None:
        return _share(figure.value)
    low, high = figure.interval
    return f"{_share(figure.value)} ({100 * low:.1f} to {100 * high:.1f})"


def _chance(certain: bool) -> str:
    return "That is more than chance." if certain else "It may be chance."


_HALVINGS = 50


@dataclass(frozen=True)
class Gain:
    """A difference between two models on the same pictures.

    Attributes:
        value: the second's figure less the first's.
        low: its lower limit, one-sided.
        n: the pictures that it rests on.
        gained, lost: of them, right with the second alone, and with the first alone.
    """

    value: float
    low: float
    n: int
    gained: int
    lost: int


def _mean_gain(counts: PairedCounts, rows: NDArray[np.intp], level: float) -> Gain | None:
    n, gained, lost, nn = (each[rows].astype(np.float64) for each in counts.to_array().T)
    if not len(rows) or not n.all():
        return None
    value = (gained - lost) / n
    effect = nn / n
    low = tango_low(gained / effect, lost / effect, n / effect, level)
    below = np.sqrt(((value - low) ** 2).sum()) / len(rows)
    return Gain(
        float(value.mean()),
        float(max(value.mean() - below, -1.0)),
        int(n.sum()),
        int(gained.sum()),
        int(lost.sum()),
    )


def tango_low(gained: Figure, lost: Figure, n: Figure, level: float) -> Figure:
    """The one-sided lower limit of (gained − lost) / n, `(...)`, by bisection."""
    z = NormalDist().inv_cdf(level)
    low, high = np.full(np.shape(n), -1.0), (gained - lost) / n
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rejected = _score(gained, lost, n, middle) > z
        low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
    return (low + high) / 2


def _score(gained: Figure, lost: Figure, n: Figure, difference: Figure) -> Figure:
    a = 2 * n
    b = -gained - lost + (2 * n - gained + lost) * difference
    c = -lost * difference * (1 - difference)
    q = (np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0)) - b) / (2 * a)
    variance = np.maximum(n * (2 * q + difference * (1 - difference)), 1e-12)
    return np.asarray((gained - lost - n * difference) / np.sqrt(variance))


GAINS: Final[Mapping[str, Callable[[PairedCounts, float], Gain | None]]] = {
    "malignant_sensitivity": lambda counts, level: _mean_gain(counts, np.array([counts.malignant]), level),
    "balanced_accuracy": lambda counts, level: _mean_gain(
        counts, np.flatnonzero(counts.n[counts.classes] > 0), level
    ),
}
"""The gain of malignant sensitivity at the most probable class, and of the mean recall of the classes with
pictures, with one-sided limits of a level; None without such pictures."""
