"""`python training/run.py JOB.yaml`: reads a job file, puts the rooms together, starts the loop.

Wiring alone: whatever could go wrong or be decided here belongs in a room.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dermfed.own_names import refuse_foreign

if __name__ == "__main__":
    refuse_foreign()

from clients.data.errors import ClientDataError
from clients.data.pictures.cache import cache_folder
from clients.data.prepare import prepare
from clients.data.prepared import PreparedDataset
from clients.federation.kit import open_kit
from clients.store import ClientStore
from personalization.report.comparison import Comparison, compare, comparison_data, comparison_table
from personalization.report.page import render_report
from personalization.report.run_report import report_data
from registry.bundle.errors import BundleError
from registry.bundle.folder import Bundle
from registry.bundle.metrics.patient import FIGURES as FIGURES_OF_PATIENTS
from registry.bundle.metrics.patient import Told, patient_figures
from registry.errors import Refused, RegistryError
from registry.registry import Registry
from training.algorithms.release_store import FolderReleases
from training.atomic_files import write_text
from training.encoder_command import app as encoder_app
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.errors import JobError, QuorumError, TrainingError
from training.federation.census import Census
from training.federation.server.metrics_log import MetricsLog
from training.jobs.counts_under_masks import over_network
from training.jobs.job import Job, read_job
from training.jobs.pipeline import RunResult, notes_on_data, run_stages
from training.jobs.recipes import GROUPS, grouped, read_recipes
from training.jobs.registrar import Registered, Registrar, no_registry
from training.jobs.run_folder import RunFolder
from training.jobs.settings import TrackingConfig
from training.jobs.stages.probe import FIGURES, NOTHING
from training.jobs.tracking.tracked import refuse_missing, tracked
from training.jobs.try_model import try_model
from training.jobs.who_sees_what import COLUMNS, Seen, who_sees_what

DONE, REFUSED, WRONG = 0, 1, 2
PROBED = {  # what is printed of a probe
    "malignancy_auroc": "AUROC of malignancy",
    "malignant_sensitivity": "sensitivity",
    "malignant_specificity": "specificity",
    "macro_f1": "macro F1",
}
ENCODERS = "encoders"  # in the place of a job file: the one command beside it
EXAMPLES = """Examples:

\b
  dermfed-train training/recipes/demo.yaml --out runs/demo
  dermfed-train job.yaml --resume
  dermfed-train job.yaml --set stages.federate.rounds=5 --set seed=1
  dermfed-train --compare runs/alone --compare runs/together
  dermfed-train --check job.yaml
  dermfed-train --check job.yaml --kit kits/admin
  dermfed-train encoders
"""

app = typer.Typer(add_completion=False)
console = Console(stderr=True)


def load_data(job: Job, job_file: Path) -> PreparedDataset:
    """The pictures of a job, decoded once."""
    return prepare(
        job.data,
        seed=job.seed,
        folder=job_file.resolve().parent,
        cache=cache_folder(),
        intersections=job.evaluation.intersections,
        rule=job.picture,
    )


def train(job: Job, job_file: Path, out: Path, *, resume: bool) -> RunResult:
    """Run a job from its file to its report; a job that only pre-trains has nothing to report on."""
    refuse_missing(job.tracking)
    folder = RunFolder(out)
    folder.claim(job, resume=resume)
    try_model(job)
    dataset = load_data(job, job_file)
    parts = ClientAppParts(job, dataset, ClientStore(folder.store), FolderReleases(folder.releases))
    engine = InProcessEngine(parts, folder.spool)
    try:
        with (
            open_registrar(job) as registrar,
            MetricsLog(folder.metrics, console) as metrics_log,
            tracked(job, out, metrics_log.log),
        ):
            result = run_stages(job, dataset, engine, metrics_log, out, registrar)
    finally:
        engine.close()
    data = report_data(result)
    if data.counts:
        write_text(folder.report, render_report(data))
    return result


def federate(
    job: Job, kit: Path | None, out: Path, *, resume: bool, as_json: bool, without: Sequence[str] = ()
) -> None:
    """Run a job at the hospitals of a federation; results stay at its coordinator and are fetched to `out`.

    Raises:
        JobError: no kit is named.
    """
    if kit is None:
        raise JobError("--engine nvflare needs --kit: the admin's kit that `dermfed-node provision` made")
    from clients.federation.federated import run_federated  # FLARE is in an extra of its own

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    refuse_missing(job.tracking)
    untold = job.model_copy(update={"tracking": TrackingConfig()})  # of no concern to a hospital
    with tracked(job, out, say), console.status("") as shown:  # in place on a terminal, nothing elsewhere
        outcome = run_federated(untold, kit, out, resume=resume, say=say, show=shown.update, without=without)
    if outcome["state"] != "done":
        console.print(f"{outcome['error']}: {outcome['text']}", style="red", markup=False, highlight=False)
        raise typer.Exit(REFUSED if outcome["state"] == "refused" else WRONG)
    summary = json.loads((out / "summary.json").read_text())
    print_summary(summary, out, as_json=as_json)
    if refused := refusals(summary):
        console.print("\n".join(refused), style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(REFUSED)


@contextmanager
def open_registrar(job: Job) -> Iterator[Registrar]:
    """The registry of a job that registers, opened before hours of training and not after them."""
    if all(stage.stage != "register" for stage in job.stages):
        yield no_registry
        return
    with Registry.open() as registry:

        def register(bundles: Sequence[Bundle], promote_to: str | None, reason: str | None) -> Registered:
            versions = registry.add(bundles)
            numbers = tuple(version.number for version in versions)
            if promote_to is None:
                return Registered(numbers)
            try:
                registry.promote(versions[0].model, numbers, to=promote_to, reason=reason)
            except Refused as refusal:
                return Registered(numbers, f"{type(refusal).__name__}: {refusal}")
            return Registered(numbers)

        yield register


def refusals(summary: Mapping[str, Any]) -> list[str]:
    """Why models of a run were not promoted, although its job asks for it."""
    return [stage["facts"]["refused"] for stage in summary["stages"] if stage["facts"].get("refused")]


def check(job: Job, job_file: Path) -> Census:
    """Build a job's model and read its data as a run would, without training; returns who holds what."""
    for line in try_model(job):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    dataset = load_data(job, job_file)
    census = Census.of_dataset(dataset)
    census.check()
    for stage in job.stages:
        stage.require_data(census, dataset.labels, job.privacy)
    for line in notes_on_data(dataset, census):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return census


@app.command(epilog=EXAMPLES)
def run(
    job_file: Annotated[Path | None, typer.Argument(metavar="JOB.yaml", help="The job file.")] = None,
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
        typer.Option("--check", help="Check the job and its data, and say who will see what; train nothing."),
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
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")] = False,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Train, personalize, export, calibrate and register as a job file says.

    Exit codes: 0 done, 1 refused by a rule (too few answers, a gate), 2 wrong use or bad input.
    """
    if show_version:
        print(version("dermfed"))
    elif schema:
        print(json.dumps(Job.model_json_schema(), indent=2))
    elif recipes:
        print_recipes(as_json=as_json)
    elif compared:
        print_comparison(compare(compared, cost_over=cost_over), as_json=as_json)
    elif job_file is None:
        raise JobError("name a job file; list the built-in ones with --recipes")
    else:
        job = read_job(job_file, [*(changes or []), *([f"engine.name={engine}"] if engine else [])])
        if check_only and kit is not None:
            hospitals = open_kit(kit, "admin", "server").federation.names  # who have the pictures
            print_federation(hospitals, who_sees_what(over_network(job), hospitals), as_json=as_json)
        elif check_only:
            census = check(job, job_file)
            print_census(census.table(), who_sees_what(job, census.all_hospitals), as_json=as_json)
        elif job.engine.name == "nvflare":
            target = out or Path("runs") / job.name
            federate(job, kit, target, resume=resume, as_json=as_json, without=without or ())
        elif without:
            raise JobError("--without dismisses a hospital of a federation; it needs --engine nvflare")
        else:
            target = out or Path("runs") / job.name
            result = train(job, job_file, target, resume=resume)
            print_summary(result.summary, target, as_json=as_json)
            if refused := refusals(result.summary):
                console.print("\n".join(refused), style="red", markup=False, highlight=False, soft_wrap=True)
                raise typer.Exit(REFUSED)


def print_recipes(*, as_json: bool) -> None:
    """The built-in jobs: as JSON by name, in tables the systems first and ablations last."""
    recipes = read_recipes()
    if as_json:
        rows = [
            {
                "name": recipe.name,
                "path": str(recipe.path),
                **recipe.about.model_dump(),
                "group": recipe.group,
                "ablation_of": recipe.about.ablation_of,
            }
            for recipe in recipes
        ]
        print(json.dumps(rows, indent=2))
        return
    for group, members in grouped(recipes).items():
        table = Table(title=GROUPS[group], title_justify="left")
        table.add_column("recipe", no_wrap=True)  # a name is there to be copied
        for header in ("system", "paper", "note"):
            table.add_column(header)
        for of, recipes_of in groupby(members, key=lambda recipe: recipe.about.ablation_of):
            if of:
                table.add_section()
                table.add_row(f"of {of}:")
            for recipe in recipes_of:
                table.add_row(recipe.name, recipe.about.system, recipe.about.paper, recipe.about.note)
        Console().print(table)


def print_comparison(comparison: Comparison, *, as_json: bool) -> None:
    """Finished runs side by side."""
    if as_json:
        print(json.dumps(comparison_data(comparison)))
    else:
        Console().print(comparison_table(comparison))


def print_census(rows: list[dict[str, Any]], seen: Sequence[Seen], *, as_json: bool) -> None:
    """Who holds what, and who sees what of it; as JSON the former alone."""
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("client", "split", "subgroup", "class", "pictures")
    for row in rows:
        table.add_row(row["client"], row["split"], row["subgroup"], row["label"], str(row["n"]))
    Console().print(table)
    print_seen(seen)


def print_federation(hospitals: Sequence[str], seen: Sequence[Seen], *, as_json: bool) -> None:
    """The hospitals of a federation, and who sees what of theirs."""
    if as_json:
        print(json.dumps({"hospitals": hospitals, "seen": [asdict(row) for row in seen]}))
        return
    print(
        f"{len(hospitals)} hospitals: {', '.join(hospitals)}; the pictures are theirs, and not looked at here"
    )
    print_seen(seen)


def print_seen(seen: Sequence[Seen]) -> None:
    """Who sees what of a job."""
    table = Table(title="Who sees what", title_justify="left", show_lines=True)
    for header in COLUMNS:
        table.add_column(header, overflow="fold")
    for row in seen:
        table.add_row(*row.cells)
    Console().print(table)


def print_summary(summary: Mapping[str, Any], out: Path, *, as_json: bool) -> None:
    """The figures that matter first, and where the rest is."""
    if as_json:
        print(json.dumps(summary))
        return
    if summary["test"]:
        print_patient_figures(summary["test"])
    print_probes(summary["stages"])
    for name, of in summary.get("not_counted", {}).items():
        missing = of["held"] - of["counted"]
        print(f"not counted: {missing} of {of['held']} test pictures of {name}; see the report")
    for row in summary["versions"]:
        print(f"registered: {row['model']} version {row['version']} ({row['subgroup']})")
    if (out / "report.html").exists():
        print(f"report: {out / 'report.html'}")
    else:
        print("report: none, since no stage judged a model on test pictures")
    print(f"summary: {out / 'summary.json'}")
    for finding in summary.get("findings", ()):
        Console().print(f"! {finding['text']}", style="red", markup=False, highlight=False, soft_wrap=True)


def print_patient_figures(test: Mapping[str, Any]) -> None:
    """What counts for a patient, over all test pictures and by subgroup, each with its 95 % interval."""
    table = Table(box=SIMPLE, padding=(0, 0), show_edge=False)  # fits into 80 columns
    for title in ("test pictures", "malignant", "other", *FIGURES_OF_PATIENTS.values()):
        table.add_column(title, overflow="fold")
    for name, row in patient_figures(test).items():
        sides = ("unknown" if n is None else str(n) for n in (row.n_malignant, row.n_other))
        table.add_row(Text(name), *sides, *(narrow(row.figures[figure]) for figure in FIGURES_OF_PATIENTS))
    Console().print(table)


def narrow(figure: Told) -> str:
    """A figure with its interval below."""
    if figure.value is None or figure.interval is None:
        return str(figure)
    low, high = figure.interval
    return f"{figure.value:.3f}\n{low:.2f}-{high:.2f}"


def print_probes(stages: Sequence[Mapping[str, Any]]) -> None:
    """What probes found of a run's encoder, with 95 % intervals, where it has any."""
    table = Table("probe", "test pictures", "n", *PROBED.values())
    for stage in stages:
        asked = [kind for kind in FIGURES if stage["name"] == "probe" and kind in stage["facts"]]
        for kind in asked:
            of = stage["facts"][kind] or NOTHING
            for name, row in {"all": of, **of["by_subgroup"]}.items():
                table.add_row(kind, name, str(row["n"]), *(with_interval(row, key) for key in PROBED))
    if table.rows:
        Console().print(table)


def with_interval(figures: Mapping[str, Any], key: str) -> str:
    """A figure and its interval; nothing where it is not told of these pictures."""
    value, ends = figures.get(key), figures["intervals"].get(key)
    if value is None:
        return ""
    return f"{value:.3f}" if ends is None else f"{value:.3f} [{ends[0]:.3f}, {ends[1]:.3f}]"


def main() -> None:
    """Run the command; errors that a user can mend are reported in a line and an exit code."""
    try:
        if sys.argv[1:2] == [ENCODERS]:
            encoder_app(sys.argv[2:], prog_name=f"dermfed-train {ENCODERS}", standalone_mode=True)
        else:
            app(standalone_mode=True)
    except QuorumError as error:
        fail(error, REFUSED)
    except (TrainingError, ClientDataError, BundleError, RegistryError, OSError) as error:
        fail(error, WRONG)


def fail(error: Exception, code: int) -> None:
    """Print what failed and exit."""
    console.print(
        f"{type(error).__name__}: {error}", style="red", markup=False, highlight=False, soft_wrap=True
    )
    sys.exit(code)


if __name__ == "__main__":
    main()
