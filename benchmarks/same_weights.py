"""The same job gives the same weights: run again, and with two worker processes.

Runs a small job (drawn pictures, federated rounds, personalization, export, calibration) three times as
`python training/run.py` does: twice with one worker, once with two, at equal threads per client. Prints
digests of the weights after every stage, of the released bundles, and of the log and summary without the
seconds. Exits 1 when any differ.
"""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from quick import start
from tables import print_conditions, print_table
from training_runs import JOB, digests, finish, start_run, write_job


def run_with(workers: int, job: Path, out: Path) -> dict[str, str]:
    """Digests of one whole run."""
    finish(start_run(job, out, "--set", f"engine.workers={workers}"))
    return digests(out)


def main(
    workers: Annotated[list[int] | None, typer.Option(help="Workers of each run; may be repeated.")] = None,
) -> None:
    """Compare runs of the same job."""
    counts = workers or [1, 1, 2]
    print_conditions(
        "The same job, run again and spread over workers",
        {"job": ", ".join(stage["stage"] for stage in JOB["stages"]), "threads per client": 1},
    )
    with tempfile.TemporaryDirectory(prefix="same-weights-") as name:
        folder = Path(name)
        job = write_job(folder)
        found = [run_with(count, job, folder / f"run-{place}") for place, count in enumerate(counts)]
    rows = [
        (place, count, *run.values(), "same" if run == found[0] else "DIFFERENT")
        for place, (count, run) in enumerate(zip(counts, found, strict=True), start=1)
    ]
    print_table(("run", "workers", *found[0], "verdict"), rows)
    if any(run != found[0] for run in found):
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main, "--workers 1 --workers 2")
