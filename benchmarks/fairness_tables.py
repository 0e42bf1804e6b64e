"""Tables of systems by subgroup: figures with their intervals, and differences from one of the systems."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paired import FigureOf, Judged, difference, in_subgroup, judged, over_all, shown
from recipe_runs import RecipeRun, cell

from registry.bundle.metrics import classification, fairness

FIGURES = ("balanced_accuracy", "auroc")
FAIRNESS = ("variance", "gap", "worst", "spread", "spread_standardised")
BY_SUBGROUP = ("accuracy", "balanced_accuracy", "auroc")


@dataclass(frozen=True)
class System:
    """One row of a table, over seeds.

    Attributes:
        figures: the `test` block of the stage that is shown, with the seconds of the stages up to it.
        judged: the counts behind it.
    """

    figures: Sequence[Mapping[str, Any]]
    judged: Sequence[Judged]

    @classmethod
    def read(cls, runs: Sequence[RecipeRun], folder: Path, place: int) -> "System":
        """What the stage at `place` of finished runs left, one run a seed."""
        return cls(
            [figures(run, folder, place) for run in runs], [judged(run, folder, place) for run in runs]
        )

    @property
    def subgroups(self) -> tuple[str, ...]:
        """The subgroups that have test pictures in every seed."""
        return tuple(self.figures[0]["by_subgroup"])


def figures(run: RecipeRun, folder: Path, place: int) -> dict[str, Any]:
    """The test figures of one run after one of its stages."""
    stages = json.loads((run.folder(folder) / "summary.json").read_text())["stages"]
    test: dict[str, Any] = stages[place]["test"]
    return {**test, "seconds": sum(stage["seconds"] for stage in stages[: place + 1])}


def overall_table(systems: Mapping[str, System]) -> str:
    """Overall and fairness figures."""
    lines = ["| | " + " | ".join((*FIGURES, *FAIRNESS)) + " | seconds a run |"]
    lines.append("|---" * (len(FIGURES) + len(FAIRNESS) + 2) + "|")
    for name, system in systems.items():
        cells = [cell(system.figures, key) for key in FIGURES]
        cells += [cell([run["fairness"] for run in system.figures], key) for key in FAIRNESS]
        seconds = [run["seconds"] for run in system.figures]
        cells.append(f"{min(seconds):.0f}–{max(seconds):.0f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def subgroup_tables(systems: Mapping[str, System], keys: Sequence[str] = BY_SUBGROUP) -> str:
    """A table of each figure by subgroup."""
    subgroups = next(iter(systems.values())).subgroups
    tables = []
    for key in keys:
        header = [f"{name} ({sizes(systems, name)})" for name in subgroups]
        lines = [f"{key} by subgroup (n)", "", "| | " + " | ".join(header) + " |"]
        lines.append("|---" * (len(subgroups) + 1) + "|")
        for name, system in systems.items():
            cells = [cell([run["by_subgroup"][place] for run in system.figures], key) for place in subgroups]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def sizes(systems: Mapping[str, System], subgroup: str) -> str:
    """The test pictures of a subgroup in each seed's split."""
    first = next(iter(systems.values()))
    return "/".join(dict.fromkeys(str(run["by_subgroup"][subgroup]["n"]) for run in first.figures))


def table_beside(systems: Mapping[str, System], base: str) -> str:
    """What each system has more than `base`, on the same pictures."""
    subgroups = systems[base].subgroups
    columns: dict[str, FigureOf] = {
        "balanced accuracy": over_all(classification.balanced_accuracy),
        "AUROC": over_all(classification.auroc),
        "spread": fairness.spread,
        "standardised spread": fairness.spread_standardised,
    }
    for name in subgroups:
        columns[f"{name}: balanced accuracy"] = in_subgroup(classification.balanced_accuracy, name)
        columns[f"{name}: AUROC"] = in_subgroup(classification.auroc, name)
    lines = [f"more than {base}, pair by pair", "", "| | " + " | ".join(columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for name, system in systems.items():
        if name != base:
            cells = [
                shown(difference(figure, system.judged, systems[base].judged)) for figure in columns.values()
            ]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
