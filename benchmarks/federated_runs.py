"""A finished run of federated rounds or of clients that learn alone, read from what it left."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from pathlib import Path
from statistics import fmean
from typing import Any

from committees import Committee, read_committees
from recipe_runs import RecipeRun

from training.algorithms.exchanges.peers import Peers
from training.data.dataset import SERVER
from training.jobs.job import Job
from training.jobs.stages.rounds import RoundsStage
from training.messages.message import GLOBAL

LAST = 0.1  # the share of rounds over which kept pseudo labels are averaged


@dataclass(frozen=True)
class Found:
    """A finished run.

    Attributes:
        job: what was run.
        summary: its `summary.json`.
        lines: its `metrics.jsonl`.
    """

    job: Job
    summary: Mapping[str, Any]
    lines: Sequence[Mapping[str, Any]]

    @property
    def key(self) -> str:
        """The key of the last stage, whose model is judged."""
        return self.job.key(len(self.job.stages) - 1)

    @property
    def facts(self) -> Mapping[str, Any]:
        """What that stage tells of clients, classes and communities."""
        facts: Mapping[str, Any] = self.summary["stages"][-1]["facts"]
        return facts

    @property
    def test(self) -> Mapping[str, Any]:
        """Figures of all clients' test pictures together."""
        test: Mapping[str, Any] = self.summary["test"]
        return test

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return fsum(stage["seconds"] for stage in self.summary["stages"])

    @property
    def rounds_stage(self) -> RoundsStage | None:
        """The last stage, where clients train one model together in it."""
        stage = self.job.stages[-1]
        return stage if isinstance(stage, RoundsStage) else None

    @property
    def peers(self) -> Peers | None:
        """The exchange of that stage, where it sends peers."""
        stage = self.rounds_stage
        return stage.exchange if stage is not None and isinstance(stage.exchange, Peers) else None

    @property
    def communities(self) -> Mapping[str, Sequence[str]]:
        """The clients of each source."""
        return {source.name: source.clients for source in self.job.data.sources if not source.unseen}

    @cached_property
    def committees(self) -> Sequence[Committee]:
        """Who taught whom."""
        return read_committees(self.lines, self.key)

    @property
    def downloads(self) -> Sequence[int]:
        """Bytes that each hospital downloaded in each round of all stages."""
        return [
            sent["down"]
            for line in self.lines
            for client, sent in line["bytes_by_client"].items()
            if client != SERVER
        ]

    @property
    def downloads_with_all_peers(self) -> Sequence[int]:
        """The same of the clients and rounds with as many peers as there may be."""
        if self.peers is None:
            return []
        full = {
            (committee.round, committee.client)
            for committee in self.committees
            if len(committee.peers) == self.peers.peers
        }
        return [
            sent["down"]
            for line in self.lines
            for client, sent in line["bytes_by_client"].items()
            if line["stage"] == self.key and (line["round"], client) in full
        ]

    @property
    def kept(self) -> float | None:
        """The mean share of pseudo labels that counted, over the clients of the last rounds or epochs."""
        lines = [line for line in self.lines if line["stage"] == self.key]
        last = max((line["round"] for line in lines), default=0)
        return mean(
            told["kept"]
            for line in lines
            if line["round"] > (1 - LAST) * last
            for told in line["models"][GLOBAL].get("scalars", {}).values()
            if "kept" in told
        )

    def halves(self) -> Mapping[str, Sequence[Committee]]:
        """The committees of the first and the second half of the rounds after warm-up."""
        stage, peers = self.rounds_stage, self.peers
        assert stage is not None, "clients that learn alone have no peers"
        assert peers is not None, "only runs with peers have committees"
        middle = (peers.warm_up + stage.rounds) / 2
        return {
            "first": [committee for committee in self.committees if committee.round <= middle],
            "second": [committee for committee in self.committees if committee.round > middle],
        }


def read_run(run: RecipeRun, runs: Path) -> Found | None:
    """One run; None where it is not there.

    Raises:
        SystemExit: when what is there is a run of another job.
    """
    folder = run.folder(runs)
    if not (folder / "summary.json").exists():
        return None
    job = Job.model_validate(run.job)
    summary = json.loads((folder / "summary.json").read_text())
    if summary["digest"] != job.digest:
        raise SystemExit(f"{folder} holds a run of another job; remove it, or name another --runs")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return Found(job, summary, lines)


def mean(values: Iterable[float | None]) -> float | None:
    """Of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
