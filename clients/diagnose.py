"""`dermfed-diagnose`: ask the diagnosis service about pictures; answers as text, JSON or CSV."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from clients.api import (
    ConnectionFailed,
    DermFed,
    DermFedError,
    Forbidden,
    InvalidInput,
    InvalidParameter,
    NotFound,
    Unauthorized,
    UnexpectedAnswer,
)
from clients.data.progress import progress
from clients.diagnose_ahead import in_order
from clients.diagnose_output import AsCsv, AsJson, AsLines, AsText, Output, Result, printable
from clients.diagnose_resume import answered

LOOK_EVERY = 0.5  # seconds between looks at a service that is starting
REFUSED, WRONG = 1, 2  # exit codes: a picture was refused; wrong use or no service
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".dcm")

# What no other picture would change: the key, the options or the URL are wrong.
STOPPING = (ConnectionFailed, Unauthorized, Forbidden, NotFound, InvalidParameter, UnexpectedAnswer)

HELP = """Ask the diagnosis service about pictures.

PICTURE_OR_FOLDER is a JPEG, PNG, WebP or DICOM file, or a folder: all of these in it and below, in order of
their names, hidden ones left out. One picture gives a readable answer, several give a line each, in order.

\b
Examples:
  dermfed-diagnose lesion.jpg --skin-tone V
  dermfed-diagnose lesion.jpg --skin-tone 7 --skin-tone-scale monk --json
  dermfed-diagnose ./pictures --csv answers.csv
  dermfed-diagnose ./pictures --csv answers.csv --resume
  dermfed-diagnose ./pictures --csv - > answers.csv
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
        list[Path], typer.Argument(metavar="PICTURE_OR_FOLDER", exists=True, help="What to ask about.")
    ],
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
    files = _files(pictures)
    single = len(pictures) == 1 and pictures[0].is_file()
    parameters = {"skin_tone": skin_tone, "skin_tone_scale": skin_tone_scale, "model": model, "top": top}
    try:
        with DermFed(url, api_key) as service, closing(_output(csv_file, as_json, single, resume)) as output:
            left = _left(files, output)
            if left:
                _wait_until_ready(service, wait)
            refused = _diagnose_all(service, left, parameters, output, jobs)
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


def _left(files: Sequence[Path], output: Output) -> Sequence[Path]:
    """The files that the output holds no diagnosis of yet."""
    left = output.without_done(files) if isinstance(output, AsCsv) else files
    if len(left) < len(files):
        print(f"{len(files) - len(left)} of {len(files)} pictures were diagnosed before", file=sys.stderr)
    return left


def _diagnose_all(
    service: DermFed, files: Sequence[Path], parameters: Mapping[str, Any], output: Output, jobs: int
) -> int:
    """Ask about each file and hand the results to `output`, in order; returns how many were refused."""
    refused = 0
    with (
        _progress(len(files), output) as advance,
        in_order(lambda file: service.diagnose(file, **parameters), files, jobs) as asked,
    ):
        for done, (file, answer) in enumerate(asked):
            name = printable(str(file))
            try:
                output.add(Result(name, answer()))
            except STOPPING as error:
                after = f"; stopped after {done} of {len(files)} pictures" if len(files) > 1 else ""
                again = "; --resume goes on from there" if after and isinstance(output, AsCsv) else ""
                _stop(f"{name}: {_error_text(error)}{after}{again}")
            except DermFedError as error:
                refused += 1
                print(f"dermfed-diagnose: {name}: {_error_text(error)}", file=sys.stderr)
                output.add(Result(name, error=_error_text(error)))
            advance(1)
    if len(files) > 1:
        print(f"{len(files) - refused} of {len(files)} pictures diagnosed", file=sys.stderr)
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
        _stop(f"{printable(str(error.filename))} cannot be read ({error.strerror})")
    if not found:
        _stop(
            f"{', '.join(map(str, arguments))}: no picture is there (a file ending in {', '.join(SUFFIXES)})"
        )
    return list(dict.fromkeys(found))


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield Path(place, name)


def _raise(error: OSError) -> NoReturn:
    raise error


def _output(csv_file: str | None, as_json: bool, single: bool, resume: bool) -> Output:
    if csv_file is not None:
        path = None if csv_file == "-" else Path(csv_file)
        return AsCsv(path, answered(path, AsCsv.COLUMNS) if resume and path else ())
    if as_json:
        return AsJson(single)
    return AsText() if single else AsLines()


def _error_text(error: DermFedError) -> str:
    return f"{type(error).__name__}: {printable(str(error))}"


def _stop(why: str) -> NoReturn:
    print(f"dermfed-diagnose: {why}", file=sys.stderr)
    raise typer.Exit(WRONG)
