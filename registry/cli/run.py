"""Runs a command: errors that a user can mend are told in a line, and in the exit code."""

import logging
import sys

import typer

from registry.bundle.errors import BundleError
from registry.bundle.plain_text import shown
from registry.errors import RegistryError

WRONG = 2  # exit code: wrong use or bad input


def run(app: typer.Typer) -> None:
    """Runs the commands of an application, and ends with their exit code."""
    logging.getLogger("registry").addHandler(logging.NullHandler())  # commands say themselves what they did
    try:
        app()
    except RegistryError as error:
        _fail(error, error.exit_code)
    except BundleError as error:
        _fail(error, WRONG)
    except OSError as error:
        _fail(error, WRONG, _of_a_file(error))


def _fail(error: Exception, code: int, said: str | None = None) -> None:
    print(f"{type(error).__name__}: {shown(' '.join((said or str(error)).split()))}", file=sys.stderr)
    sys.exit(code)


def _of_a_file(error: OSError) -> str | None:
    """What the system said of a file, and what to do; nothing where it names no file."""
    if error.filename is None or error.strerror is None:
        return None
    advice = "check its name, its folder and their permissions"
    return f"{error.filename} cannot be used ({error.strerror}); {advice}"
