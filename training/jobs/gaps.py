"""Gaps in what clients hold: subgroups that cannot be judged, and hospitals that no subgroup's model knows.

They stop nothing. They are told before a run begins, in its log, its report and its summary, since figures of
few pictures look like any others.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from registry.bundle.labels import Label, malignant_classes
from registry.bundle.metrics.intervals import clopper_pearson
from training.data.dataset import SPLITS
from training.rounds.census import Census

WANTED = 0.8
"""If no sensitivity below this could be excluded though every malignant picture were found, it is told."""


def gaps(census: Census, labels: Sequence[Label]) -> list[str]:
    """A sentence for each gap.

    Args:
        census: who holds what.
        labels: the classes.
    """
    return [*untested(census, labels), *not_reached(census)]


def untested(census: Census, labels: Sequence[Label]) -> Iterator[str]:
    """Subgroups, and all pictures together, without test pictures or with few malignant ones."""
    test, malignant = SPLITS.index("test"), malignant_classes(labels)
    hospitals = [census.counts[name][test, :, :-1] for name in census.all_hospitals]
    counts = sum(hospitals, np.zeros((len(census.all_subgroups), len(labels)), dtype=np.int64))
    if not counts.sum():
        yield "no hospital has a labelled test picture: no model will be judged; raise data.split.test"
        return
    advice = "bring more, merge it with another subgroup, or raise data.split.test"
    for name, by_class in zip(census.subgroups, counts, strict=False):
        if not by_class.sum():
            yield f"{name}: no labelled test pictures, so nothing will be known of how it is served; {advice}"
        elif malignant.any() and not malignant.all():
            found = int(by_class[malignant].sum())
            if lowest(found) < WANTED:
                yield f"{name}: {told(found)}; {advice}"


def told(malignant: int) -> str:
    """What so few malignant test pictures can show."""
    if not malignant:
        return "no malignant test pictures, so it will be unknown whether malignant lesions are found"
    pictures = "picture" if malignant == 1 else "pictures"
    return (
        f"{malignant} malignant test {pictures}: were every one found, a sensitivity of "
        f"{lowest(malignant):.2f} could still not be excluded (95 %)"
    )


def lowest(n: int) -> float:
    """The lower end of the 95 % interval of n found of n (Clopper & Pearson 1934)."""
    return clopper_pearson(n, n)[0]


def not_reached(census: Census) -> Iterator[str]:
    """Hospitals without training pictures, and those none of whose are of a subgroup, where there are any."""
    train = SPLITS.index("train")
    for name in census.all_hospitals:
        pictures = census.counts[name][train].sum(axis=1)
        if not pictures.sum():
            yield f"{name}: no training pictures: it trains nothing, and only judges models"
        elif census.subgroups and not pictures[:-1].sum():
            yield (
                f"{name}: none of its {int(pictures.sum())} training pictures is of a declared subgroup: it "
                "trains the global model, and no subgroup's; declare skin tones, or name their scale in "
                "data.subgroups"
            )
