"""A figure of every subgroup against a limit, which several gates are.

A subgroup without the figure is refused: it was never tested. Where the test names no subgroup, all its
pictures stand as `global`.
"""

from collections.abc import Mapping

from registry.gate_report import (
    OVERRIDE,
    Bound,
    GateFinding,
    GateResult,
    SubgroupFigure,
    never_tested,
    worst_of,
)
from registry.gates.gate import ROUNDING


def against_limit(
    gate: str, called: str, standings: Mapping[str, SubgroupFigure | None], bound: Bound, limit: float
) -> GateResult:
    """What a gate says whose figure must lie on one side of a limit for every subgroup.

    Args:
        gate: the gate's name.
        called: the figure, as people say it.
        standings: each subgroup's figure; None where it was never tested.
        bound: the side.
        limit: the limit, which itself passes.
    """
    findings = tuple(_finding(name, called, one, bound, limit) for name, one in standings.items())
    tested = [standing for standing in standings.values() if standing is not None]
    untested = tuple(name for name, standing in standings.items() if standing is None)
    outside = [one for one in tested if not lies(one.value, bound, limit)]
    worst = sorted(tested, key=lambda one: one.value, reverse=bound == "at most")[:1]
    said = [never_tested(untested, called)] if untested else []
    if outside:
        said.append(f"{called} is {', '.join(map(str, outside))}")
    if not said and worst:
        said.append(f"{called} is {'lowest' if bound == 'at least' else 'highest'} at {worst[0]}")
    detail = f"{'; '.join(said)}; {bound} {limit:.3f} is asked for"
    if untested or outside:
        steps = [f"Test {', '.join(untested)}"] if untested else []
        if outside:
            steps.append(f"{'improve' if steps else 'Improve'} the model for {_names(outside)}")
        detail += f". {', '.join(steps)}, {OVERRIDE}"
    return GateResult(
        gate=gate,
        verdict=worst_of(findings),
        value=worst[0].value if worst else None,
        limit=limit,
        interval=worst[0].interval if worst else None,
        worst=worst[0] if worst else None,
        untested=untested,
        findings=findings,
        detail=detail,
    )


def lies(value: float, bound: Bound, limit: float) -> bool:
    """Whether a value lies on the right side of a limit, or on it."""
    return value >= limit - ROUNDING if bound == "at least" else value <= limit + ROUNDING


def _names(standings: list[SubgroupFigure]) -> str:
    return ", ".join(one.subgroup for one in standings)


def _finding(
    name: str, called: str, standing: SubgroupFigure | None, bound: Bound, limit: float
) -> GateFinding:
    if standing is None:
        return GateFinding(
            subgroup=name, measure=called, bound=bound, limit=limit, verdict="refused", note="never tested"
        )
    return GateFinding(
        subgroup=name,
        measure=called,
        value=standing.value,
        n=standing.n,
        interval=standing.interval,
        bound=bound,
        limit=limit,
        verdict="passed" if lies(standing.value, bound, limit) else "refused",
    )
