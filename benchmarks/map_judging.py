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
from math import ceil
from typing import Annotated, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from pydantic import Field, model_validator

from registry.bundle.diagnose import Question, ask
from registry.bundle.errors import GraphError
from registry.bundle.frozen import Frozen
from registry.bundle.manifest import sha256
from registry.bundle.metrics.intervals import mean_interval
from registry.bundle.model import Graph, Outputs

Curve = tuple[
    Annotated[float, Field(ge=0, le=1)],
    Annotated[float, Field(ge=0, le=1)],
    Annotated[float, Field(ge=0, le=1)],
    Annotated[float, Field(ge=0, le=1)],
]
"""The mean probability of the class as ever more cells are covered: those of `covering.SHARES`."""

FEWEST: Final = 5
"""Patients of a subgroup of whom figures are told; fewer would tell of single ones."""


class MapFigures(Frozen):
    """What was found on pictures, one of each patient.

    Attributes:
        n: how many.
        against_elsewhere: in how many of them covering the map's strongest cells cost the class more than
            covering the same cells moved elsewhere, by the mean over the curve; where both cost the same,
            half of one.
        against_others: likewise, than covering the strongest cells of another picture's map.
        against_shuffled: likewise, than those of the map of shuffled weights.
        score: the mean probability of the class with nothing covered.
        by_map: its curve as the map's strongest cells are covered.
        by_elsewhere: as the same cells moved elsewhere are.
        by_others: as the strongest cells of another picture's map are.
        by_shuffled: as the strongest cells of the map of shuffled weights are.
        masks: of how many it is known where the lesion is.
        hits: in how many of those the map's strongest cell is on it.
        chance: the mean share of cells that are on it there; None where it is known of none.
        shuffled_hits: in how many of those the strongest cell of the map of shuffled weights is on it.
        centre_hits: in how many the middle of the picture is.
    """

    n: int = Field(ge=1)
    against_elsewhere: float = Field(ge=0)
    against_others: float = Field(ge=0)
    against_shuffled: float = Field(ge=0)
    score: float = Field(ge=0, le=1)
    by_map: Curve
    by_elsewhere: Curve
    by_others: Curve
    by_shuffled: Curve
    masks: int = Field(0, ge=0)
    hits: int = Field(0, ge=0)
    chance: float | None = Field(None, ge=0, le=1)
    shuffled_hits: int = Field(0, ge=0)
    centre_hits: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _possible(self) -> "MapFigures":
        wins = (self.against_elsewhere, self.against_others, self.against_shuffled)
        if max(*wins, self.masks) > self.n:
            raise ValueError(f"more of the {self.n} pictures were counted than there are")
        if any((2 * one) % 1 for one in wins):
            raise ValueError("pictures are counted whole or by halves")
        if max(self.hits, self.shuffled_hits, self.centre_hits) > self.masks:
            raise ValueError(f"there are more hits than the {self.masks} pictures whose lesion is known")
        if (self.chance is None) != (self.masks == 0):
            raise ValueError("there is a `chance` where it is known of a lesion where it is, and only there")
        return self


class SubgroupMapFigures(MapFigures):
    """What was found on the pictures of one subgroup.

    Attributes:
        subgroup: whose they are, as they were named where the maps were judged.
    """

    subgroup: str = Field(min_length=1, max_length=200)


class MapJudgement(Frozen):
    """What was found of a model's maps.

    Attributes:
        model: sha256 of the `model.onnx` that was judged.
        overall: on all pictures.
        by_subgroup: by subgroup; those of fewer than `FEWEST` patients are left out.
        seed: of what was drawn at random.
        code_version: the dermfed that judged.
    """

    model: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    overall: MapFigures
    by_subgroup: tuple[SubgroupMapFigures, ...] = ()
    seed: int
    code_version: str

    @model_validator(mode="after")
    def _subgroups_of_all(self) -> "MapJudgement":
        names = [one.subgroup for one in self.by_subgroup]
        if len(set(names)) != len(names):
            raise ValueError("a subgroup is there twice")
        if any(one.n < FEWEST for one in self.by_subgroup):
            raise ValueError(f"a subgroup has fewer than {FEWEST} patients")
        if sum(one.n for one in self.by_subgroup) > self.overall.n:
            raise ValueError("the subgroups have more pictures than there are")
        return self


SHARES: Final = (0.1, 0.2, 0.3, 0.5)
"""Of the cells, covered one after the other, the strongest first: the points of a deletion curve."""


def covered(
    pixels: NDArray[np.uint8],
    order: NDArray[np.int64],
    shape: tuple[int, int],
    shares: Sequence[float] = SHARES,
) -> NDArray[np.uint8]:
    """A picture with its first cells covered, once for each share, `(shares, size, size, 3)`.

    Args:
        pixels: what the model sees, `(size, size, 3)`.
        order: the numbers of the cells, row by row, in the order in which they are covered.
        shape: rows and columns of the cells.
        shares: how many of them, rounded up.
    """
    size = len(pixels)
    rows = np.minimum(np.arange(size) * shape[0] // size, shape[0] - 1)
    columns = np.minimum(np.arange(size) * shape[1] // size, shape[1] - 1)
    cell = rows[:, None] * shape[1] + columns[None, :]
    made = np.repeat(pixels[None], len(shares), axis=0)
    for place, share in enumerate(shares):
        hidden = np.isin(cell, order[: ceil(share * len(order))])
        if not hidden.all():
            made[place][hidden] = np.round(pixels[~hidden].mean(axis=0)).astype(np.uint8)
    return made


SMALLEST: Final = 16
"""Numbers in a tensor that is shuffled; smaller ones are temperatures, colours and constants."""


def shuffled(content: bytes, seed: int = 0) -> bytes:
    """A graph with its weights shuffled, as many bytes long.

    Args:
        content: the bytes of an ONNX file.
        seed: of the shuffling.

    Raises:
        DecodeError: the bytes are no ONNX.
    """
    random = np.random.default_rng(seed)
    model = onnx.ModelProto.FromString(content)
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        values = np.frombuffer(tensor.raw_data, dtype="<f4")
        if len(values) >= SMALLEST:
            tensor.raw_data = random.permutation(values).tobytes()
    return model.SerializeToString()


def by_strength(grid: NDArray[np.floating]) -> NDArray[np.int64]:
    """The numbers of a map's cells, row by row, the strongest first; of equals the first comes first."""
    return np.argsort(-grid.astype(np.float64), axis=None, kind="stable").astype(np.int64)


def points_at(grid: NDArray[np.floating], mask: NDArray[np.bool_]) -> bool:
    """Whether the middle of the strongest cell is on the lesion.

    Args:
        grid: the map, `(rows, columns)`.
        mask: where the lesion is in what the model sees, `(height, width)`.
    """
    row, column = divmod(int(by_strength(grid)[0]), grid.shape[1])
    return bool(
        mask[
            int((row + 0.5) * mask.shape[0] / grid.shape[0]),
            int((column + 0.5) * mask.shape[1] / grid.shape[1]),
        ]
    )


def by_chance(shape: tuple[int, int], mask: NDArray[np.bool_]) -> float:
    """The share of cells whose middle is on the lesion: what a map that points anywhere hits."""
    rows = ((np.arange(shape[0]) + 0.5) * mask.shape[0] / shape[0]).astype(int)
    columns = ((np.arange(shape[1]) + 0.5) * mask.shape[1] / shape[1]).astype(int)
    return float(mask[np.ix_(rows, columns)].mean())


Curves = NDArray[np.float64]


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class JudgedPicture:
    """A picture that maps are judged on.

    Attributes:
        request: it alone, with its kind where the model takes cases.
        subgroup: of whom it is; None where nobody knows.
        mask: where the lesion is in what the model sees, `(height, width)`; None where nobody knows.
    """

    request: Question
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
    answers = [ask(graph, [replace(one.request, with_map=True)]) for one in shown]
    chosen = [int(one.probabilities[0].argmax()) for one in answers]
    ours = [
        _grid(answer, one.request, which) for answer, one, which in zip(answers, shown, chosen, strict=True)
    ]
    ring = random.permutation(len(shown))
    of_another = dict(zip(ring.tolist(), np.roll(ring, 1).tolist(), strict=True))
    for place, picture in enumerate(shown):
        asked = replace(picture.request, with_map=True)
        theirs = _grid(ask(other, [asked]), asked, chosen[place])
        maps = (ours[place], _moved(ours[place], random), ours[of_another[place]], theirs)
        curves = np.stack(
            [
                deletion_curve(graph, picture.request, by_strength(one), graph.map_shape, chosen[place])
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


def _grid(outputs: Outputs, request: Question, chosen: int) -> NDArray[np.float32]:
    found = outputs.map
    assert found is not None, "the graph has a map, and was asked for it"
    of_picture = found[0] if request.given is None else found[0, 0]
    grid: NDArray[np.float32] = of_picture[chosen]
    return grid


def deletion_curve(
    graph: Graph, request: Question, order: NDArray[np.int64], shape: tuple[int, int], chosen: int
) -> Curves:
    """The probability of a class as cells are covered in an order, one for each of `SHARES`."""
    made = covered(request.images[0], order, shape)
    answers = [ask(graph, [replace(request, images=one[None])]) for one in made]
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


LEAST: Final = 100
"""Pictures without which nothing is judged."""

AGAINST_ELSEWHERE: Final = 0.6
"""Over all: in which share of pictures the map's cells cost the class more than the same cells elsewhere."""

IN_A_SUBGROUP: Final = 0.5
"""The same in each subgroup of `LEAST_OF_A_SUBGROUP` pictures or more; smaller ones are told, not judged."""

LEAST_OF_A_SUBGROUP: Final = 30

AGAINST_OTHERS: Final = 0.5
"""Over all: the share in which they cost more than those of another picture's map."""

AGAINST_SHUFFLED: Final = 0.5
"""Over all: the share in which they cost more than those of shuffled weights."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Check:
    """One thing that a version's maps are held to.

    Attributes:
        name: of the check, for programs.
        subgroup: of whom; None for all.
        value: the share that was found.
        interval: its 95 % interval.
        limit: what its lower end has to exceed.
        passed: whether it does.
    """

    name: str
    subgroup: str | None
    value: float
    interval: Interval
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the lower end is above the limit."""
        return self.interval[0] > self.limit


def share(count: float, n: int) -> tuple[float, Interval]:
    """A share of pictures with its 95 % interval."""
    return count / n, mean_interval(np.array([count]), np.array([n]))


def checks(judgement: MapJudgement) -> tuple[Check, ...]:
    """All that a version's maps are held to."""
    overall = judgement.overall
    found = [
        _check("against elsewhere", None, overall.against_elsewhere, overall.n, AGAINST_ELSEWHERE),
        _check("against another picture's map", None, overall.against_others, overall.n, AGAINST_OTHERS),
        _check("against shuffled weights", None, overall.against_shuffled, overall.n, AGAINST_SHUFFLED),
    ]
    if overall.masks and overall.chance is not None:
        found.append(_check("points at the lesion", None, overall.hits, overall.masks, overall.chance))
    found += [
        _check("against elsewhere", one.subgroup, one.against_elsewhere, one.n, IN_A_SUBGROUP)
        for one in judgement.by_subgroup
        if not too_few(one)
    ]
    return tuple(found)


def _check(name: str, subgroup: str | None, count: float, n: int, limit: float) -> Check:
    value, interval = share(count, n)
    return Check(name, subgroup, value, interval, limit)


def too_few(figures: MapFigures) -> bool:
    """Whether a subgroup has too few pictures to be judged by itself."""
    return figures.n < LEAST_OF_A_SUBGROUP
