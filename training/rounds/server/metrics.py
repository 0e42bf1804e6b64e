"""Metrics of rounds: the log of a run, one line of `metrics.jsonl` a round, and what such a line says."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from registry.bundle.counts.counts import Counts
from registry.bundle.metrics.classification import accuracy, auroc, balanced_accuracy
from training.algorithms.aggregators.base import Mixture
from training.errors import CheckpointError
from training.messages.message import Failure, Update
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


@dataclass(frozen=True)
class RoundMetrics:
    """The metrics of one round.

    Attributes:
        asked, answered: client ids by model.
        failed: what became of the others, with the reason.
        losses: mean training loss by model.
        weights: each client's weight in the new model, by model.
        metrics: figures of the evaluation over all pictures.
        by_subgroup: the same by subgroup.
        notes: what the exchange logs of what it sent, by model and client.
        scalars: what the objective logs of its round, by model and client.
        before: the weight of the model of the round before, by model.
    """

    stage: str
    round: int
    asked: Mapping[str, Sequence[str]]
    answered: Mapping[str, Sequence[str]]
    failed: Sequence[Mapping[str, str]]
    losses: Mapping[str, float | None]
    weights: Mapping[str, Mapping[str, float]]
    metrics: Mapping[str, float | None]
    by_subgroup: Mapping[str, Mapping[str, float | None]]
    notes: Mapping[str, Notes]
    scalars: Mapping[str, Mapping[str, Mapping[str, float]]]
    before: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        stage: str,
        round_: int,
        cohorts: Mapping[str, Sequence[str]],
        updates: Mapping[str, Sequence[Update]],
        failures: Iterable[Failure],
        mixtures: Mapping[str, Mixture],
        blocks: Blocks,
        notes: Mapping[str, Notes],
    ) -> "RoundMetrics":
        """The metrics of one round, by model where there are several."""
        points = {name: block.point for name, block in blocks.items()}
        everything = list(points.values())
        return cls(
            stage=stage,
            round=round_,
            asked=cohorts,
            answered={track: [update.client for update in members] for track, members in updates.items()},
            failed=[{"client": f.client, "model": f.track, "reason": f.reason} for f in failures],
            losses={track: mean_loss(members) for track, members in updates.items()},
            weights={track: dict(mixture.clients) for track, mixture in mixtures.items()},
            before={track: mixture.previous for track, mixture in mixtures.items()},
            metrics=figures(sum(everything[1:], everything[0])) if everything else {},
            by_subgroup={name: figures(point) for name, point in points.items()},
            notes=notes,
            scalars={
                track: {update.client: update.scalars for update in members if update.scalars}
                for track, members in updates.items()
            },
        )

    @property
    def loss(self) -> float | None:
        """The mean over models of which a loss is told; None where it is of none."""
        told = [loss for loss in self.losses.values() if loss is not None]
        return sum(told) / len(told) if told else None

    @property
    def worst(self) -> str:
        """The subgroup with the lowest balanced accuracy, and that; empty where there are not two."""
        known = {
            name: row["balanced_accuracy"]
            for name, row in self.by_subgroup.items()
            if row.get("balanced_accuracy") is not None
        }
        if len(known) < 2:
            return ""
        name = min(known, key=lambda name: known[name] or 0.0)
        return f"{name} {known[name]:.3f}"

    @property
    def note(self) -> str:
        """The line for whoever watches."""
        parts = ["no loss told" if self.loss is None else f"loss {self.loss:.3f}"]
        balanced = self.metrics.get("balanced_accuracy")
        if balanced is not None:
            worst = self.worst
            parts.append(f"balanced accuracy {balanced:.3f}{f' (worst {worst})' if worst else ''}")
        answered = len(distinct(self.answered))
        parts.append(f"{answered} of {len(distinct(self.asked))} answered")
        for how, clients in self.missing.items():
            parts += [f"{how} {', '.join(clients)}"] if clients else []
        return ", ".join(parts)

    @property
    def missing(self) -> dict[str, list[str]]:
        """The clients of which something is missing, by how: no model, some models, or the counts alone."""
        found: dict[str, set[str]] = {"without": set(), "in part without": set(), "no counts of": set()}
        trained = distinct(self.answered)
        for failure in self.failed:
            client = failure["client"]
            if client in self.answered.get(failure["model"], ()):
                found["no counts of"].add(client)
            else:
                found["in part without" if client in trained else "without"].add(client)
        return {how: sorted(clients) for how, clients in found.items()}

    def to_json(self) -> dict[str, Any]:
        """The line of `metrics.jsonl`."""
        return {
            "stage": self.stage,
            "round": self.round,
            "asked": distinct(self.asked),
            "answered": distinct(self.answered),
            "failed": self.failed,
            "loss": self.loss,
            "metrics": self.metrics,
            "by_subgroup": self.by_subgroup,
            "models": {
                name: {
                    "asked": list(self.asked[name]),
                    "answered": list(self.answered[name]),
                    "loss": self.losses[name],
                    "weights": dict(self.weights[name]),
                    **({"weight_before": self.before[name]} if self.before.get(name) else {}),
                    **optional_entry("exchange", self.notes.get(name, {})),
                    **optional_entry("scalars", self.scalars.get(name, {})),
                }
                for name in self.asked
            },
        }


def optional_entry(key: str, by_client: Notes) -> dict[str, Notes]:
    """An entry of the line, where there is anything to log."""
    return {key: {client: dict(facts) for client, facts in by_client.items()}} if by_client else {}


def distinct(clients: Mapping[str, Sequence[str]]) -> list[str]:
    """Every client once, in the order in which they first come."""
    return list(dict.fromkeys(client for members in clients.values() for client in members))


def mean_loss(updates: Sequence[Update]) -> float | None:
    """The sample-weighted mean training loss over clients and subgroups; None where nobody tells one."""
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
