"""Number formats of the report: percentages with one decimal, areas and errors with three."""

from collections.abc import Mapping
from typing import Literal

from personalization.report.measures import Estimate
from registry.bundle.counts.score_bins import probability_text

Unit = Literal["percent", "ratio", "points"]

ABSENT = "–"
"""Stands where a figure is not defined, such as a recall without pictures of the class."""


_UNITS: Mapping[Unit, str] = {"percent": "\u202f%", "ratio": "", "points": "\u202fpts"}  # never wrapped


def number(value: float | None, unit: Unit = "ratio") -> str:
    """A figure as text: 0.742 as `74.2 %` (percent), `0.742` (ratio) or `74.2 pts` (points, differences)."""
    if value is None:
        return ABSENT
    written = f"{value:.3f}" if unit == "ratio" else f"{100 * value:.1f}"
    return written.replace("-", "−") + _UNITS[unit]


def threshold(probability: float) -> str:
    """A threshold in percent, near 0 and 1 in as many decimals as it takes: 0.99988 as `99.988 %`."""
    places = len(probability_text(probability).partition(".")[2])
    return f"{100 * probability:.{places - 2}f}{_UNITS['percent']}"


def interval(estimate: Estimate, unit: Unit = "ratio") -> str:
    """The ends of an interval without their unit, `68.0 to 80.1`; empty where there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = (number(end, unit).removesuffix(_UNITS[unit]) for end in (estimate.low, estimate.high))
    return f"{low} to {high}"


def with_interval(estimate: Estimate, unit: Unit = "ratio") -> str:
    """A figure and its interval in one line, `74.2 % (68.0 to 80.1)`."""
    ends = interval(estimate, unit)
    return f"{number(estimate.value, unit)} ({ends})" if ends else number(estimate.value, unit)


def whole(value: int) -> str:
    """A count with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")


def pictures(value: int) -> str:
    """A count of pictures in words."""
    return f"{whole(value)} picture{'' if value == 1 else 's'}"


def size(num_bytes: float) -> str:
    """Bytes in the largest decimal unit that leaves at least 1."""
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            written = f"{num_bytes:.0f}" if unit == "B" else f"{num_bytes:.1f}"
            return f"{written}\u202f{unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f}\u202fTB"


def duration(seconds: float) -> str:
    """A duration in words, such as `3 min`."""
    if seconds < 120:
        return f"{seconds:.1f}\u202fs"
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.0f}\u202fmin" if minutes < 120 else f"{hours:.1f}\u202fh"


def listed(items: list[str] | tuple[str, ...]) -> str:
    """`a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""
