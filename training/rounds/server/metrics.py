"""Metrics of rounds: the log of a run, one line of `metrics.jsonl` a round, and what such a line says."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from registry.bundle.counts import Counts
from registry.bundle.metrics.classification import accuracy, auroc, balanced_accuracy
from training.algorithms.aggregators.base import AggregationWeights
from training.errors import CheckpointError
from training.messages import Failure, Update
from training.progress import Progress
from training.rounds.requests import Blocks


class MetricsLog:
    """Writes one JSON line a round, and has progress shown.

    Args:
        path: `metrics.jsonl`.
        shown: where progress is shown, or what shows it.

    Attributes:
        progress: what shows it.
        stage_start: the length of the log when the present stage began, also where a run was resumed.
    """

    def __init__(self, path: Path, shown: Console | Progress | None = None) -> None:
        self._path = path
        self.progress = shown if isinstance(shown, Progress) else Progress(shown or Console(stderr=True))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self.stage_start = self.size

    @property
    def size(self) -> int:
        """Bytes of the log so far."""
        return self._path.stat().st_size

    def cut(self, size: int) -> None:
        """Drop what was logged after a checkpoint; the rounds will be done and logged again."""
        with self._path.open("r+b") as file:
            file.truncate(min(size, self.size))

    def lines(self) -> list[dict[str, Any]]:
        """Everything logged so far."""
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def write(self, line: Mapping[str, Any]) -> None:
        """Log one round.

        Raises:
            CheckpointError: when the disk does not take it.
        """
        try:
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CheckpointError(
                f"cannot write {self._path}: {error}; free some disk space and continue with --resume"
            ) from error

    def begin(self, stage: str, rounds: int, done: int) -> None:
        """Show that a stage of rounds begins, `done` of them already done."""
        self.progress.begin(stage, rounds, done)

    def advance(self, stage: str, round_: int, rounds: int, note: str) -> None:
        """Show that a round is done."""
        self.progress.advance(round_, note)

    def log(self, text: str) -> None:
        """Log one line on the console."""
        self.progress.log(text)

    def end(self) -> None:
        """The rounds are over."""
        self.progress.end()

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.close()


Notes = Mapping[str, Mapping[str, Any]]  # by client


def round_line(
    stage: str,
    round_: int,
    cohorts: Mapping[str, Sequence[str]],
    updates: Mapping[str, Sequence[Update]],
    failures: Iterable[Failure],
    aggregations: Mapping[str, AggregationWeights],
    blocks: Blocks,
    notes: Mapping[str, Notes],
) -> dict[str, Any]:
    """The metrics of one round, a line of `metrics.jsonl`.

    Args:
        stage: its key.
        round_: its number.
        cohorts: the clients that were asked, by model.
        updates: those that were taken, by model.
        failures: what became of the others, and of those that gave no counts.
        aggregations: each client's weight in the new model, by model.
        blocks: the counts of the evaluation, by subgroup.
        notes: what the exchange logs of what it sent, by model and client.
    """
    points = {name: block.point for name, block in blocks.items()}
    everything = list(points.values())
    answered = {name: [update.client for update in members] for name, members in updates.items()}
    losses = {name: mean_loss(members) for name, members in updates.items()}
    known = [loss for loss in losses.values() if loss is not None]
    scalars = {
        name: {update.client: update.scalars for update in members if update.scalars}
        for name, members in updates.items()
    }
    return {
        "stage": stage,
        "round": round_,
        "asked": distinct(cohorts),
        "answered": distinct(answered),
        "failed": [{"client": f.client, "model": f.track, "reason": f.reason} for f in failures],
        "loss": sum(known) / len(known) if known else None,
        "metrics": figures(sum(everything[1:], everything[0])) if everything else {},
        "by_subgroup": {name: figures(point) for name, point in points.items()},
        "models": {
            name: {
                "asked": list(cohorts[name]),
                "answered": answered[name],
                "loss": losses[name],
                "weights": dict(aggregations[name].clients),
                **({"weight_before": aggregations[name].previous} if aggregations[name].previous else {}),
                **optional_entry("exchange", notes.get(name, {})),
                **optional_entry("scalars", scalars[name]),
            }
            for name in cohorts
        },
    }


def note_on(line: Mapping[str, Any]) -> str:
    """A round's line of metrics in words."""
    loss, balanced = line["loss"], line["metrics"].get("balanced_accuracy")
    parts = ["no loss told" if loss is None else f"loss {loss:.3f}"]
    if balanced is not None:
        known = {name: row["balanced_accuracy"] for name, row in line["by_subgroup"].items()}
        known = {name: value for name, value in known.items() if value is not None}
        worst = min(known, key=lambda name: known[name]) if len(known) > 1 else None
        parts.append(
            f"balanced accuracy {balanced:.3f}{f' (worst {worst} {known[worst]:.3f})' if worst else ''}"
        )
    parts.append(f"{len(line['answered'])} of {len(line['asked'])} answered")
    missing: dict[str, set[str]] = {"without": set(), "in part without": set(), "no counts of": set()}
    for failure in line["failed"]:
        client, model = failure["client"], line["models"].get(failure["model"], {"answered": ()})
        if client in model["answered"]:
            missing["no counts of"].add(client)
        else:
            missing["in part without" if client in line["answered"] else "without"].add(client)
    parts += [f"{how} {', '.join(sorted(clients))}" for how, clients in missing.items() if clients]
    return ", ".join(parts)


def optional_entry(key: str, by_client: Notes) -> dict[str, Notes]:
    """An entry of the line, where there is anything to log."""
    return {key: {client: dict(facts) for client, facts in by_client.items()}} if by_client else {}


def distinct(clients: Mapping[str, Sequence[str]]) -> list[str]:
    """Every client once, in the order in which they first come."""
    return list(dict.fromkeys(client for members in clients.values() for client in members))


def mean_loss(updates: Sequence[Update]) -> float | None:
    """The sample-weighted mean training loss over clients and subgroups; None where none is reported."""
    known = [
        (update.num_examples.get(name, 0), loss) for update in updates for name, loss in update.losses.items()
    ]
    total = sum(n for n, _ in known)
    return sum(n * loss for n, loss in known) / total if total else None


def figures(counts: Counts) -> dict[str, float | None]:
    """The figures that a learning curve shows; None where a figure is undefined."""
    values = {
        "n": float(counts.n),
        "accuracy": float(accuracy(counts)),
        "balanced_accuracy": float(balanced_accuracy(counts)),
        "auroc": float(auroc(counts)),
    }
    return {name: value if value == value else None for name, value in values.items()}
