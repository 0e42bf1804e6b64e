"""Kill a run at random moments, resume it, and compare what it leaves with a run that was never killed.

An undisturbed run of a small job (drawn pictures, federated rounds, personalization, export, calibration) is
timed first. Then, at moments drawn uniformly over that time, a fresh run is killed with SIGKILL and started
again with --resume. Every run starts from nothing: it draws and decodes its own pictures, so that a kill may
fall there as well. The models after every stage and the released bundles must be the same to the last
byte, and so must the log and the summary without the seconds. Exits 1 when any differ.
"""

import json
import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from time import perf_counter
from typing import Annotated

import typer
from quick import print_conditions, print_table, start
from training_runs import JOB, digests, finish, start_run, write_job


@dataclass(frozen=True)
class Killed:
    """One run that was killed and resumed.

    Attributes:
        moment: seconds from its start to the kill.
        reached: what it had finished by then.
        left: digests of what it left in the end.
    """

    moment: float
    reached: str
    left: dict[str, str]


def undisturbed(job: Path, out: Path) -> tuple[float, dict[str, str]]:
    """How many seconds a whole run takes, and what it leaves."""
    started = perf_counter()
    finish(start_run(job, out))
    return perf_counter() - started, digests(out)


def kill_and_resume(job: Path, out: Path, moment: float, options: list[str]) -> Killed:
    """One run, killed after `moment` seconds and resumed."""
    run = start_run(job, out, *options)
    try:
        run.wait(timeout=moment)
        when = "had ended"
    except TimeoutExpired:
        run.kill()
        when = ""
    run.communicate()
    reached = when or progress(out)
    finish(start_run(job, out, "--resume", *options))
    return Killed(moment, reached, digests(out))


def progress(out: Path) -> str:
    """What a run has finished: stages, and the newest round in its log."""
    done = [path.parent.name for path in sorted(out.glob("checkpoints/*/outcome.safetensors"))]
    log = out / "metrics.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    newest = json.loads(lines[-1]) if lines else None
    if (out / "summary.json").exists():
        return "everything but the report"
    if newest and newest["stage"] not in done:
        return f"{newest['stage']}, round {newest['round']}"
    if done:
        return f"{done[-1]}, whole"
    return "the data" if log.exists() else "nothing"


def main(
    kills: Annotated[int, typer.Option(help="How many runs are killed.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 0,
    workers: Annotated[int, typer.Option(help="Worker processes of the runs that are killed.")] = 1,
) -> None:
    """Kill runs at random moments and compare what they leave."""
    options = ["--set", f"engine.workers={workers}"]
    with tempfile.TemporaryDirectory(prefix="kill-and-resume-") as name:
        folder = Path(name)
        path = write_job(folder)
        seconds, expected = undisturbed(path, folder / "undisturbed")
        draws = random.Random(seed)
        moments = [draws.uniform(0, seconds) for _ in range(kills)]
        print_conditions(
            "Killed at random moments and resumed",
            {
                "job": ", ".join(stage["stage"] for stage in JOB["stages"]),
                "undisturbed run": f"{seconds:.1f} s with one worker",
                "kills": f"{kills} with SIGKILL, at moments uniform over that time (seed {seed})",
                "workers": workers,
            },
        )
        found = []
        for place, moment in enumerate(moments):
            out = folder / f"run-{place}"
            found.append(kill_and_resume(path, out, moment, options))
            outcome = "same" if found[-1].left == expected else "DIFFERENT"
            typer.echo(f"{place + 1} of {kills}: {moment:.1f} s, {found[-1].reached}, {outcome}", err=True)
            shutil.rmtree(out)
            shutil.rmtree(out.with_suffix(".cache"))
    rows = [
        (
            f"{one.moment:.1f}",
            one.reached,
            *("same" if one.left[key] == expected[key] else "DIFFERENT" for key in expected),
        )
        for one in sorted(found, key=lambda one: one.moment)
    ]
    print_table(("killed after (s)", "had finished", *expected), rows)
    same = sum(one.left == expected for one in found)
    print(f"{same} of {len(found)} runs left the same as the undisturbed one")
    if same < len(found):
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main, "--kills 1")
