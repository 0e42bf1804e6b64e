"""What `diff` prints for people: what changed first, then the figures that a release is judged by."""

import json
from typing import Any

from registry.diff.figures import Figure, FigureChange
from registry.diff.versions import Difference, Side
from registry.printing import columns

SHOWN = (
    "accuracy", "balanced_accuracy", "auroc", "malignancy_auroc", "malignant_sensitivity", "ece", "coverage",
    "spread", "worst",
)  # fmt: skip
_LONGEST = 60


def difference_text(found: Difference) -> str:
    """What changed between two versions."""
    head = f"{found.model}: {_name(found.before)} -> {_name(found.after)}"
    parents = [
        f"{_name(side)} began from version {side.parent_version}"
        for side in (found.before, found.after)
        if side.parent_version is not None
    ]
    if not found.changed:
        told = "everything but figures is the same"
    else:
        rows = [[one.what, _short(one.before), _short(one.after)] for one in found.changed]
        told = columns(("changed", f"version {found.before.version}", f"version {found.after.version}"), rows)
    return "\n\n".join(["\n".join([head, *parents]), told, _figures(found)])


def _figures(found: Difference) -> str:
    rows = [
        [
            one.subgroup or {"all": "all pictures", "fairness": "between subgroups"}[one.part],
            one.figure.replace("_", " "),
            _figure(one.before),
            _figure(one.after),
            "unknown" if one.difference is None else f"{one.difference:+.3f}",
            _overlap(one),
        ]
        for one in found.figures
        if one.figure in SHOWN
    ]
    if not rows:
        return "neither version has test figures"
    header = ("of", "figure", f"version {found.before.version}", f"version {found.after.version}",
              "difference", "intervals")  # fmt: skip
    return columns(header, rows)


def _name(side: Side) -> str:
    return f"version {side.version} ({side.subgroup})"


def _figure(one: Figure) -> str:
    value = "unknown" if one.value is None else f"{one.value:.3f}"
    between = "" if one.interval is None else f" ({one.interval[0]:.3f} to {one.interval[1]:.3f})"
    return value + between + ("" if one.n is None else f", n {one.n}")


def _overlap(one: FigureChange) -> str:
    return {True: "overlap", False: "apart", None: "unknown"}[one.overlap]


def _short(value: Any) -> str:
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    if text.startswith("sha256:"):
        return text[:19] + "…"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
