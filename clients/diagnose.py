"""`dermfed-diagnose`: ask the diagnosis service about pictures or cases; answers as text, JSON or CSV."""

import os
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from clients.api import (
    ConnectionFailed,
    DermFed,
    DermFedError,
    Diagnosis,
    Forbidden,
    InvalidInput,
    InvalidParameter,
    NotFound,
    Unauthorized,
    UnexpectedAnswer,
)
from clients.data.output import progress
from clients.diagnose_output import AsCsv, AsJson, AsLines, AsText, Lesion, Output, read_lesions
from registry.bundle.text import on_one_line


def ask_in_order(
    service: DermFed, lesions: Sequence[Lesion], parameters: Mapping[str, Any], jobs: int
) -> Generator[tuple[Lesion, Diagnosis | DermFedError], None, None]:
    """Each lesion, in order, with its diagnosis or the error in its place; `jobs` are asked about at once.

    One slow answer does not stop the others: as many again may be asked about before it is taken. With one
    job, a lesion is asked about when the one before was taken. Once this is closed, what was not yet begun is
    not asked about.
    """

    def ask(lesion: Lesion) -> Diagnosis | DermFedError:
        try:
            return service.diagnose(**{**parameters, **lesion.arguments})
        except DermFedError as error:
            return error

    waiting: deque[Future[Diagnosis | DermFedError]] = deque()
    with ThreadPoolExecutor(min(jobs, max(1, len(lesions)))) as threads:
        try:
            for place, lesion in enumerate(lesions):
                for one in lesions[place + len(waiting) : place + 2 * jobs - 1]:
                    waiting.append(threads.submit(ask, one))
                yield lesion, waiting.popleft().result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


SHOWN = 3  # pictures that a message names
LOOK_EVERY = 0.5  # seconds between looks at a service that is starting
REFUSED, WRONG = 1, 2  # exit codes: a picture was refused; wrong use or no service
SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".heic", ".heif", ".hif", ".avif", ".dcm")
NOT_READ = (
    *(".tif", ".tiff", ".bmp", ".gif", ".jp2", ".jxl", ".psd", ".pdf"),
    *(".dng", ".raf", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2"),
)

# What no other picture would change: the key, the options or the URL are wrong.
OF_ALL = (ConnectionFailed, Unauthorized, Forbidden, NotFound, UnexpectedAnswer)
STOPPING = (*OF_ALL, InvalidParameter)

HELP = """Ask the diagnosis service about pictures.

PICTURE_OR_FOLDER is a JPEG, PNG, WebP, HEIC, AVIF or DICOM file, or a folder: all of these in it and below,
in order of their names, hidden ones left out; pictures of other formats are named on standard error. One
picture gives a readable answer, several give a line each, in order.

A model that takes cases may be given more of one lesion: a second picture and facts. --cases asks about many
lesions, by a CSV file with a row each: `case` (a name), `image`, `close_up`, `dermoscopic`, `overview`
(paths, relative to the file), `age`, `sex`, `site`, `skin_tone`, `skin_tone_scale`, and `fact:NAME` for
another fact; empty where there is none.

\b
Examples:
  dermfed-diagnose lesion.jpg --skin-tone V
  dermfed-diagnose lesion.jpg --skin-tone 7 --skin-tone-scale monk --json
  dermfed-diagnose ./pictures --csv answers.csv
  dermfed-diagnose ./pictures --csv answers.csv --resume
  dermfed-diagnose ./pictures --csv - > answers.csv
  dermfed-diagnose close.jpg --dermoscopic derm.jpg --age 70 --sex male --site trunk
  dermfed-diagnose --cases cases.csv --csv answers.csv
  DERMFED_API_KEY=... dermfed-diagnose lesion.jpg --url https://dermfed.hospital.example
"""
EPILOG = """Exit codes: 0 done; 1 at least one picture was refused, by the service or because it is no picture
(the others are done); 2 wrong use, or no service: the key, an option or the URL is wrong, and nothing more
was sent."""

app = typer.Typer(
    name="dermfed-diagnose",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,  # the API key is one of them
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"dermfed-diagnose {version('dermfed')}")
        raise typer.Exit


@app.command(help=HELP, epilog=EPILOG, no_args_is_help=True)
def diagnose(
    pictures: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PICTURE_OR_FOLDER", exists=True, help="What to ask about."),
    ] = None,
    kind: Annotated[
        Literal["close-up", "dermoscopic", "overview"] | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="Of what kind the pictures are; beside --dermoscopic a picture is a close-up.",
        ),
    ] = None,
    dermoscopic: Annotated[
        Path | None,
        typer.Option(
            "--dermoscopic", metavar="FILE", exists=True, help="A dermoscopic picture of the lesion."
        ),
    ] = None,
    age: Annotated[str | None, typer.Option("--age", metavar="YEARS", help="The patient's age.")] = None,
    sex: Annotated[str | None, typer.Option("--sex", metavar="SEX", help="The patient's sex.")] = None,
    site: Annotated[
        str | None, typer.Option("--site", metavar="SITE", help="Where on the body the lesion is.")
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option("--cases", metavar="FILE", exists=True, dir_okay=False, help="A CSV file of lesions."),
    ] = None,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", envvar="DERMFED_URL", help="Where the service is.")
    ] = "http://127.0.0.1:3000",
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            metavar="KEY",
            envvar="DERMFED_API_KEY",
            help="The service's API key. Better set the variable: others see what stands on a command line.",
        ),
    ] = None,
    skin_tone: Annotated[
        str | None, typer.Option("--skin-tone", metavar="TONE", help="The skin tone, of all pictures.")
    ] = None,
    skin_tone_scale: Annotated[
        str | None,
        typer.Option(
            "--skin-tone-scale", metavar="SCALE", help="The scale it is on; fitzpatrick where none is given."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Which model answers.")] = None,
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="Only so many findings.")
    ] = None,
    frame: Annotated[
        str | None,
        typer.Option(
            "--frame", metavar="N", help="Of DICOM files of several frames this one, or all as one lesion."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Answer in JSON: an object for one picture, else an array.")
    ] = False,
    csv_file: Annotated[
        str | None,
        typer.Option("--csv", metavar="FILE", help="Write a row a picture to this file; - is the output."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Keep the diagnoses that the CSV file holds already; ask about the others."
        ),
    ] = False,
    jobs: Annotated[
        int,
        typer.Option("--jobs", metavar="N", min=1, max=64, help="How many pictures are asked about at once."),
    ] = 4,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, help="How long to wait for a service that is starting."
        ),
    ] = 0,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Ask about pictures; the command's help is `HELP`."""
    if as_json and csv_file is not None:
        _stop("--json and --csv exclude each other; choose one")
    if resume and csv_file in (None, "-"):
        _stop("--resume goes on with a file; name it with --csv FILE")
    given = {"age": age, "sex": sex, "site": site}
    facts = {name: value for name, value in given.items() if value is not None}
    of_one = [*(["dermoscopic"] if dermoscopic else []), *facts]
    single = cases is None and (not pictures or (len(pictures) == 1 and pictures[0].is_file()))
    if of_one and not (single and (pictures or dermoscopic)):
        _stop(f"--{', --'.join(of_one)} are of one lesion; give one picture of it, or --cases FILE for many")
    parameters = {
        "skin_tone": skin_tone,
        "skin_tone_scale": skin_tone_scale,
        "model": model,
        "top": top,
        "frame": frame,
    }
    try:
        lesions = _lesions(pictures or [], kind, dermoscopic, facts, cases)
        of_cases = cases is not None or bool(of_one) or kind is not None
        format_ = _output(csv_file, as_json, single, resume, of_cases=of_cases)
        with DermFed(url, api_key) as service, closing(format_) as output:
            left = output.left(lesions)
            if len(left) < len(lesions):
                done = len(lesions) - len(left)
                print(f"{done} of {len(lesions)} pictures were diagnosed before", file=sys.stderr)
            if left:
                _wait_until_ready(service, wait)
            # Of a table each row has pictures and facts of its own: another one may well be answered.
            stopping = STOPPING if cases is None else OF_ALL
            refused = _diagnose_all(service, left, parameters, output, jobs, stopping)
    except InvalidInput as error:
        _stop(str(error))
    except BrokenPipeError:  # whoever read the output has seen enough
        raise
    except OSError as error:
        _stop(f"{csv_file or 'the output'} cannot be written ({error.strerror})")
    if refused:
        raise typer.Exit(REFUSED)


def main() -> None:
    """The console script."""
    app()


def _lesions(
    pictures: Sequence[Path],
    kind: str | None,
    dermoscopic: Path | None,
    facts: Mapping[str, str],
    cases: Path | None,
) -> list[Lesion]:
    """What to ask about, in order.

    Raises:
        InvalidInput: the table of cases cannot be used.
    """
    if cases is not None:
        if pictures or kind:
            _stop("--cases names all pictures and their kinds; leave out the others")
        return read_lesions(cases)
    if dermoscopic is not None:
        if kind == "dermoscopic":
            _stop("--dermoscopic is one picture and the other is of --kind dermoscopic too; give one of them")
        beside = {(kind or "close-up").replace("-", "_"): pictures[0]} if pictures else {}
        name = str(pictures[0] if pictures else dermoscopic)
        return [Lesion(name, {**beside, "dermoscopic": dermoscopic, "facts": facts})]
    if not pictures:
        _stop("no picture is named; give one, a folder, or --cases FILE")
    field = kind.replace("-", "_") if kind else "image"
    return [Lesion(str(file), {field: file, "facts": facts}) for file in _files(pictures)]


def _diagnose_all(
    service: DermFed,
    lesions: Sequence[Lesion],
    parameters: Mapping[str, Any],
    output: Output,
    jobs: int,
    stopping: tuple[type[DermFedError], ...],
) -> int:
    """Ask about each lesion and hand the results to `output`, in order; returns how many were refused."""
    refused = 0
    with (
        _progress(len(lesions), output) as advance,
        closing(ask_in_order(service, lesions, parameters, jobs)) as asked,
    ):
        for done, (lesion, answer) in enumerate(asked):
            name = on_one_line(lesion.name)
            if isinstance(answer, Diagnosis):
                output.add(name, answer)
            else:
                text = f"{type(answer).__name__}: {on_one_line(str(answer))}"
                if isinstance(answer, stopping):
                    after = f"; stopped after {done} of {len(lesions)} pictures" if len(lesions) > 1 else ""
                    again = "; --resume goes on from there" if after and isinstance(output, AsCsv) else ""
                    _stop(f"{name}: {text}{after}{again}")
                refused += 1
                print(f"dermfed-diagnose: {name}: {text}", file=sys.stderr)
                output.add(name, text)
            advance(1)
    if len(lesions) > 1:
        print(f"{len(lesions) - refused} of {len(lesions)} pictures diagnosed", file=sys.stderr)
    return refused


def _wait_until_ready(service: DermFed, seconds: float) -> None:
    """Return once the service can answer, or when the time is over: then the first picture says why not."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if service.ready():
                return
        except ConnectionFailed:
            pass
        time.sleep(LOOK_EVERY)


def _progress(total: int, output: Output) -> AbstractContextManager[Any]:
    """How far it is, unless that would stand among the answers, which then show it themselves."""
    if total == 1 or (output.scrolls and sys.stdout.isatty()):
        return nullcontext(lambda count: None)
    return progress("diagnosing", total)


def _files(arguments: Sequence[Path]) -> list[Path]:
    """Files as they are named, and the pictures in folders in order of their names; each once."""
    try:
        found = [file for path in arguments for file in (sorted(_below(path)) if path.is_dir() else [path])]
    except OSError as error:
        _stop(f"{on_one_line(str(error.filename))} cannot be read ({error.strerror})")
    others = [file for file in found if file.suffix.lower() in NOT_READ and file not in arguments]
    found = [file for file in found if file not in others]
    if others:
        shown = ", ".join(on_one_line(str(file)) for file in others[:SHOWN])
        more = ", ..." if len(others) > SHOWN else ""
        print(
            f"dermfed-diagnose: {len(others)} pictures are left out, since no service reads their format "
            f"({shown}{more}); convert them to JPEG, e.g. with `magick in.tif out.jpg`",
            file=sys.stderr,
        )
    if not found:
        _stop(
            f"{', '.join(map(str, arguments))}: no picture is there (a file ending in {', '.join(SUFFIXES)})"
        )
    return list(dict.fromkeys(found))


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if name.lower().endswith((*SUFFIXES, *NOT_READ)) and not name.startswith("."):
                yield Path(place, name)


def _raise(error: OSError) -> NoReturn:
    raise error


def _output(csv_file: str | None, as_json: bool, single: bool, resume: bool, *, of_cases: bool) -> Output:
    if csv_file is not None:
        return AsCsv(None if csv_file == "-" else Path(csv_file), resume=resume, of_cases=of_cases)
    if as_json:
        return AsJson(single)
    return AsText() if single else AsLines()


def _stop(why: str) -> NoReturn:
    print(f"dermfed-diagnose: {why}", file=sys.stderr)
    raise typer.Exit(WRONG)
