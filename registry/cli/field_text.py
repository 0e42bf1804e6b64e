"""Figures of the field and alarms as `dermfed-registry field` tells them: text and data."""

from typing import TYPE_CHECKING, Any

import numpy as np

from registry.alarms.told import Alarm, said
from registry.rendering.table import columns, lines_of

if TYPE_CHECKING:
    from registry.alarms.look import Look
    from registry.alarms.told import FoundAlarm
    from registry.bundle.metrics.limits import Limits
    from registry.field.report import Kept, SubgroupInField

HEADER = (
    *("version", "subgroup", "answered", "outcomes", "malignant"),
    *("sensitivity", "corrected", "specificity", "corrected", "set held it"),
)
NOTE = (
    "Sensitivity and specificity are those at the working point, with 95 % intervals: first among the "
    "followed up, then corrected for who is (Begg and Greenes 1983). The correction holds where following up "
    "depends on the answer alone; where clinicians also follow up what they doubt, it accuses too much."
)


def field_text(found: "Look") -> str:
    """Figures, one subgroup on each line; below, all alarms, the open ones first."""
    text = [columns(HEADER, [_row(one) for one in found.report]), "", NOTE]
    told = sorted(found.alarms, key=lambda one: (not one.is_open, one.number))
    lines = [_unwatched(one, kept) for one in found.report for kept in one.kept if not kept.windows]
    lines += [_alarm(one) for one in told if one.is_open]
    lines += [f"OPEN, and not in history yet: {said(one)}. {_TO_DO}" for one in found.untold]
    lines += [str(one) for one in told if not one.is_open]
    return "\n".join([*text, *(["", lines_of(lines)] if lines else [])])


_TO_DO = "Withdraw the version, go back to the release before, or close the alarm with a reason"


def _alarm(one: Alarm) -> str:
    found = one.found
    evidence = f"{found.outcomes:,} outcomes, evidence {found.evidence:.3g} of {found.limit:.3g}"
    return f"OPEN: {one} ({evidence}). {_TO_DO}"


def _unwatched(one: "SubgroupInField", kept: "Kept") -> str:
    promise = kept.promise
    return (
        f"NOT WATCHED: the {promise.what} of {promise.least:.2f} that version {one.version} promises "
        f"{one.subgroup}: too few outcomes have come of one side of the working point, or of both"
    )


def _row(one: "SubgroupInField") -> list[str]:
    of = one.figures
    return [
        f"{one.version} ({one.made_for})",
        one.subgroup,
        f"{of.answered:,}",
        f"{of.confirmed:,}",
        f"{of.malignant:,}",
        *map(_told, (of.seen_sensitivity, of.sensitivity, of.seen_specificity, of.specificity, one.coverage)),
    ]


def _told(limits: "Limits") -> str:
    ends = f"{float(limits.low):.2f} to {float(limits.high):.2f}"
    return f"unknown ({ends})" if np.isnan(limits.value) else f"{float(limits.value):.2f} ({ends})"


def field_data(found: "Look") -> list[dict[str, Any]]:
    """Figures and promises of each version and subgroup."""
    return [_data(one) for one in found.report]


def alarm_data(found: "Look") -> list[dict[str, Any]]:
    """Every alarm; those that history does not know have no number."""
    return [*map(_alarm_data, found.alarms), *map(_found_data, found.untold)]


def _alarm_data(one: Alarm) -> dict[str, Any]:
    closed = (
        None
        if one.closed is None
        else {"time": one.closed.isoformat(), "by": one.closed_by, "reason": one.why}
    )
    return {**_found_data(one.found), "number": one.number, "event": one.event, "closed": closed}


def _found_data(one: "FoundAlarm") -> dict[str, Any]:
    return {
        "number": None,
        "version": one.version,
        "subgroup": one.subgroup,
        "of": one.of,
        "least": one.least,
        "day": str(one.day),
        "found": one.found.isoformat(),
        "evidence": one.evidence,
        "limit": one.limit,
        "outcomes": one.outcomes,
        "closed": None,
    }


def _data(one: "SubgroupInField") -> dict[str, Any]:
    of = one.figures
    figures = {
        "sensitivity": {"seen": _limits(of.seen_sensitivity), "corrected": _limits(of.sensitivity)},
        "specificity": {"seen": _limits(of.seen_specificity), "corrected": _limits(of.specificity)},
        "coverage": {"seen": _limits(one.coverage)},
    }
    return {
        "version": one.version,
        "made_for": one.made_for,
        "subgroup": one.subgroup,
        "since": str(one.since),
        "answered": of.answered,
        "outcomes": of.confirmed,
        "malignant": of.malignant,
        "reported": one.reported,
        "figures": figures,
        "promises": [
            {
                "of": kept.promise.what,
                "least": kept.promise.least,
                "why": kept.promise.why,
                "outcomes": kept.outcomes,
                "evidence": kept.evidence,
                "limit": kept.limit,
                "broken_on": None if kept.broken_on is None else str(kept.broken_on),
                "windows": kept.windows,
            }
            for kept in one.kept
        ],
    }


def _limits(limits: "Limits") -> dict[str, Any]:
    value = None if np.isnan(limits.value) else float(limits.value)
    return {"value": value, "interval": [float(limits.low), float(limits.high)]}
