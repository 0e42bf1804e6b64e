"""Judging a model's maps: by what it loses when their strongest cells are covered, and by where lesions are.

Deletion (Petsiuk et al. 2018) needs no mask: of each picture the class that the model answers is looked at,
and its probability as ever more cells are covered. The map has to beat three others of the same kind:

- itself, moved elsewhere in the picture, around its edges: what is covered has the same shape. Cells drawn
  one by one would not do: scattered, they spoil a picture more than any spot does, wherever that is.
- the map of another picture: of maps that say nothing of this one, either is as likely to cost more.
- the map of the same graph with shuffled weights (Adebayo et al. 2018).

The pointing game (Zhang et al. 2018) is played where it is known where the lesion is.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import GraphError
from registry.bundle.manifest.map_judgement import (
    FEWEST,
    Curve,
    MapFigures,
    MapJudgement,
    SubgroupMapFigures,
)
from registry.bundle.manifest.schema import sha256
from registry.bundle.maps.covering import SHARES, covered
from registry.bundle.maps.pointing import by_chance, points_at
from registry.bundle.maps.relevance import by_strength
from registry.bundle.maps.shuffled import shuffled
from registry.bundle.model_file.graph import Graph, Outputs
from registry.bundle.question import Question, ask

Curves = NDArray[np.float64]


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class JudgedPicture:
    """A picture that maps are judged on.

    Attributes:
        question: it alone, with its kind where the model takes cases.
        subgroup: of whom it is; None where nobody knows.
        mask: where the lesion is in what the model sees, `(height, width)`; None where nobody knows.
    """

    question: Question
    subgroup: str | None = None
    mask: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class Found:
    """What was found on one picture.

    Attributes:
        subgroup: of whom it is.
        score: the probability of the class that the model answers.
        curves: its probability as the cells of the map, of the map moved elsewhere, of another picture's and
            of shuffled weights are covered, `(4, shares)`.
        hit: whether the map, and that of shuffled weights, point at the lesion; whether its middle is on it;
            and the share of cells that are. None where it is not known where the lesion is.
    """

    subgroup: str | None
    score: float
    curves: Curves
    hit: tuple[bool, bool, bool, float] | None


def judge(content: bytes, pictures: Iterable[JudgedPicture], seed: int, code_version: str) -> MapJudgement:
    """Judges the maps of a graph on pictures, one of each patient.

    Args:
        content: the bytes of `model.onnx`.
        pictures: at least one.
        seed: of what is drawn at random, and of the shuffled weights.
        code_version: the dermfed that judges.

    Raises:
        GraphError: the graph has no map, or does not answer.
        ValueError: there is no picture.
    """
    found = list(look(Graph(content), Graph(shuffled(content, seed)), pictures, seed))
    if not found:
        raise ValueError("there is no picture to judge maps on")
    groups = sorted({one.subgroup for one in found if one.subgroup is not None})
    parts = {name: [one for one in found if one.subgroup == name] for name in groups}
    return MapJudgement(
        model=sha256(content),
        overall=figures(found),
        by_subgroup=tuple(
            SubgroupMapFigures(subgroup=name, **figures(part).model_dump())
            for name, part in parts.items()
            if len(part) >= FEWEST
        ),
        seed=seed,
        code_version=code_version,
    )


def look(graph: Graph, other: Graph, pictures: Iterable[JudgedPicture], seed: int) -> Iterator[Found]:
    """What is found on each picture.

    Args:
        graph: whose maps are judged.
        other: the same with shuffled weights.
        pictures: they.
        seed: of what is drawn at random.

    Raises:
        GraphError: the graph has no map, or does not answer.
    """
    if graph.map_shape is None:
        raise GraphError("the graph has no map, and nothing can be judged; export the model again")
    random = np.random.default_rng(seed)
    shown = list(pictures)
    answers = [ask(graph, [replace(one.question, with_map=True)]) for one in shown]
    chosen = [int(one.probabilities[0].argmax()) for one in answers]
    ours = [
        _grid(answer, one.question, which) for answer, one, which in zip(answers, shown, chosen, strict=True)
    ]
    ring = random.permutation(len(shown))
    of_another = dict(zip(ring.tolist(), np.roll(ring, 1).tolist(), strict=True))
    for place, picture in enumerate(shown):
        asked = replace(picture.question, with_map=True)
        theirs = _grid(ask(other, [asked]), asked, chosen[place])
        maps = (ours[place], _moved(ours[place], random), ours[of_another[place]], theirs)
        curves = np.stack(
            [
                deletion_curve(graph, picture.question, by_strength(one), graph.map_shape, chosen[place])
                for one in maps
            ]
        )
        yield Found(
            picture.subgroup,
            float(answers[place].probabilities[0, chosen[place]]),
            curves,
            None if picture.mask is None else _hits(ours[place], theirs, picture.mask),
        )


def _moved(grid: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
    """A map moved by some cells, around the edges; never by none."""
    down, across = divmod(int(random.integers(1, grid.size)), grid.shape[1])
    return np.roll(grid, (down, across), axis=(0, 1))


def _grid(outputs: Outputs, question: Question, chosen: int) -> NDArray[np.float32]:
    found = outputs.map
    assert found is not None, "the graph has a map, and was asked for it"
    of_picture = found[0] if question.given is None else found[0, 0]
    grid: NDArray[np.float32] = of_picture[chosen]
    return grid


def deletion_curve(
    graph: Graph, question: Question, order: NDArray[np.int64], shape: tuple[int, int], chosen: int
) -> Curves:
    """The probability of a class as cells are covered in an order, one for each of `SHARES`."""
    made = covered(question.images[0], order, shape)
    answers = [ask(graph, [replace(question, images=one[None])]) for one in made]
    return np.array([one.probabilities[0, chosen] for one in answers], dtype=np.float64)


def _hits(
    ours: NDArray[np.float32], theirs: NDArray[np.float32], mask: NDArray[np.bool_]
) -> tuple[bool, bool, bool, float]:
    middle = bool(mask[mask.shape[0] // 2, mask.shape[1] // 2])
    return points_at(ours, mask), points_at(theirs, mask), middle, by_chance(ours.shape, mask)


def figures(found: Sequence[Found]) -> MapFigures:
    """The counts and curves over pictures, at least one."""
    means = np.mean([one.curves for one in found], axis=0).clip(0, 1)
    areas = np.stack([one.curves.mean(axis=1) for one in found])
    known = [one.hit for one in found if one.hit is not None]
    return MapFigures(
        n=len(found),
        against_elsewhere=_wins(areas[:, 0], areas[:, 1]),
        against_others=_wins(areas[:, 0], areas[:, 2]),
        against_shuffled=_wins(areas[:, 0], areas[:, 3]),
        score=_rounded(np.mean([one.score for one in found])),
        by_map=_points(means[0]),
        by_elsewhere=_points(means[1]),
        by_others=_points(means[2]),
        by_shuffled=_points(means[3]),
        masks=len(known),
        hits=sum(one[0] for one in known),
        shuffled_hits=sum(one[1] for one in known),
        centre_hits=sum(one[2] for one in known),
        chance=_rounded(np.mean([one[3] for one in known])) if known else None,
    )


def _wins(ours: Curves, theirs: Curves) -> float:
    """How often less is left of the class by our cells than by theirs; half of one where it is the same."""
    return float((ours < theirs).sum() + (ours == theirs).sum() / 2)


def _points(curve: Curves) -> Curve:
    first, second, third, fourth = (_rounded(value) for value in curve)
    assert len(SHARES) == len(curve)
    return first, second, third, fourth


def _rounded(value: np.floating | float) -> float:
    return round(min(max(float(value), 0.0), 1.0), 6)
