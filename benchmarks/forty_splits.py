"""Are guarantees kept by models trained again? Forty splits by patient, the whole chain on a half.

On one half of a run's lesions: folds, one head more than folds, temperatures, and what `calibrate` guarantees
by tone, with histograms merged to the job's least number and exact counts as under masks. The head of all of
that half answers the other half. A limit that x of n calibration lesions are beyond is compared to
BetaBinomial(m, x + 1, n - x) of the m lesions of the other half: what it would be, had the head been fixed
beforehand. This describes, and tests nothing: splits overlap. As control, the sensitivity over all malignant
lesions is read as one for melanoma.

    DERMFED_DATA=... python benchmarks/forty_splits.py runs/quick
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from honesty import (
    BETAS,
    COVERAGE,
    KINDS,
    TARGET,
    Bools,
    Lesions,
    coverage_of,
    rules_out,
    working_point,
)
from quick import start
from run_heads import Study, answers, in_parts, read, run_of
from scipy.stats import betabinom
from tables import print_conditions, print_table

from registry.bundle.counts.score_bins import smallest_cell

Which = Callable[[Lesions], Bools]


@dataclass
class Tally:
    """What became of one guarantee over the splits: shares beyond a limit, and what they would be."""

    found: list[float]
    expected: list[float]
    over: list[bool]
    over_expected: list[float]

    def add(self, x: int, n: int, k: int, m: int, limit: float) -> None:
        """Beyond were x of n calibration lesions, and k of the m of the other half."""
        self.found.append(k / m)
        self.expected.append((x + 1) / (n + 1))
        self.over.append(k > limit * m + 1e-9)
        self.over_expected.append(float(betabinom.sf(np.floor(limit * m + 1e-9), m, x + 1, n - x)))

    def cells(self, splits: int) -> list[object]:
        """Of its row."""
        if not self.found:
            return [f"0 of {splits}", *4 * ["–"]]
        shares = [f"{np.mean(each):.1%}" for each in (self.found, self.expected)]
        return [f"{len(self.found)} of {splits}", *shares, sum(self.over), f"{sum(self.over_expected):.1f}"]


def judge(tallies: Mapping[str, Tally], sample: Lesions, other: Lesions, cell: int) -> None:
    """Fit what `calibrate` guarantees of one tone on a half, and look at the other."""

    def add(name: str, limit: float, beyond: Which, among: Which) -> None:
        """How many of some lesions are beyond the limit, in both halves."""
        (x, n), (k, m) = (
            (int((beyond(half) & among(half)).sum()), int(among(half).sum())) for half in (sample, other)
        )
        if m:
            tallies[name].add(x, n, k, m, limit)

    def below(threshold: int) -> Which:
        return lambda half: half.malignancy < threshold

    def of_kind(kind: int) -> Which:
        return lambda half: half.kind == kind

    point = working_point(sample, cell)
    if point is not None and point.reached:
        missed, name = below(point.threshold_bin), f"sensitivity {TARGET}"
        add(name, 1 - TARGET, missed, lambda half: half.malignant)
        add(f"control: {name}, of {KINDS[0]}", 1 - TARGET, missed, of_kind(0))
    for beta in BETAS:
        threshold = rules_out(sample, beta, cell)
        for kind, called in enumerate(KINDS) if threshold else ():
            add(f"missed in at most {beta:.2f}: {called}", beta, below(threshold), of_kind(kind))


def forty_splits(study: Study, splits: int, folds: int) -> tuple[list[list[object]], list[list[object]]]:
    """Rows: what became of each guarantee by tone; and the coverage of prediction sets."""
    cell = smallest_cell(study.job.privacy.min_count)
    tallies: dict[str, dict[str, Tally]] = {
        tone: defaultdict(lambda: Tally([], [], [], [])) for tone in study.subgroups
    }
    covered: dict[str, list[float]] = {tone: [] for tone in study.subgroups}
    for split in range(splits):
        of = in_parts(study, 2, np.random.default_rng([split, 44]))
        keep, rest = [each == 0 for each in of], [each == 1 for each in of]
        fit = study.fit(study.held(keep, folds), folds)
        for tone, sample, judged in answers(study, (fit.weight, fit.bias), keep, rest, folds):
            judge(tallies[tone], sample, judged, cell)
            coverage = coverage_of(sample, judged, cell)
            covered[tone] += [] if coverage is None else [coverage]
        print(f"split {split + 1}: gradient {fit.gradient:.1g}", flush=True)
    rows = [
        [tone, name, *tally.cells(splits)]
        for tone, of_tone in tallies.items()
        for name, tally in sorted(of_tone.items(), key=lambda item: item[0].startswith("control"))
    ]
    sets = [
        [tone, f"{COVERAGE:.0%}", f"{np.mean(of_tone):.1%}", f"{min(of_tone):.1%} to {max(of_tone):.1%}"]
        for tone, of_tone in covered.items()
        if of_tone
    ]
    return rows, sets


def main(
    run: Annotated[Path | None, typer.Argument(help="A finished run, with its features.")] = None,
    out: Annotated[Path, typer.Option(help="Where one is done if none is given.")] = Path("runs/heads"),
    splits: Annotated[int, typer.Option(help="By patient, in halves.")] = 40,
    folds: Annotated[int, typer.Option(help="For the heads without one.")] = 5,
) -> None:
    """Fit, and print how guarantees fared."""
    torch.set_num_threads(1)
    study = read(run_of(run, out))
    lesions = sum(len(each.examples) for each in study.hospitals)
    conditions = {"run": study.job.name, "lesions": lesions, "penalty": study.penalty, "folds": folds}
    print_conditions("Guarantees of models that are trained again", conditions)
    rows, sets = forty_splits(study, splits, folds)
    print(f"**{splits} splits: the share of the other half beyond the limit**\n")
    columns = ["given", "beyond, mean", "reference", "splits over the limit", "reference"]
    print_table(["tone", "guarantee", *columns], rows)
    print("**Prediction sets on the other half**\n")
    print_table(["tone", "coverage asked for", "mean", "range"], sets)


if __name__ == "__main__":
    start(main, "--out {scratch}/runs --splits 1", pictures=True)
