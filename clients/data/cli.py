"""`dermfed-data`: import, check, link, label, describe, part and make up pictures, take patients out."""

import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import wraps
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from typer.core import TyperCommand

from clients.data.adapters.table import (
    adapter_names,
    adapter_options,
    describe_adapter,
    find_adapter,
    make_adapter,
)
from clients.data.cell_values import proposal
from clients.data.check import NO_BYTES, CheckReport, absent_pictures, check_manifest, read_all, unlisted_in
from clients.data.errors import ClientDataError
from clients.data.manifest import DUPLICATE_GROUP, Manifest, components, linkage_keys
from clients.data.manifest_file import joined, read_manifest, write_manifest
from clients.data.near_duplicate_links import link as link_manifest
from clients.data.near_duplicates import can_fingerprint, require_hashing
from clients.data.output import LISTED, listing, listing_by_cause, write_atomically
from clients.data.partition import partition_manifest
from clients.data.partition_rules import straddling
from clients.data.picture_names import by_cause, counted
from clients.data.quality import describe_manifest, quality_of, quality_page, tabulate
from clients.data.synthetic import MANIFEST, prefix_of, write_synthetic
from clients.data.tones import check_tones, measure_tones, tone_table
from clients.data.withdraw import withdraw as withdraw_patients
from registry.bundle.skin_tone import CAUTION
from registry.bundle.text import on_one_line, printable
from training.data.settings import CasesConfig, ClientsConfig
from training.errors import JobError
from training.terminal_table import print_table

NOT_SOUGHT = (
    "near-duplicates are not looked for: ImageHash is not installed; `pip install ImageHash` does it, and "
    "--no-near-duplicates leaves this line out"
)
REFUSED, WRONG = 1, 2  # exit codes: a rule says no; wrong use or bad input

app = typer.Typer(name="dermfed-data", no_args_is_help=True, add_completion=False, rich_markup_mode=None)

_Command = TypeVar("_Command", bound=Callable[..., None])

AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
ManifestPaths = Annotated[
    list[Path], typer.Argument(metavar="MANIFEST...", help="One manifest, or all of one job.")
]
ManifestPath = Annotated[Path, typer.Argument(metavar="MANIFEST", help="A manifest, e.g. manifest.csv.")]
OutFile = Annotated[Path, typer.Option("--out", metavar="FILE", help="The manifest to write.")]
AdapterOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the adapter; VALUE may be JSON."),
]
OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write.")]


class _WithAdapters(TyperCommand):
    """A command whose help ends with all adapters and their options, looked up when it is asked for."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write them below the command's own options."""
        formatter.write("\nAdapters, and what --option sets of each:\n\n")
        for name in adapter_names():
            formatter.write(f"{textwrap.indent(_described(name), '  ')}\n")


def _described(name: str) -> str:
    """An adapter and its options; why it cannot be used, where it is another package's and cannot."""
    try:
        return describe_adapter(name, find_adapter(name))
    except ClientDataError as error:
        return f"{name}: {error}"


def _explained(function: _Command) -> Callable[..., None]:
    """The command with errors about data turned into their text and the exit code for bad input."""

    @wraps(function)
    def run(*arguments: Any, **named: Any) -> None:
        try:
            function(*arguments, **named)
        except ValidationError as error:
            _stop("; ".join(item["msg"].removeprefix("Value error, ") for item in error.errors()), WRONG)
        except BrokenPipeError:  # whoever read the output has seen enough
            raise
        except (ClientDataError, JobError, OSError) as error:
            _stop(str(error), WRONG)

    return run


def _command(
    name: str, *examples: str, cls: type[TyperCommand] = TyperCommand
) -> Callable[[_Command], _Command]:
    """Register a command whose help is its docstring and `examples`, each shown as it is typed."""

    def register(function: _Command) -> _Command:
        what = inspect.cleandoc(function.__doc__ or "")
        lines = "\n".join(f"  dermfed-data {name} {example}" for example in examples)
        app.command(name, cls=cls, help=f"{what}\n\n\b\nExamples:\n{lines}")(_explained(function))
        return function

    return register


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"dermfed-data {version('dermfed')}")
        raise typer.Exit


@app.callback()
def dermfed_data(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A hospital's pictures: import them to a manifest, check and describe it, part it among clients.

    Exit codes: 0 done; 1 refused (a check failed, or a file is there already); 2 wrong use or bad input.
    """


@_command(
    "import",
    "ham10000 ./ham10000 --out ham10000.csv",
    "image-folder ./pictures --out pictures.csv",
    "csv ./ddi --out ddi.csv --option table=ddi_metadata.csv --option image=DDI_file \\\n"
    "      --option label=disease --option skin_tone=skin_tone --option scale=ddi",
    "csv ./export --out export.csv --present-only --option table=Export.csv --option delimiter=semicolon",
    cls=_WithAdapters,
)
def import_(
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="Who reads the folder.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the pictures and tables are.")],
    out: OutFile,
    option: AdapterOptions = None,
    present_only: Annotated[
        bool, typer.Option("--present-only", help="Leave out lines whose picture is not on disk.")
    ] = False,
    keep_first: Annotated[
        bool, typer.Option("--keep-first", help="Of lines that contradict each other take the first.")
    ] = False,
    drop_contradictions: Annotated[
        bool,
        typer.Option("--drop-contradictions", help="Leave out pictures whose lines contradict each other."),
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a manifest of a folder as its publisher gives it out.

    What is taken for granted of a table (encoding, delimiter, names of pictures), lines whose picture is not
    on disk, by cause, and pictures that no line names are reported on standard error, and with --json.
    """
    _refuse_overwriting(out, force)
    options = _options(option or [])
    if keep_first and drop_contradictions:
        raise ClientDataError("--keep-first and --drop-contradictions exclude each other; give one")
    if keep_first or drop_contradictions:
        options["repeats"] = "first" if keep_first else "drop"
    manifest = make_adapter(adapter, options).manifest(folder.absolute())
    absent, total = absent_pictures(manifest), len(manifest.rows)
    unlisted = unlisted_in(manifest, folder.absolute())
    missing = {place: one for place, one in absent.items() if present_only and one.reason != NO_BYTES}
    left_out = by_cause(missing.values())
    unusable = by_cause(one for place, one in absent.items() if place not in missing)
    manifest = manifest.keep([row for place, row in enumerate(manifest.rows) if place not in missing])
    write_manifest(manifest, out.absolute())
    _say(*manifest.notes)
    for causes, what in (
        (left_out, "lines are left out, for their pictures are not on disk:"),
        (unusable, "pictures cannot be used (--present-only leaves out missing ones):"),
    ):
        if causes:
            _say(f"{sum(map(len, causes.values()))} of {total} {what}\n{listing_by_cause(causes)}")
    if unlisted.count:
        _say(str(unlisted))
    answer = {
        "manifest": str(out),
        "pictures": len(manifest.rows),
        "columns": list(manifest.columns),
        "notes": list(manifest.notes),
        "left_out": counted(left_out, LISTED),
        "unusable": counted(unusable, LISTED),
        "unlisted": asdict(unlisted),
    }
    _answer(answer, f"{out}: {len(manifest.rows)} pictures", as_json)


@_command(
    "adapters",
    "",
    "csv",
    "csv --json",
)
def adapters(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One of them; by default all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say which adapters there are, and the options of each with their defaults."""
    kinds = {each: find_adapter(each) for each in ([name] if name else adapter_names())}
    answer = {each: [asdict(option) for option in adapter_options(kind)] for each, kind in kinds.items()}
    _answer(answer, "\n\n".join(describe_adapter(each, kind) for each, kind in kinds.items()), as_json)


@_command(
    "check",
    "manifest.csv",
    "manifest.csv --cases --json",
    "manifest.csv --no-near-duplicates",
    "north.csv south.csv",
)
def check(
    manifests: ManifestPaths,
    cases: Annotated[
        bool, typer.Option("--cases", help="Also as a job with `unit: lesion` reads it by default.")
    ] = False,
    near_duplicates: Annotated[
        bool, typer.Option(help="Look for near-duplicates; takes some ms for each picture.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """List every picture and row that is wrong; exit with 1 if any of it stops a job.

    Missing or broken pictures, impossible values, lesions on both sides of a split or at two patients, and
    pictures that appear under two lesions or with two diagnoses, also where they were saved again, resized
    or cropped (near-duplicates; `dermfed-data link` keeps them together). Several manifests are also checked
    against each other. Copies, lesions at two patients and contradicting diagnoses may stay, as published
    data have them: the last lines say what a job makes of them. With --cases also impossible kinds, ages,
    sexes and sites, and pictures of one lesion that contradict each other. Of each cause twenty pictures are
    shown; --json has all. Picture files next to the manifest's that no line names are reported, but are no
    problem.
    """
    if near_duplicates and not can_fingerprint():
        _say(f"dermfed-data: {NOT_SOUGHT}")
    report = check_manifest(
        *(manifest.absolute() for manifest in manifests),
        case=CasesConfig().input if cases else None,
        near_duplicates=near_duplicates and can_fingerprint(),
    )
    _say(*report.notes)
    if report.unlisted.count:
        _say(f"note: beside those of {_listed(manifests)}, {report.unlisted}")
    lines = [*_problem_lines(report), f"{_listed(manifests)}: {report.pictures} pictures, {report.summary}"]
    if report.codes:
        _say(f"look at this proposal, and map them as the table is imported: {proposal(report.codes)}")
    _answer({**asdict(report), "stopping": report.stopping}, "\n".join(lines), as_json)
    if report.stopping:
        raise typer.Exit(REFUSED)


@_command(
    "link",
    "manifest.csv --out linked.csv",
    "north.csv south.csv --out linked",
)
def link(
    manifests: ManifestPaths,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The manifest to write; of several, a folder.")
    ],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a manifest whose `duplicate_group` keeps together pictures that are the same.

    The same bytes, or near-duplicates: saved again, resized or slightly cropped. Existing groups stay,
    and become one where their pictures are the same. Look at what is linked, `dermfed-data check` names it.
    Of several manifests pictures are linked across them, and each is written to the folder under its name.
    """
    _refuse_overwriting(out, force)
    require_hashing()
    each = [read_manifest(manifest.absolute()) for manifest in manifests]
    if len({manifest.name for manifest in manifests}) < len(manifests):
        raise ClientDataError("two manifests have one name, under which both would be written; rename one")
    read = joined(each)
    same, broken, _ = read_all(read, near_duplicates=True)
    linked = link_manifest(read, same)
    rows = iter(linked.rows)
    for manifest, one in zip(manifests, each, strict=True):
        columns = tuple(dict.fromkeys([*one.extra_columns, DUPLICATE_GROUP]))
        part = Manifest(tuple(islice(rows, len(one.rows))), linked.folder, columns)
        write_manifest(part, (out if len(each) == 1 else out / manifest.name).absolute())
    parted = straddling(linked.rows, components([linkage_keys(row) for row in linked.rows]))
    answer = {
        "manifest": str(out),
        "pictures": len(linked.rows),
        "groups": len(set(linked.values(DUPLICATE_GROUP)) - {""}),
        "identical": sum(len(rows) - 1 for rows in same.identical),
        "near_duplicates": len(same.near),
        "broken": [f"{picture.shown}: {picture.reason}" for picture in broken],
        "straddling": parted,
    }
    lines = [
        f"{out}: {answer['pictures']} pictures, {answer['groups']} groups; {answer['identical']} files are "
        f"copies, {answer['near_duplicates']} pairs near-duplicates"
    ]
    if broken:
        lines.append(f"{len(broken)} pictures were not looked at:\n{listing_by_cause(by_cause(broken))}")
    if parted:
        lines.append(
            f"{len(parted)} groups are on two sides of a split, which a job refuses; give each one split:\n"
            f"{listing(parted)}"
        )
    _answer(answer, "\n".join(lines), as_json)


@_command(
    "withdraw",
    "manifest.csv --patient P0017 --splits job.yaml --out without.csv",
)
def withdraw(
    manifest: ManifestPath,
    patients: Annotated[
        list[str],
        typer.Option("--patient", metavar="ID", help="Who withdraws, by patient_id; may be repeated."),
    ],
    splits: Annotated[
        Path,
        typer.Option(
            "--splits", metavar="JOB.yaml", help="The job, or a built-in one, whose splits are to stay."
        ),
    ],
    out: OutFile,
    client: Annotated[
        str | None, typer.Option("--client", metavar="NAME", help="Your name in a job with several sources.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Take a patient's pictures out of a manifest, for the next run.

    The splits that the job drew are written down, and the manifest is written if no other picture changes
    its split, class or subgroup by it. Pictures without a patient_id that are linked to the patient's go,
    too. Files stay where they are: delete them, and the cache of decoded pictures.
    """
    _refuse_overwriting(out, force)
    found, notes = withdraw_patients(manifest.absolute(), patients, splits, out.absolute(), client=client)
    _say(*notes)
    lines = [
        f"{found.withdrawn} pictures are taken out, {found.withdrawn_used} of which the job uses",
        *([f"{found.pinned} pictures get a split, so that it stays"] if found.pinned else []),
        f"no other picture of the job has moved\n{out}: {found.pictures} pictures",
    ]
    _answer({"manifest": str(out), **asdict(found)}, "\n".join(lines), as_json)


@_command(
    "report",
    "manifest.csv --out quality.html",
    "manifest.csv --out quality.html --no-names",
)
def report(
    manifests: ManifestPaths,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write.")],
    names: Annotated[
        bool, typer.Option("--names/--no-names", help="Whether file names are on the page.")
    ] = True,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a page on the quality of a manifest, or of several as one, to hand to a colleague.

    Counts by label, skin tone, split and clinic with those of few pictures marked; what is missing, and what
    is broken by cause; sizes of pictures; and what to do about each. Every picture is opened. With file names
    it is not to leave the hospital.
    """
    _refuse_overwriting(out, force)
    quality = quality_of(*(manifest.absolute() for manifest in manifests))
    _say(*quality.notes)
    with write_atomically(out.absolute()) as temporary:
        page = quality_page(quality, names=names)
        temporary.write_text(page, encoding="utf-8", errors="backslashreplace")
    found = {finding.about.title: len(finding.problems) for finding in quality.broken}
    missing = {column: count for column, count, _ in quality.missing}
    answer = {"report": str(out), "pictures": quality.pictures, "broken": found, "missing": missing}
    problems = f"{sum(found.values())} problems" if found else "no problems"
    said = f"{out}: {quality.pictures} pictures, {problems}, {quality.thin} cells of few pictures"
    _answer({**answer, "thin": quality.thin}, said, as_json)


@_command(
    "describe",
    "manifest.csv",
    "manifest.csv --by clinic --json",
)
def describe(
    manifest: ManifestPath,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="Count by this column instead of skin tone.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count pictures by label, skin tone (or another column) and split."""
    description = describe_manifest(_read(manifest), by)
    if as_json:
        counts = [{**asdict(cell), "pictures": count} for cell, count in description.cells.items()]
        answer = {
            name: getattr(description, name)
            for name in ("pictures", "lesions", "patients", "subgroups", "kinds", "known")
        }
        _answer({**answer, "counts": counts}, "", as_json)
        return
    console = Console()
    by_column = on_one_line(description.subgroups)
    typer.echo(
        f"{description.pictures} pictures, {description.lesions} lesions, "
        f"{description.patients or 'no named'} patients; by {by_column}"
    )
    for what, counts_of in (("pictures", description.kinds), ("known", description.known)):
        told = ", ".join(f"{n} {on_one_line(name)}" for name, n in counts_of.items())
        typer.echo(f"lesions by {what}: {told}")
    for table in tabulate(description):
        print_table(table, console)


@_command(
    "partition",
    "manifest.csv --by column --column clinic --out clients",
    "manifest.csv --by column --column clinic --count 10 --out clients",
    "manifest.csv --by dirichlet --count 5 --alpha 0.5 --seed 1 --out clients",
    "manifest.csv --by iid --count 3 --out clients",
)
def partition(
    manifest: ManifestPath,
    by: Annotated[Literal["column", "dirichlet", "iid"], typer.Option("--by", help="By which rule.")],
    out: OutFolder,
    column: Annotated[str | None, typer.Option(help="The column whose values are the clients.")] = None,
    count: Annotated[
        int | None, typer.Option(help="How many clients; by column, large values are divided.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="The smaller, the more the clients differ.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another partition.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Part a manifest among clients, one manifest each.

    Lesions, patients and duplicates stay together, except where a column puts them in two values: there the
    column alone decides.
    """
    rule = ClientsConfig.model_validate({"by": by, "column": column, "count": count, "alpha": alpha})
    parts = partition_manifest(_read(manifest), rule, seed=seed)
    paths = {client: out / f"{client}.csv" for client in parts}
    for path in paths.values():
        _refuse_overwriting(path, force)
    for client, part in parts.items():
        write_manifest(part, paths[client].absolute())
    answer = {
        client: {"manifest": str(paths[client]), "pictures": len(parts[client].rows)} for client in parts
    }
    lines = [
        f"{on_one_line(str(paths[client]))}: {len(part.rows)} pictures" for client, part in parts.items()
    ]
    _answer({"clients": answer}, "\n".join(lines), as_json)


@_command(
    "synth",
    "--out made-up --pictures 600 --size 64 --seed 1",
)
def synth(
    out: OutFolder,
    pictures: Annotated[int, typer.Option(min=6, help="How many.")] = 1200,
    size: Annotated[int, typer.Option(min=32, max=1024, help="Pixels on both sides.")] = 64,
    seed: Annotated[
        int, typer.Option(min=0, help="Another seed, other pictures, and other lesions and patients.")
    ] = 0,
    prefix: Annotated[
        str | None,
        typer.Option(
            help="Of the ids of lesions and patients; by default s1- of seed 1, and none of seed 0."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make up pictures of skin lesions on six skin types, with a manifest: for demonstrations and tests."""
    if out.is_dir() and any(out.iterdir()):
        _stop(f"{out} is not empty; name another folder, or empty it", REFUSED)
    ids = prefix_of(seed) if prefix is None else prefix
    write_synthetic(out.absolute(), pictures=pictures, size=size, seed=seed, prefix=ids)
    manifest = out / MANIFEST
    _answer({"manifest": str(manifest), "pictures": pictures}, f"{manifest}: {pictures} pictures", as_json)


@_command(
    "tones",
    "manifest.csv",
    "clinic-a.csv clinic-b.csv --by image_type",
    "milk10k ./milk10k --by image_type --json",
)
def tones(
    pictures: Annotated[
        list[str], typer.Argument(metavar="MANIFEST...|ADAPTER FOLDER", help="Manifests, or a folder.")
    ],
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="Compare each value of this column alone.")
    ] = None,
    min_count: Annotated[int, typer.Option(min=1, help="A tone of fewer pictures has no range.")] = 10,
    replicates: Annotated[int, typer.Option(min=0, help="Bootstrap replicates, for intervals.")] = 200,
    option: AdapterOptions = None,
    as_json: AsJson = False,
) -> None:
    """Compare declared skin tones with how light the skin looks; list pictures that contradict their tone.

    How light it looks is the individual typology angle, larger for lighter skin, from the pixels around the
    lesion. A picture contradicts its tone where its angle is outside the central 98 % of that tone's pictures
    and inside the central half of a tone two steps away or more. Dermoscopic pictures and photographs must
    not be mixed: part them with --by.

    The angle is unreliable. It is for looking declared tones up again, never for choosing a model and never
    for filling in a tone that is missing.
    """
    manifests = _manifests(pictures, _options(option or []))
    if by is not None:
        for manifest in manifests:
            manifest.require(by)
    measured = measure_tones(*manifests)
    checks = check_tones(measured.pictures, by=by, min_count=min_count, replicates=replicates)
    if as_json:
        answer = {
            "caution": CAUTION,
            "undeclared": measured.undeclared,
            "broken": measured.broken,
            "checks": [
                {
                    **asdict(check),
                    "ranges": {tone: r.model_dump() for tone, r in check.ranges.items()},
                    "tones": check.for_bundles.model_dump() if check.for_bundles else None,
                }
                for check in checks
            ],
        }
        _answer(answer, "", as_json)
        return
    console = Console()
    for check in checks:
        print_table(tone_table(check), console)
        for found in check.contradictions:
            others = " or ".join(found.looks_like)
            image = on_one_line(found.image)
            typer.echo(f"{image}: declared {found.tone}, angle {found.angle:.0f}, looks like {others}")
        answered = sum(line.pictures - line.silent for line in check.agreement.tones)
        typer.echo(f"{len(check.contradictions)} of {answered} pictures contradict their declared tone\n")
    if measured.broken:
        typer.echo(f"{len(measured.broken)} pictures cannot be used:\n{listing(measured.broken)}")
    if measured.undeclared or not checks:
        typer.echo(f"{measured.undeclared} pictures have no declared tone; they were not looked at")
    typer.echo(CAUTION)


def main() -> None:
    """The console script."""
    app()


def _listed(manifests: list[Path]) -> str:
    return ", ".join(map(str, manifests))


def _problem_lines(report: CheckReport) -> Iterator[str]:
    """All problems, those of pictures by their cause."""
    causes: dict[str, list[str]] = {}
    for problem in report.problems:
        shown = problem.text.removesuffix(f": {problem.cause}") if problem.cause else problem.text
        causes.setdefault(problem.cause, []).append(f"{problem.kind}: {shown}")
    yield from map(on_one_line, causes.pop("", []))
    for cause, lines in sorted(causes.items(), key=lambda group: -len(group[1])):
        yield f"{len(lines)} pictures: {on_one_line(cause)}"
        yield listing(lines)


def _say(*lines: str) -> None:
    for line in lines:
        print(printable(line), file=sys.stderr)


def _read(path: Path) -> Manifest:
    """Read a manifest, and tell what reading it took for granted."""
    manifest = read_manifest(path.absolute())
    _say(*manifest.notes)
    return manifest


def _manifests(words: list[str], options: dict[str, Any]) -> list[Manifest]:
    """The manifests that are named, or the one that an adapter makes of a folder."""
    if words[0] in adapter_names() and not Path(words[0]).is_file():
        if len(words) != 2:
            raise ClientDataError(f"adapter {words[0]} needs one folder; write: {words[0]} FOLDER")
        made = make_adapter(words[0], options).manifest(Path(words[1]).absolute())
        _say(*made.notes)
        return [made]
    if options:
        raise ClientDataError("--option is for adapters, and a manifest takes none; leave it out")
    return [_read(Path(word)) for word in words]


def _refuse_overwriting(path: Path, force: bool) -> None:
    if path.exists() and not force:
        _stop(f"{path} is there already; add --force to replace it, or name another file", REFUSED)


def _stop(why: str, code: int) -> None:
    _say(f"dermfed-data: {why}")
    raise typer.Exit(code)


def _options(pairs: list[str]) -> dict[str, Any]:
    """Parse `KEY=VALUE` pairs; a value that is JSON is read as such, any other is text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ClientDataError(f"--option {pair!r} has no value; write it as KEY=VALUE")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    return options


def _answer(answer: Mapping[str, Any], text: str, as_json: bool) -> None:
    typer.echo(json.dumps(answer, indent=2) if as_json else printable(text))
