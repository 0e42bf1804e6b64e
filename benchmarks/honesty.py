"""How often a guarantee of `calibrate` is broken, and what counts of hospitals cost.

1. MILK10k's cross-fitted scores (`milk10k_scores`) are taken as the population. Samples as large are drawn
   with replacement (duplicate pairs together), thresholds are fitted on each sample by tone, by the functions
   that `calibrate` calls, and the truth is that of the whole population. Lesions lie in one place, or are
   dealt to four hospitals that merge to five patients (`min_count: 10`) and count exactly under masks. Of
   conclusions a fit is broken where any node is wrong in more than the target.
2. Drawn models, of 20 to 600 malignant lesions: with ties, of one class, and without a kind.
3. The answer "benign" under a guarantee over all answers of all tones, by tone: the share of fits in which
   more than .1 of these answers are malignant, and how many are in the mean.
4. The share of the lesions that are not malignant below the threshold under which each kind of malignancy is
   missed in at most β, or all together in 5 %: in one place with every score tested, and at four hospitals
   under masks and in the clear. One constant was chosen on half of the lesions (`at_thresholds.EXTRA`); the
   other half is reported by itself.

Criterion, fixed before the first run: of every guarantee the share of fits that break it, of all fits, is at
most 5 %. "above, within the band" is said where it is over that and its exact 95 % interval is not.
Prediction sets promise a mean: the mean coverage over fits is 90 % or more, or within two standard errors of
it. Controls must be found broken, by
tone: a target over all malignant lesions, read as one for melanoma, and a bound over all answers, read as one
for the answer "benign".

What models cost that are trained again is in `forty_splits.py`.

    DERMFED_DATA=... python benchmarks/honesty.py --draws 1000
"""

import csv
import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from quick import is_quick, start
from scipy.special import softmax
from tables import print_conditions, print_table

from clients.data.labels.taxonomy import describe
from personalization.calibration.at_thresholds import (
    LEVEL,
    STEPS,
    CountsAt,
    largest_shown,
    most_allowed,
    propose,
    upper_limit,
)
from personalization.calibration.conclusions import below_next, count_nodes, propose_level, share_of
from personalization.calibration.conformal import ConformalConfig, fit_threshold
from personalization.calibration.triage import MalignancyRules, TriageConfig
from personalization.calibration.working_point import (
    WorkingPoint,
    fit_working_point,
    propose_working_points,
)
from registry.bundle.conclusions import Conclusions, Tree
from registry.bundle.counts.score_bins import (
    SCORE_BINS,
    Pick,
    highest,
    lowest,
    merge,
    score_bin,
    smallest_cell,
)
from registry.bundle.metrics.intervals import clopper_pearson

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MIN_COUNT, HOSPITALS = 10, 4
TARGET, RISK, COVERAGE, BETAS = 0.95, 0.1, 0.9, (0.1, 0.05)
MAY_BREAK = 0.05  # of fits
TONES = {"dark": (0, 1, 2), "medium": (3,), "light": (4, 5)}
KINDS = ("melanoma and others", "basal cell", "squamous cell")
KIND_OF = {"MEL": 0, "MAL_OTH": 0, "BCC": 1, "SCCKA": 2, "AKIEC": 2}
PAIRS = (
    ("IL_1562251", "IL_2734125"),
    ("IL_9590648", "IL_2812139"),
    ("IL_5835237", "IL_1808002"),
    ("IL_6365837", "IL_2779245"),
    ("IL_9247349", "IL_6755192"),
)
SIMULATED = (20, 60, 200, 600, 2000)  # malignant lesions
LONG_RUN = 200_000


@dataclass(frozen=True)
class Lesions:
    """Scored lesions, every array `(lesions,)` where nothing else is said.

    Attributes:
        malignancy: score bins of the summed probability of malignant classes.
        kind: of malignancy, an index of `KINDS`; -1 of lesions that are not malignant.
        confidence: score bins of the highest probability.
        wrong: whether the class of highest probability is not the lesion's.
        truth: score bins of the probability of the lesion's class.
        side: score bins of the larger of malignancy and its complement.
        probabilities: of the classes, `(lesions, classes)`.
        labels: their classes.
        hospital: where they lie.
        kept_aside: which are in the half on which no constant was chosen.
    """

    malignancy: Ints
    kind: Ints
    confidence: Ints
    wrong: Bools
    truth: Ints
    side: Ints
    probabilities: NDArray[np.float64]
    labels: Ints
    hospital: Ints
    kept_aside: Bools

    def __len__(self) -> int:
        return len(self.kind)

    def where(self, chosen: NDArray[Any], hospital: Ints | None = None) -> "Lesions":
        """Some of them, some more than once."""
        found = {name: values[chosen] for name, values in vars(self).items()}
        return Lesions(**found if hospital is None else {**found, "hospital": hospital})

    @property
    def malignant(self) -> Bools:
        """Which are malignant."""
        return self.kind >= 0

    @property
    def mistaken(self) -> Bools:
        """Whether malignant or not is answered wrongly."""
        return (self.malignancy >= SCORE_BINS // 2) != self.malignant

    @property
    def called_benign(self) -> Bools:
        """Which are answered as not malignant."""
        return self.malignancy < SCORE_BINS // 2

    def places(self) -> Iterator[Bools]:
        """Which lesions are at each hospital."""
        for place in np.unique(self.hospital):
            yield self.hospital == place


def scored(probabilities: NDArray[np.float64], labels: Ints, kinds: Ints) -> Lesions:
    """Lesions with these probabilities `(lesions, classes)`; `kinds` of classes, -1 of benign ones."""
    malignancy = probabilities[:, kinds >= 0].sum(axis=1)
    rows = np.arange(len(labels))
    return Lesions(
        score_bin(malignancy),
        kinds[labels],
        score_bin(probabilities.max(axis=1)),
        probabilities.argmax(axis=1) != labels,
        score_bin(probabilities[rows, labels]),
        score_bin(np.maximum(malignancy, 1 - malignancy)),
        probabilities,
        labels,
        np.zeros(len(labels), dtype=np.int64),
        np.ones(len(labels), dtype=np.bool_),
    )


def histogram(
    lesions: Lesions, scores: Ints, rows: Sequence[Bools], cell: int, pick: Pick = lowest, *, up: bool
) -> Ints:
    """As hospitals tell it, merged to so many patients, and added up: `(rows, bins)`; a lesion is a patient.

    Args:
        lesions: that are counted.
        scores: their score bins.
        rows: which lesions are counted in each row.
        cell: the fewest patients of a run.
        pick: where a run is counted.
        up: whether runs begin at the lowest.
    """
    merged = scores.copy()
    for at in lesions.places():
        merged[at] = merge(scores[at], np.arange(at.sum()), cell, pick, from_below=up)
    return np.stack([np.bincount(merged[row], minlength=SCORE_BINS) for row in rows]).astype(np.int64)


def counted(merged: Ints, exact: Ints, at: Sequence[int], masks: bool) -> CountsAt:
    """Counts at thresholds: exact under masks, else of the merged histogram."""
    return CountsAt.of(exact if masks else merged, at)


def rules_out(lesions: Lesions, beta: float, cell: int, masks: bool = True) -> int:
    """The largest threshold that is shown, below which each kind is missed in at most β; 0 for none."""
    kinds = [lesions.kind == kind for kind in range(len(KINDS))]
    return misses_few(lesions, kinds, beta, cell, masks)


def misses_few(lesions: Lesions, groups: Sequence[Bools], beta: float, cell: int, masks: bool) -> int:
    """The same of any groups."""
    merged, exact = (histogram(lesions, lesions.malignancy, groups, each, up=True) for each in (cell, 1))
    allowed = [most_allowed(int(of.sum()), beta) for of in groups]
    return largest_shown(counted(merged, exact, propose(merged, allowed), masks), allowed) or 0


def working_point(lesions: Lesions, cell: int) -> WorkingPoint | None:
    """The working point of `calibrate`, under masks."""
    sides = [~lesions.malignant, lesions.malignant]
    merged, exact = (histogram(lesions, lesions.malignancy, sides, each, up=True)[1] for each in (cell, 1))
    at = propose_working_points(merged, TARGET)
    return fit_working_point(CountsAt.of(exact[np.newaxis], at), TARGET)


def refers_below(lesions: Lesions, scores: Ints, wrong: Bools, cell: int, masks: bool = True) -> int:
    """For the control: from where on at most `RISK` of all answers are wrong; `SCORE_BINS` answers none.

    Up to five thresholds, another fifth of all lesions each, share `MAY_BREAK` by the fallback procedure
    (Wiens 2003), the strictest first.
    """
    every = np.ones(len(lesions), dtype=np.bool_)
    merged, exact = (
        np.concatenate(
            [
                histogram(lesions, scores, [every], each, up=False),
                histogram(lesions, scores, [wrong], each, below_next, up=False),
            ]
        )
        for each in (cell, 1)
    )
    chosen, spent = SCORE_BINS, 0.0
    at = fifths(merged[0])
    of_all, errors = counted(merged, exact, at, masks).from_here
    for threshold, n, x in reversed(list(zip(at, of_all, errors, strict=True))):
        spent += MAY_BREAK / len(at)
        if float(upper_limit(np.minimum(x, n), n, 1 - spent)) > RISK:
            spent = 0.0
        else:
            chosen = threshold
    return chosen


def fifths(of_all: Ints) -> tuple[int, ...]:
    """Thresholds that answer another fifth each, but those that could show nothing with all answers right."""
    answered, occupied = of_all[::-1].cumsum()[::-1], of_all > 0
    occupied[0] = False
    steps = np.ceil(of_all.sum() * np.arange(1, STEPS + 1) / STEPS)
    bins = sorted({int(at[0]) for most in steps if len(at := np.flatnonzero(occupied & (answered <= most)))})
    for m in range(len(bins), 0, -1):
        none_wrong = upper_limit(np.array(0), answered[bins], 1 - MAY_BREAK / m)
        able = [each for each, high in zip(bins, none_wrong, strict=True) if high <= RISK]
        if len(able) >= m:
            return tuple(able[:m])
    return ()


@dataclass
class Broken:
    """How many fits told a promise, and how many of these broke it."""

    told: int = 0
    broken: int = 0

    def add(self, told: bool, holds: bool) -> None:
        """One more fit."""
        self.told += told
        self.broken += told and not holds

    def cells(self, draws: int) -> list[object]:
        """The cells of its row."""
        low, high = clopper_pearson(self.broken, draws)
        share = self.broken / draws
        verdict = (
            "holds" if share <= MAY_BREAK else "above, within the band" if low <= MAY_BREAK else "broken"
        )
        return [f"{self.told / draws:.1%}", f"{share:.1%} [{low:.1%}, {high:.1%}]", verdict]


def share(of: Bools, among: Bools) -> float:
    """Of those among which; 0 of none."""
    return float(of[among].mean()) if among.any() else 0.0


@dataclass(frozen=True)
class Answers:
    """Triage and conclusions as they were fitted."""

    below: int
    urgent_from: int
    rules: Conclusions

    def ruled_out(self, lesions: Lesions) -> Bools:
        """Which lesions are ruled out."""
        ruled_out: Bools = (lesions.malignancy < self.below) & (lesions.malignancy < self.urgent_from)
        return ruled_out

    def concluded(self, lesions: Lesions, tree: Tree) -> Ints:
        """The node that is concluded of each lesion."""
        return tree.concluded(lesions.probabilities, self.ruled_out(lesions), self.rules.thresholds(tree))


def fit_answers(lesions: Lesions, tree: Tree, cell: int) -> Answers:
    """Triage and conclusions of `calibrate`, under masks."""
    rows = [~lesions.malignant, *(lesions.kind == kind for kind in range(len(KINDS)))]
    merged, exact = (
        np.concatenate(
            [
                histogram(lesions, lesions.malignancy, rows[:1], each, highest, up=True),
                histogram(lesions, lesions.malignancy, rows[1:], each, up=True),
            ]
        )
        for each in (cell, 1)
    )
    rules = MalignancyRules(merged[np.newaxis], None, TriageConfig(missed=RISK, false_alarms=RISK))
    triage = rules.fit_triage(CountsAt.of(exact, rules.proposed), [True])
    assert triage is not None, "asked for"
    answers = Answers(
        triage.ruled_out.below, triage.urgent.from_bin, Conclusions(target_risk=RISK, level=LEVEL)
    )
    ruled_out, spent = answers.ruled_out(lesions), 0.0
    for level, nodes in enumerate(tree.levels):
        so_far = answers.rules.thresholds(tree)
        merged, exact = (
            sum(
                count_nodes(
                    tree,
                    level,
                    lesions.probabilities[at],
                    lesions.labels[at],
                    ruled_out[at],
                    so_far,
                    np.arange(at.sum()),
                    each,
                )
                for at in lesions.places()
            )
            for each in (cell, 1)
        )
        test = propose_level(nodes, merged[:, 0], RISK, share := share_of(level, len(tree.levels), spent))
        spent += share * bool(test.able)
        fitted = test.fit([CountsAt.of(each, at) for each, at in zip(exact, test.proposed, strict=True)])
        answers = replace(
            answers, rules=answers.rules.model_copy(update={"nodes": (*answers.rules.nodes, *fitted)})
        )
    return answers


def judge_answers(
    tally: defaultdict[str, Broken], sample: Lesions, whole: Lesions, tree: Tree, cell: int
) -> None:
    """Fit triage and conclusions on a sample and look them up in the whole."""
    answers = fit_answers(sample, tree, cell)
    urgent = whole.malignancy >= answers.urgent_from
    alarms = share(urgent, ~whole.malignant)
    tally["urgent: false alarms .1"].add(answers.urgent_from < SCORE_BINS, alarms <= RISK)
    concluded = answers.concluded(whole, tree)
    wrong = tree.wrong(concluded, whole.labels)
    known = {(rule.level, rule.code) for rule in answers.rules.nodes}
    risks = []
    for place, node in enumerate(tree.nodes):
        if (node.level, node.code) in known:
            risks.append(share(wrong, concluded == place))
            tally[f"concluded at {node.level}: {node.name}, wrong .1"].add(True, risks[-1] <= RISK)
    tally["conclusions, wrong .1 at each"].add(bool(risks), max(risks, default=0.0) <= RISK)


def judge(tally: defaultdict[str, Broken], sample: Lesions, whole: Lesions, cell: int, tree: Tree) -> None:
    """Fit everything on a sample and look it up in the whole."""
    judge_answers(tally, sample, whole, tree, cell)
    point = working_point(sample, cell)
    if point is not None:
        found = whole.malignancy >= point.threshold_bin
        sensitivity = share(found, whole.malignant)
        tally["sensitivity .95"].add(point.reached, sensitivity >= TARGET)
        tally["lower limit of sensitivity"].add(True, sensitivity >= point.sensitivity_low)
        melanoma = share(found, whole.kind == 0)
        tally["control: sensitivity .95, of melanoma and others"].add(
            point.reached and bool((whole.kind == 0).any()), melanoma >= TARGET
        )
    threshold = refers_below(sample, sample.side, sample.mistaken, cell)
    of_answers = share(whole.mistaken, whole.side >= threshold)
    tally["malignant or not, risk .1 over all answers"].add(threshold < SCORE_BINS, of_answers <= RISK)
    for beta in BETAS:
        threshold = rules_out(sample, beta, cell)
        for kind, name in enumerate(KINDS):
            missed = share(whole.malignancy < threshold, whole.kind == kind)
            tally[f"missed in at most {beta:.2f}: {name}"].add(threshold > 0, missed <= beta)


def coverage_of(sample: Lesions, whole: Lesions, cell: int) -> float | None:
    """The true coverage of prediction sets; None where nothing is promised."""
    every = np.ones(len(sample), dtype=np.bool_)
    (truth,) = histogram(sample, sample.truth, [every], cell, up=True)
    sets = fit_threshold(truth, ConformalConfig(coverage=COVERAGE))
    return float((whole.truth >= sets.threshold_bin).mean()) if sets.guaranteed else None


def milk10k() -> tuple[dict[str, Lesions], dict[str, Ints]]:
    """The scored lesions by tone, and who is drawn together: the first of a duplicate pair, or oneself."""
    folder = Path(os.environ["DERMFED_DATA"])
    truth = table(folder / "milk10k" / "MILK10k_Training_GroundTruth.csv")
    tones = table(folder / "milk10k" / "MILK10k_Training_Metadata.csv")
    names, codes, logits = scores(folder, truth)
    labels = np.array([max(range(len(codes)), key=lambda k: float(truth[name][codes[k]])) for name in names])
    kinds = kinds_of(codes)
    hashes = [int(hashlib.sha256(name.encode()).hexdigest(), 16) for name in names]
    whole = scored(softmax(logits.astype(np.float64), axis=1), labels, kinds)
    whole = replace(whole, kept_aside=np.array([each % 2 == 1 for each in hashes]))
    tone = np.array([int(tones[name]["skin_tone_class"]) for name in names])
    first = {other: one for one, other in PAIRS}
    units = np.unique([first.get(name, name) for name in names], return_inverse=True)[1]
    at = {name: np.isin(tone, of) for name, of in TONES.items()}
    return {name: whole.where(of) for name, of in at.items()}, {name: units[of] for name, of in at.items()}


def read_scores() -> tuple[list[str], list[str], NDArray[np.float32]]:
    """As `scores`, of the folder of real data."""
    folder = Path(os.environ["DERMFED_DATA"])
    return scores(folder, table(folder / "milk10k" / "MILK10k_Training_GroundTruth.csv"))


def kinds_of(codes: Sequence[str]) -> Ints:
    """The kind of malignancy of each class; -1 of benign ones."""
    return np.array([KIND_OF.get(code, -1) for code in codes])


def table(path: Path) -> dict[str, dict[str, str]]:
    """A table's rows by lesion."""
    with path.open(newline="") as file:
        return {row["lesion_id"]: row for row in csv.DictReader(file)}


def scores(
    folder: Path, truth: Mapping[str, Mapping[str, str]]
) -> tuple[list[str], list[str], NDArray[np.float32]]:
    """Lesions, classes, and logits `(lesions, classes)`; drawn ones where this is the form of seconds."""
    if is_quick():
        names, codes = list(truth), [code for code in next(iter(truth.values())) if code != "lesion_id"]
        right = np.array([[float(truth[name][code]) for code in codes] for name in names])
        return (
            names,
            codes,
            (2 * right + np.random.default_rng(0).normal(size=right.shape)).astype(np.float32),
        )
    path = folder / "milk10k_scores" / "dev_crossfit_logits.npz"
    # Names are objects in there, which NumPy unpickles: a file of one's own, as all of this folder.
    with np.load(path, allow_pickle=True) as file:
        return (
            [str(each) for each in file["lesion_id"]],
            [str(each) for each in file["classes"]],
            file["logits"],
        )


def resample(units: Mapping[str, Ints], random: np.random.Generator) -> dict[str, Ints]:
    """Rows of each tone, drawn with replacement from all tones together, pairs together."""
    drawn = np.bincount(random.integers(0, 1 + max(of.max() for of in units.values()), total(units)))
    times = np.zeros(1 + max(of.max() for of in units.values()), dtype=np.int64)
    times[: len(drawn)] = drawn
    return {name: np.repeat(np.arange(len(of)), times[of]) for name, of in units.items()}


def total(units: Mapping[str, Ints]) -> int:
    """How many are drawn together."""
    return len(np.unique(np.concatenate(list(units.values()))))


def from_population(draws: int, hospitals: int) -> list[list[object]]:
    """Rows: how often each guarantee is broken, by tone."""
    tones, units = milk10k()
    tree = Tree([describe(code) for code in read_scores()[1]])
    tallies: dict[str, defaultdict[str, Broken]] = {name: defaultdict(Broken) for name in tones}
    covered: dict[str, list[float]] = {name: [] for name in tones}
    cell = smallest_cell(MIN_COUNT) if hospitals > 1 else 1
    random = np.random.default_rng([hospitals, draws])
    for _ in range(draws):
        for name, rows in resample(units, random).items():
            sample = tones[name].where(rows, random.integers(0, hospitals, len(rows)))
            judge(tallies[name], sample, tones[name], cell, tree)
            coverage = coverage_of(sample, tones[name], cell)
            covered[name] += [] if coverage is None else [coverage]
    rows_of_tone: list[list[object]] = []
    for name, tally in tallies.items():
        rows_of_tone += [
            [name, promise, *each.cells(draws)] for promise, each in worst_of_kinds(tally).items()
        ]
        rows_of_tone.append([name, "sets, coverage .9 in the mean", *mean_cells(covered[name], draws)])
    return sorted(rows_of_tone, key=lambda row: str(row[1]).startswith("control"))


def mean_cells(values: list[float], draws: int) -> list[object]:
    """How many fits told it, the mean with its interval, and whether it is 90 % or near."""
    mean, error = float(np.mean(values)), 2 * float(np.std(values)) / max(len(values), 1) ** 0.5
    verdict = (
        "holds" if mean >= COVERAGE else "above, within the band" if mean + error >= COVERAGE else "broken"
    )
    return [
        f"{len(values) / draws:.1%}",
        f"mean {mean:.2%} [{mean - error:.2%}, {mean + error:.2%}]",
        verdict,
    ]


def model(name: str, n: int, random: np.random.Generator) -> Lesions:
    """N malignant lesions of three kinds and as many others, scored by a model.

    The first kind is missed more often than the others, and probabilities are not those of the truth.
    """
    others = 0 if name == "one class" else n
    share_of_kinds = (0.0, 0.8, 0.2) if name == "a kind is lacking" else (0.2, 0.6, 0.2)
    kind = np.concatenate([random.choice(3, n, p=share_of_kinds), np.full(others, -1)])
    odds = random.normal(np.array([1.0, 2.5, 1.5, -1.5])[kind], np.array([1.5, 1.0, 1.0, 1.2])[kind])
    malignancy = 1 / (1 + np.exp(-odds))
    if name == "ten scores":
        malignancy = np.floor(10 * malignancy) / 10 + 0.05
    # Of the classes the fourth is benign; a malignant lesion's own kind has most of the malignancy.
    probabilities = np.zeros((len(kind), 4))
    own = np.where(kind < 0, 1, kind)
    spread = np.full((len(kind), 3), 0.1)
    spread[np.arange(len(kind)), own] = 0.8
    probabilities[:, :3] = spread * malignancy[:, None]
    probabilities[:, 3] = 1 - malignancy
    return scored(probabilities, np.where(kind < 0, 3, kind), np.array([0, 1, 2, -1]))


MODELS = ("scores apart", "ten scores", "one class", "a kind is lacking")


def simulated(draws: int) -> list[list[object]]:
    """Rows: of each guarantee the drawn model and number of lesions where it is broken most often."""
    found: defaultdict[str, list[tuple[int, list[object]]]] = defaultdict(list)
    tree = Tree([describe(code) for code in ("MEL", "BCC", "SCC", "NV")])
    for name in MODELS:
        whole = model(name, LONG_RUN // 2, np.random.default_rng(7))
        for n in SIMULATED:
            random = np.random.default_rng([n, MODELS.index(name)])
            tally: defaultdict[str, Broken] = defaultdict(Broken)
            for _ in range(draws):
                judge(tally, model(name, n, random), whole, 1, tree)
            for promise, each in worst_of_kinds(tally).items():
                found[promise].append((each.broken, [promise, name, n, *each.cells(draws)]))
    worst = [max(rows, key=lambda row: row[0])[1] for rows in found.values()]
    return [row for row in worst if not str(row[0]).startswith("control")]


def worst_of_kinds(tally: Mapping[str, Broken]) -> dict[str, Broken]:
    """Of what is promised of each kind, the one that is broken most often; everything else as it is."""
    rest = {of: each for of, each in tally.items() if not of.startswith("missed in")}
    for beta in BETAS:
        kinds = [each for of, each in tally.items() if of.startswith(f"missed in at most {beta:.2f}")]
        rest[f"each kind missed in at most {beta:.2f}"] = max(kinds, key=lambda each: each.broken)
    return rest


def joined(parts: Sequence[Lesions]) -> Lesions:
    """Lesions of several tones."""
    return Lesions(**{name: np.concatenate([vars(of)[name] for of in parts]) for name in vars(parts[0])})


def answers_benign(draws: int) -> list[list[object]]:
    """Rows: what a guarantee over all answers hides, by the tones it is over and those it is judged on."""
    tones, units = milk10k()
    judged = {**tones, "all": joined(list(tones.values()))}
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    told: defaultdict[str, int] = defaultdict(int)
    random = np.random.default_rng([3, draws])
    for _ in range(draws):
        samples = {name: tones[name].where(rows) for name, rows in resample(units, random).items()}
        samples["all"] = joined(list(samples.values()))
        for over, sample in samples.items():
            threshold = refers_below(sample, sample.side, sample.mistaken, 1)
            told[over] += threshold < SCORE_BINS
            for tone in judged if over == "all" else (over,):
                whole = judged[tone]
                benign = (whole.side >= threshold) & whole.called_benign
                found[over, tone].append((share(whole.malignant, benign), float(benign.mean())))
    rows: list[list[object]] = []
    for (over, tone), fits in found.items():
        risks, answered = np.transpose(fits)
        few = risks[answered > 0]
        low, high = clopper_pearson(int((risks > RISK).sum()), draws)
        rows.append(
            [
                over,
                tone,
                f"{told[over] / draws:.1%}",
                f"{(answered > 0).mean():.1%}",
                f"{answered.mean():.1%}",
                f"{few.mean():.1%}" if len(few) else "–",
                f"{(risks > RISK).mean():.1%} [{low:.1%}, {high:.1%}]",
            ]
        )
    return rows


def ruled_out(of: Lesions, promise: str, beta: float, cell: int, masks: bool) -> float:
    """The share of lesions that are not malignant below the threshold."""
    kinds = [of.kind == kind for kind in range(len(KINDS))]
    groups = kinds if promise == "each kind" else [of.malignant]
    return share(of.malignancy < misses_few(of, groups, beta, cell, masks), ~of.malignant)


def below_threshold(deals: int) -> list[list[object]]:
    """Rows: the share of lesions that are not malignant below the threshold, by what is promised and tone."""
    cell = smallest_cell(MIN_COUNT)
    rows: list[list[object]] = []
    tones = milk10k()[0]
    for promise, beta in (("each kind", 0.1), ("each kind", 0.05), ("all malignant", 1 - TARGET)):
        for part, (tone, whole) in product(("other half", "all"), tones.items()):
            lesions = whole if part == "all" else whole.where(whole.kept_aside)
            one_place = ruled_out(lesions, promise, beta, 1, True)
            dealt: list[list[float]] = []
            for deal in range(deals):
                places = np.random.default_rng(deal).integers(0, HOSPITALS, len(lesions))
                apart = lesions.where(np.arange(len(lesions)), places)
                dealt.append([ruled_out(apart, promise, beta, cell, masks) for masks in (True, False)])
            means = np.mean(dealt, axis=0)
            ranges = zip(means, np.min(dealt, axis=0), np.max(dealt, axis=0), strict=True)
            cells = [f"{mean:.3f} ({low:.3f} to {high:.3f})" for mean, low, high in ranges]
            kept = [f"{mean / one_place:.2f}" if one_place else "–" for mean in means]
            rows.append([f"{promise} {beta:.2f}", part, tone, f"{one_place:.3f}", *cells, *kept])
    return rows


def main(
    draws: Annotated[
        int, typer.Option(help="Samples of the population; a fifth as many of each drawn model.")
    ] = 1000,
    deals: Annotated[int, typer.Option(help="How often lesions are dealt to four hospitals.")] = 50,
) -> None:
    """Draw, fit, and print how often promises are broken."""
    print_conditions("Honesty of promises", {"draws": draws, "deals": deals, "min_count": MIN_COUNT})
    header = ["told", "broken, of all fits", "verdict"]
    for hospitals in (1, HOSPITALS):
        print(f"**{'One place' if hospitals == 1 else f'{hospitals} hospitals under masks'}**\n")
        print_table(["tone", "guarantee", *header], from_population(draws, hospitals))
    print("**Drawn models, where each is broken most often**\n")
    print_table(["guarantee", "model", "malignant lesions", *header], simulated(draws))
    print('**Malignant among answers "benign", where at most .1 of all answers may be wrong**\n')
    columns = ["guarantee over", "judged on", "told", 'any answer "benign"', "share of lesions", "malignant"]
    print_table([*columns, "over .1, of all fits"], answers_benign(draws))
    print("**Below the threshold, of lesions that are not malignant**\n")
    columns = ["missed at most", "lesions", "tone", "one place", "four under masks", "four in the clear"]
    print_table([*columns, "masks / one place", "clear / one place"], below_threshold(deals))


if __name__ == "__main__":
    start(main, "--draws 4 --deals 2", pictures=True)
