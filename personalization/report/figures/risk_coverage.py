"""Risk-coverage curves: the error rate when the least confident pictures are referred first."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from personalization.report.measures import ALL, estimate, total
from personalization.report.numerals import listed, number, with_interval
from personalization.report.palette import INK, MUTED, series_colour, series_dash
from personalization.report.svg import Panel, drawn
from personalization.report.table import Cell, Row, Table
from registry.bundle.counts.counting import Block
from registry.bundle.counts.counts import Counts
from registry.bundle.metrics.selective import risk_coverage as risk_coverage_of

_COVERAGES = (0.25, 0.5, 0.75, 0.9, 1.0)  # where the table reads the curves


def risk_coverage(
    blocks: Mapping[str, Block], order: tuple[str, ...], target_risk: float | None = None
) -> Panel:
    """The curves of all subgroups in one panel, with the risk that abstention aims at."""
    curves = {name: _curve(blocks[name].point) for name in order if name in blocks}
    everything = total(blocks)
    whole_curve = _curve(everything.point)

    def draw(axes: Axes) -> None:
        if target_risk is not None:
            axes.axhline(target_risk, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(
                "target", (0.005, target_risk), va="bottom", fontsize=7.5, color=MUTED, xycoords="data"
            )
        for name, (coverage, risk) in curves.items():
            index = order.index(name)
            axes.plot(coverage, risk, color=series_colour(index), linestyle=series_dash(index))
        axes.plot(*whole_curve, color=INK, linewidth=2.4)
        axes.set(xlim=(0, 1), xlabel="share of pictures answered", ylabel="share wrong among answered")
        axes.set_ylim(bottom=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")

    shown = {ALL: (whole_curve, everything)} | {name: (curve, blocks[name]) for name, curve in curves.items()}
    table = Table(
        "Share wrong among answered, at a share of pictures answered",
        ("subgroup", *(number(at, "percent") for at in _COVERAGES)),
        tuple(
            Row(name, tuple(Cell(number(_risk_at(curve, at), "percent")) for at in _COVERAGES))
            for name, (curve, _) in shown.items()
        ),
    )
    areas = [f"{name} {with_interval(estimate('aurc', block))}" for name, (_, block) in shown.items()]
    alternative = f"Risk-coverage curves; area under the curve: {listed(areas)}"
    svg = drawn("risk-coverage", alternative, draw, width=4.2, height=2.9)
    return Panel("Risk against coverage", svg, "Lower is better.", table)


def _curve(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    """Coverage and risk from the strictest threshold that answers anything to answering all."""
    curve = risk_coverage_of(counts)
    answered = ~np.isnan(curve.risk)
    return curve.coverage[answered][::-1], curve.risk[answered][::-1]


def _risk_at(curve: tuple[np.ndarray, np.ndarray], coverage: float) -> float | None:
    """The risk at the least coverage on the curve that reaches this one."""
    at = int(np.searchsorted(curve[0], coverage - 1e-9))
    return float(curve[1][at]) if at < len(curve[1]) else None
