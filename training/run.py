"""`dermfed-train`, and `python training/run.py JOB.yaml`: the command, its options, and how it ends.

Help, and the refusal of a job that is no YAML or has a misspelt key, take no time: what needs torch or draws
figures is imported once a command needs it. `training.wiring` wires the packages together,
`training.printing` prints.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dermfed.own_names import refuse_foreign

if __name__ == "__main__":
    refuse_foreign()

from registry.bundle.errors import BundleError
from registry.bundle.text import printable
from registry.errors import RegistryError
from training.errors import JobError, QuorumError, TrainingError

if TYPE_CHECKING:
    from rich.console import Console

    from training.jobs.job import Job

DONE, REFUSED, WRONG = 0, 1, 2
ENCODERS = "encoders"  # in the place of a job file: a command beside it
INIT = "init"  # the other
EXAMPLES = """Examples:

\b
  dermfed-train demo --out runs/demo
  dermfed-train fedperl@t3@ten-hospitals
  dermfed-train job.yaml --resume
  dermfed-train job.yaml --set stages.federate.rounds=5 --set seed=1
  dermfed-train --compare runs/alone --compare runs/together
  dermfed-train --check job.yaml
  dermfed-train --check job.yaml --kit kits/admin
  dermfed-train encoders
  dermfed-train init manifest.csv
"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def run(
    job_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="JOB.yaml", help="The job file, or a built-in job; with @NAME a variant of it."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where results go; by default runs/<name of the job>.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY.PATH=VALUE", help="Change one setting of the job."),
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Where clients run: in-process or nvflare.")] = None,
    kit: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The admin's kit of a federation, for nvflare.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOSPITAL", help="Dismiss a hospital from a federated run for good; may be repeated."
        ),
    ] = None,
    check_only: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Look ahead: who holds and sees what, how long it takes; with --out into check.json, too.",
        ),
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the job file's JSON Schema.")] = False,
    compared: Annotated[
        list[Path] | None,
        typer.Option(
            "--compare", metavar="RUN", help="Compare finished runs, given once each, with the first of them."
        ),
    ] = None,
    cost_over: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run over whose bytes --compare counts costs.")
    ] = None,
    recipes: Annotated[
        bool, typer.Option("--recipes", help="List the built-in jobs with their papers.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Sign the figures of the bundles with this private key in PEM; by default that of "
            "DERMFED_SIGNING_KEY.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")] = False,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Train, personalize, export, calibrate and register as a job file says.

    Exit codes: 0 done, 1 refused by a rule (too few answers, a gate), 2 wrong use or bad input.
    """
    if show_version:
        print(version("dermfed"))
    elif schema:
        from training.jobs.job import Job

        print(json.dumps(Job.model_json_schema(), indent=2))
    elif recipes:
        from training.jobs.recipes import print_recipes

        print_recipes(as_json=as_json)
    elif compared:
        from personalization.report.comparison import compare
        from training.printing import print_comparison

        print_comparison(compare(compared, cost_over=cost_over), as_json=as_json)
    elif job_file is None:
        raise JobError(
            "name a job file; list the built-in ones with --recipes, or write one with "
            "`dermfed-train init MANIFEST`"
        )
    else:
        from training.jobs.job_file import find_job

        job_file = find_job(job_file)
        job = read(job_file, [*(changes or []), *([f"engine.name={engine}"] if engine else [])])
        if check_only:
            check_job(job, job_file, kit, out, key, as_json=as_json)
        elif job.engine.name == "nvflare" and key is not None:
            raise JobError(
                "over a federation the coordinator measures and signs: set DERMFED_SIGNING_KEY there to its "
                "key, and leave --key out"
            )
        elif job.engine.name == "nvflare":
            target = out or Path("runs") / job.name
            summary = federate_job(job, kit, target, resume=resume, without=without or ())
            report(summary, target, as_json=as_json)
        elif without:
            raise JobError("--without dismisses a hospital of a federation; it needs --engine nvflare")
        else:
            from training.wiring import train

            target = out or Path("runs") / job.name
            result = train(job, job_file, target, resume=resume, key=key)
            report(result.summary, target, as_json=as_json)


def read(job_file: Path, changes: Sequence[str]) -> "Job":
    """The job in a file; one with a misspelt key is refused before torch is imported.

    Raises:
        JobError: with one line for each thing that is wrong.
    """
    from training.jobs.job_file import read_plain
    from training.jobs.shape import refuse_unknown_keys

    plain = read_plain(job_file, changes)
    refuse_unknown_keys(plain, job_file)
    from training.jobs.job import job_of  # torch

    return job_of(plain, job_file)


def check_job(
    job: "Job", job_file: Path, kit: Path | None, out: Path | None, key: Path | None, *, as_json: bool
) -> None:
    """Check a job and its data, or with a kit what the hospitals of a federation will show whom.

    Where a folder is named for results, all that was found goes there too, as `check.json`.
    """
    from training.files import write_text
    from training.jobs.run_folder import CHECK
    from training.printing import print_check, print_federation
    from training.wiring import check, check_federation

    if kit is None:
        found = check(job, job_file, say, key)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            write_text(out / CHECK, json.dumps(found.record(), indent=2) + "\n")
        print_check(found, as_json=as_json)
    else:
        print_federation(check_federation(job, kit), as_json=as_json)


def federate_job(
    job: "Job", kit: Path | None, out: Path, *, resume: bool, without: Sequence[str]
) -> Mapping[str, Any]:
    """Run a job at the hospitals of a federation; gives its summary, or exits with how it ended."""
    from training.wiring import federate

    outcome = federate(job, kit, out, console(), resume=resume, without=without)
    if outcome["state"] != "done":
        say(f"{outcome['error']}: {outcome['text']}", style="red")
        raise typer.Exit(REFUSED if outcome["state"] == "refused" else WRONG)
    summary: Mapping[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def report(summary: Mapping[str, Any], out: Path, *, as_json: bool) -> None:
    """Print a run's summary; exit with 1 if a rule refused one of its models."""
    from training.printing import print_summary

    print_summary(summary, out, as_json=as_json)
    refused = [stage["facts"]["refused"] for stage in summary["stages"] if stage["facts"].get("refused")]
    if refused:
        say("\n".join(refused), style="red")
        raise typer.Exit(REFUSED)


def console() -> "Console":
    """Where people read what happens: standard error."""
    from rich.console import Console

    return Console(stderr=True)


def say(text: str, style: str | None = None) -> None:
    """Print to standard error, as it is, but for what would steer a terminal."""
    console().print(printable(text), style=style, highlight=False, markup=False, soft_wrap=True)


def main() -> None:
    """Run the command; errors that a user can mend are reported in a line and an exit code."""
    try:
        if sys.argv[1:2] == [ENCODERS]:
            from training.encoder_command import app as encoder_app

            encoder_app(sys.argv[2:], prog_name=f"dermfed-train {ENCODERS}", standalone_mode=True)
        elif sys.argv[1:2] == [INIT]:
            from clients.new_job import app as init_app

            init_app(sys.argv[2:], prog_name=f"dermfed-train {INIT}", standalone_mode=True)
        else:
            app(standalone_mode=True)
    except QuorumError as error:
        fail(error, REFUSED)
    except (TrainingError, BundleError, RegistryError, OSError) as error:
        fail(error, WRONG)


def fail(error: Exception, code: int) -> None:
    """Print what failed and exit."""
    say(f"{type(error).__name__}: {error}", style="red")
    sys.exit(code)


if __name__ == "__main__":
    main()
