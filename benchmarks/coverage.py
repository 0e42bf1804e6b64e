"""How often 95 % intervals hold the truth, and how wide they are: every figure, from what hospitals tell.

Drawn models answer drawn test pictures. A picture's log-odds are those of its class, and noise that pictures
of a lesion share in part; a model of kind `unsure` knows that it is so, one of kind `sure` is surer than it
should be, and some lesions look to it like another class. A hospital counts them as it does (bins merged to
three patients), and the interval of each figure is made from the counts. The truth is what the model has in
the long run, at the same mix of classes. Criterion: 93 % or more in every cell of the table, each of which
holds equal and unequal classes and both kinds of models.

    python benchmarks/coverage.py --draws 400
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from quick import is_quick, print_conditions, print_table, start

from registry.bundle.counting import Block, count
from registry.bundle.counts import Counts
from registry.bundle.lesion_counts import LesionSums
from registry.bundle.metrics.classification import FEWEST_FOR_AUPRC
from registry.bundle.metrics.fairness import DIFFERENCES, difference, fairness_limits, standardised
from registry.bundle.metrics.intervals import DesignEffect, Figure, Limits, Sample, sample_of
from registry.bundle.metrics.summary import BY_CLASS, FAIRNESS, MALIGNANCY, METRICS, limits_of, mean_of_limits
from registry.bundle.score_bins import smallest_cell

SHARED = 0.6  # of the variance of the noise, within a lesion
PICTURES_OF_A_LESION = (1, 2, 3, 4)  # in turn, where lesions have several
LOOK_ALIKE, SURER = 0.12, 4.5
FEWEST_OF_A_CLASS = 2
FALL = 0.62  # of unequal classes, each has so many of the one before
RARE_OF_TWO = 0.06

Probabilities = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Setting:
    """Test pictures, and a model.

    Attributes:
        kind: `unsure` or `sure`.
        classes: how many.
        pictures: how many.
        equal: whether classes are of as many pictures.
        several: whether lesions have several pictures.
        skill: by how much the log-odds of the right class are higher.
    """

    kind: str
    classes: int
    pictures: int
    equal: bool
    several: bool
    skill: float = 1.4

    @property
    def sizes(self) -> Labels:
        """The pictures of each class, the largest first."""
        if self.equal:
            mix = np.ones(self.classes)
        else:
            mix = (
                np.array([1 - RARE_OF_TWO, RARE_OF_TWO])
                if self.classes == 2
                else FALL ** np.arange(self.classes)
            )
        sizes = np.maximum((mix / mix.sum() * self.pictures).astype(int), FEWEST_OF_A_CLASS)
        sizes[0] += self.pictures - sizes.sum()
        return sizes

    @property
    def lesions(self) -> Labels:
        """The lesion of each picture; all of one are of one class."""
        if not self.several:
            return np.arange(self.pictures)
        lesions: list[int] = []
        for size in self.sizes:
            of_class = np.repeat(np.arange(size), np.resize(PICTURES_OF_A_LESION, size))[:size]
            lesions.extend(of_class + (max(lesions) + 1 if lesions else 0))
        return np.array(lesions)

    def draw(self, rng: np.random.Generator) -> tuple[Probabilities, Labels]:
        """Probabilities and labels of one test split."""
        return self._draw(rng, np.repeat(np.arange(self.classes), self.sizes), self.lesions)

    def in_the_long_run(self, rng: np.random.Generator, pictures: int) -> tuple[Probabilities, Labels]:
        """Those of about so many pictures in the same mix, each a lesion of its own."""
        labels = np.repeat(np.arange(self.classes), self.sizes * max(1, pictures // self.pictures))
        return self._draw(rng, labels, np.arange(len(labels)))

    def _draw(
        self, rng: np.random.Generator, labels: Labels, lesions: Labels
    ) -> tuple[Probabilities, Labels]:
        lesion_count, rows = int(lesions.max()) + 1, np.arange(len(labels))
        shared = rng.normal(size=(lesion_count, self.classes))[lesions]
        log_odds = np.sqrt(SHARED) * shared + np.sqrt(1 - SHARED) * rng.normal(size=shared.shape)
        looks = labels
        if self.kind == "sure":
            other = rng.integers(1, self.classes, lesion_count) * (rng.random(lesion_count) < LOOK_ALIKE)
            looks = (labels + other[lesions]) % self.classes
        log_odds[rows, looks] += self.skill + 0.35 * np.log(self.classes)
        odds = np.exp(log_odds * (SURER if self.kind == "sure" else 1))
        return odds / odds.sum(axis=1, keepdims=True), labels


CELL = smallest_cell(10)  # as of a job that does not say otherwise
LONG_RUN = 200_000  # pictures
ROUNDED = 5e-4  # by the bins in which the truth is counted
SKILLS = {"alike": (1.4, 1.4, 1.4), "apart": (0.9, 1.4, 1.9)}  # of three subgroups, or of three clients
OVER_CLIENTS = ("accuracy", "balanced_accuracy", "macro_f1", "auroc", "aurc", "ece")


@dataclass
class Held:
    """Of how many draws intervals hold the truth, and how wide they are."""

    held: list[Figure] = field(default_factory=list)
    widths: list[Figure] = field(default_factory=list)

    def add(self, found: Limits, truth: float) -> None:
        """Intervals of draws `(draws,)`; undefined figures have none."""
        told = ~np.isnan(found.value)
        inside = (found.low - ROUNDED <= truth) & (truth <= found.high + ROUNDED)
        self.held.append(inside[told].astype(np.float64))
        self.widths.append((found.high - found.low)[told])

    def __add__(self, other: "Held") -> "Held":
        return Held(self.held + other.held, self.widths + other.widths)

    def share(self) -> str:
        """The share that holds the truth, as text."""
        held = np.concatenate(self.held) if self.held else np.zeros(0)
        return f"{held.mean():.3f}".removeprefix("0") if held.size else "–"

    def width(self) -> str:
        """The mean width, as text."""
        widths = np.concatenate(self.widths) if self.widths else np.zeros(0)
        return f"{widths.mean():.2f}" if widths.size else "–"


Table = dict[str, dict[tuple[object, ...], Held]]
"""By figure and kind of setting."""


def malignant_of(classes: int) -> NDArray[np.bool_]:
    """Every third class, from the second."""
    return np.arange(classes) % 3 == 1


def counted(setting: Setting, rng: np.random.Generator) -> Block:
    """What a hospital tells of one test split."""
    malignant, lesions = malignant_of(setting.classes), setting.lesions
    return count(*setting.draw(rng), malignant=malignant, lesions=lesions, smallest_cell=CELL)


def long_run(setting: Setting, rng: np.random.Generator) -> Sample[Counts]:
    """The model's answers in the long run."""
    drawn = setting.in_the_long_run(rng, LONG_RUN if not is_quick() else LONG_RUN // 100)
    return sample_of(count(*drawn, malignant=malignant_of(setting.classes)))


def together(blocks: Sequence[Block]) -> Sample[Counts]:
    """Many splits as one sample, `(draws,)`."""
    counts = (np.stack([getattr(block.point, each.name) for block in blocks]) for each in fields(Counts))
    right = np.stack([block.by_lesion.to_array() for block in blocks])
    return Sample(Counts(*counts), DesignEffect.estimated(LesionSums(*np.moveaxis(right, -1, 0))))


def figures(sample: Sample[Counts]) -> dict[str, Limits]:
    """Every figure of all pictures, and those of the rarest class; of AUPRC the commonest."""
    malignant = malignant_of(sample.counts.num_classes)
    of_all = {name: limits_of(name, sample, malignant) for name in (*METRICS, *MALIGNANCY)}
    by_class = {name: figure.of_sample(sample).limits() for name, figure in BY_CLASS.items()}
    return of_all | {
        f"{name} of one class": of[0 if name == "auprc" else -1] for name, of in by_class.items()
    }


def tally(
    into: Table, key: tuple[object, ...], found: Mapping[str, Limits], truth: Mapping[str, float]
) -> None:
    """Adds the intervals of each figure to its cell."""
    for name, limits in found.items():
        into.setdefault(name, {}).setdefault(key, Held()).add(limits, truth[name])


def of_one_model(into: Table, setting: Setting, draws: int, rng: np.random.Generator) -> None:
    """Every figure of one test split."""
    true = long_run(setting, rng)
    truth = {name: float(limits.value) for name, limits in figures(true).items()}
    told = setting.sizes >= FEWEST_FOR_AUPRC
    truth["auprc"] = float(BY_CLASS["auprc"].of_sample(true).value[told].mean()) if told.any() else np.nan
    found = figures(together([counted(setting, rng) for _ in range(draws)]))
    tally(into, (setting.pictures, setting.several, setting.classes), found, truth)


def of_three(
    subgroups: Table,
    clients: Table,
    settings: Mapping[str, Setting],
    kind: str,
    draws: int,
    rng: np.random.Generator,
) -> None:
    """Figures that compare three subgroups, and means over three clients."""
    one = settings["0"]
    key = (kind, one.pictures, one.several)
    drawn = [{name: counted(setting, rng) for name, setting in settings.items()} for _ in range(draws)]
    true = {name: long_run(setting, rng) for name, setting in settings.items()}
    points = {name: of.counts for name, of in true.items()}
    each = {name: together([blocks[name] for blocks in drawn]) for name in settings}
    truth = {name: float(figure(points)) for name, figure in FAIRNESS.items()}
    tally(subgroups, key, fairness_limits(each), truth)
    for name, by_pictures in DIFFERENCES.items():
        pair = {name: points[name] for name in ("0", "1")}
        d = float(np.subtract(*standardised(pair, by_pictures=by_pictures)))
        found = [difference(blocks["0"], blocks["1"], by_pictures=by_pictures) for blocks in drawn]
        ends = np.array([(of.value, *of.interval) for of in found if of is not None]).reshape(-1, 3)
        tally(subgroups, key, {name: Limits(*ends.T)}, {name: d})
    for name in OVER_CLIENTS:
        means = [mean_of_limits(name, [sample_of(block) for block in blocks.values()]) for blocks in drawn]
        found_means = Limits(
            *(np.array([getattr(of, end) for of in means]) for end in ("value", "low", "high"))
        )
        mean = float(np.mean([limits_of(name, of).value for of in true.values()]))
        tally(clients, key, {name: found_means}, {name: mean})


def show(table: Table, header: Sequence[str], columns: Sequence[Sequence[tuple[object, ...]]]) -> None:
    """Each figure as a row; a column has the coverages of its kinds of settings, and their mean width."""
    rows = []
    for name, cells in table.items():
        row = [f"`{name}`"]
        for keys in columns:
            known = [cells[key] for key in keys if key in cells]
            row.append(f"{' '.join(of.share() for of in known)} ({sum(known, Held()).width()})")
        rows.append(row)
    print_table(header, rows)


def main(
    draws: Annotated[int, typer.Option(help="Test splits of each setting.")] = 400,
    pictures: Annotated[str, typer.Option(help="Of a test split.")] = "50,100,500",
    classes: Annotated[str, typer.Option(help="Of the models.")] = "2,8,11",
) -> None:
    """Prints the coverage and the width of every interval."""
    sizes, kinds = ([int(each) for each in text.split(",")] for text in (pictures, classes))
    print_conditions("Coverage of 95 % intervals", {"draws of a setting": draws, "smallest cell": CELL})
    rng = np.random.default_rng(0)
    one: Table = {}
    for kind, k, n, equal, several in product(("unsure", "sure"), kinds, sizes, (True, False), (False, True)):
        of_one_model(one, Setting(kind, k, n, equal, several), draws, rng)
    lesions = {False: "one a lesion", True: "several"}
    columns = [[(n, several, k) for k in kinds] for n, several in product(sizes, lesions)]
    heads = [f"{n}, {lesions[several]}" for n, several in product(sizes, lesions)]
    show(one, (f"figure, {classes} classes", *heads), columns)

    subgroups: Table = {}
    clients: Table = {}
    for (kind, skills), n, several, k in product(SKILLS.items(), sizes[:2], (False, True), kinds[:2]):
        base = Setting("unsure", k, n, False, several)
        settings = {str(place): replace(base, skill=skill) for place, skill in enumerate(skills)}
        of_three(subgroups, clients, settings, kind, draws, rng)
    pairs = list(product(sizes[:2], lesions))
    columns = [[(kind, n, several) for kind in SKILLS] for n, several in pairs]
    heads = [f"{n} each, {lesions[several]}" for n, several in pairs]
    show(subgroups, ("three subgroups alike, apart", *heads), columns)
    show(clients, ("mean over three clients alike, apart", *heads), columns)


if __name__ == "__main__":
    start(main, "--draws 4 --pictures 40,50 --classes 2,3")
