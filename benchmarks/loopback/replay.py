"""A job on one machine with the answers of a log: who did not answer there is not asked here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from clients.data.prepare import prepare
from clients.store import ClientStore
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.jobs.job import read_job
from training.jobs.pipeline import run_stages
from training.jobs.run_folder import RunFolder
from training.messages import Answer, Broadcast, Failure
from training.rounds.requests import FIT
from training.rounds.server.metrics import MetricsLog


class Replay:
    """An engine that leaves out whom a log leaves out.

    Args:
        engine: answers for the others.
        lines: the log.
    """

    def __init__(self, engine: InProcessEngine, lines: Sequence[Mapping[str, Any]]) -> None:
        self._engine = engine
        self._answered = {
            (line["stage"], line["round"], model): set(told["answered"])
            for line in lines
            for model, told in line["models"].items()
        }

    def run_round(self, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
        """Answers in the order of the requests."""
        heard = [self._was_heard(each) for each in broadcasts]
        asked = [each for each, was_heard in zip(broadcasts, heard, strict=True) if was_heard]
        answers = iter(self._engine.run_round(asked))
        return [
            next(answers) if was_heard else Failure(each.client, each.track, "it did not answer there")
            for each, was_heard in zip(broadcasts, heard, strict=True)
        ]

    def _was_heard(self, request: Broadcast) -> bool:
        heard = self._answered.get((request.stage, request.round, request.track))
        return request.ask != FIT or heard is None or request.client in heard


def replay(job_file: Path, out: Path, cache: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Run a job on this machine, with the answers of a log; all that it leaves is in `out`."""
    job = read_job(job_file)
    folder = RunFolder(out)
    folder.claim(job, resume=False)
    data = prepare(job.data, seed=job.seed, folder=job_file.parent, cache=cache)
    engine = InProcessEngine(ClientAppParts(job, data, ClientStore(folder.store)), folder.spool)
    try:
        with MetricsLog(folder.metrics, Console(quiet=True)) as metrics_log:
            run_stages(job, data, Replay(engine, lines), metrics_log, folder.path)
    finally:
        engine.close()
