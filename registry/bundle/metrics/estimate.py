"""A figure beside its interval, ready for JSON: what every group of figures in a summary is made of."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from registry.bundle.metrics.exact import exact_interval
from registry.bundle.metrics.interval import NOISE, interval
from registry.bundle.metrics.ratio import Figure, Tally
from registry.bundle.metrics.wilson import widened


def number(value: Figure) -> float | None:
    """A figure; None where it is undefined."""
    return None if np.isnan(value) else float(value)


def ends(
    name: str,
    point: Figure,
    replicates: Figure | None,
    proportions: Tally | None = None,
) -> list[float] | None:
    """The ends of a figure's 95 % interval, by the method that suits the figure; None where there is none.

    Args:
        name: the figure's, which says what noise does to it.
        point: the figure, `()`.
        replicates: the figure of each replicate, if there are any.
        proportions: how many of how many, where the figure is a mean of proportions: they give an exact
            interval where replicates give none, and widen that of several where some are of few pictures.
    """
    if np.isnan(point):
        return None
    found = None if replicates is None else interval(replicates, point, NOISE.get(name))
    if proportions is not None:
        found = exact_interval(*proportions) if found is None else widened(found, *proportions)
    return None if found is None else list(found)


def figures_and_intervals(
    point: Any,
    replicates: Any,
    figures: Mapping[str, Callable[[Any], Figure]],
    tallies: Mapping[str, Callable[[Any], Tally]],
) -> dict[str, Any]:
    """`n`, each figure of some counts, and `intervals`: of all with replicates, else the exact ones.

    Args:
        point: the counts, of a block or of a cell.
        replicates: their replicates, or None.
        figures: what to compute, by name.
        tallies: of figures that are means of proportions, by name.
    """
    figures_and_n: dict[str, Any] = {"n": int(point.n)}
    values = {name: figure(point) for name, figure in figures.items()}
    figures_and_n |= {name: number(value) for name, value in values.items()}
    figures_and_n["intervals"] = {
        name: ends(
            name,
            value,
            None if replicates is None else figures[name](replicates),
            tallies[name](point) if name in tallies else None,
        )
        for name, value in values.items()
        if replicates is not None or name in tallies
    }
    return figures_and_n
