"""The figures that are drawn as curves: those of a line of `metrics.jsonl`, and of `summary.json`.

No name of a hospital is among them: who answered is a number.
"""

from collections.abc import Mapping
from typing import Any

from training.privacy.dp.updates import EPSILON

WHO = "answered"  # the curve that every round has
CURVES = ("accuracy", "balanced_accuracy", "auroc")
TEST_FIGURES = (*CURVES, "macro_f1", "ece", "aurc")


def figures_of_round(line: Mapping[str, Any]) -> dict[str, float]:
    """The curves' next points, by name; what is undefined is absent."""
    found: dict[str, Any] = {
        "loss": line["loss"],
        "asked": len(line["asked"]),
        WHO: len(line["answered"]),
        **{name: line["metrics"].get(name) for name in CURVES},
        **by_subgroup(line["by_subgroup"], CURVES),
        **{name: line.get(name) for name in ("bytes_up", "bytes_down", "seconds")},
    }
    models = line["models"]
    if len(models) > 1:
        found |= {f"loss/{name}": model["loss"] for name, model in models.items()}
    spent = [
        scalars[EPSILON]
        for model in models.values()
        for scalars in model.get("scalars", {}).values()
        if EPSILON in scalars
    ]
    return numbers({**found, "epsilon": max(spent, default=None)})


def figures_of_test(summary: Mapping[str, Any]) -> dict[str, float]:
    """The test figures of the final models, by name."""
    test = summary.get("test")
    if not test:
        return {}
    return numbers(
        {
            **{name: test.get(name) for name in TEST_FIGURES},
            **by_subgroup(test["by_subgroup"], TEST_FIGURES),
            **{f"fairness/{name}": value for name, value in test.get("fairness", {}).items()},
        }
    )


def by_subgroup(rows: Mapping[str, Mapping[str, Any]], names: tuple[str, ...]) -> dict[str, Any]:
    """Figures of subgroups under `<figure>/<subgroup>`."""
    return {f"{name}/{place}": row.get(name) for place, row in rows.items() for name in names}


def numbers(found: Mapping[str, Any]) -> dict[str, float]:
    """Those that are numbers."""
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
