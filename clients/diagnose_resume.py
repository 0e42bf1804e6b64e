"""Resuming `dermfed-diagnose --csv`: the rows of an interrupted run that need not be asked for again."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from clients.api import InvalidInput


def answered(path: Path, columns: Sequence[str]) -> tuple[Mapping[str, str], ...]:
    """The rows of the file that hold a diagnosis; none where there is no file.

    Rows with an error are left out, and so is a last row that breaks off: both are asked for again.

    Raises:
        InvalidInput: the file is none that this command has written.
        OSError: it cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        rows = csv.DictReader(io.StringIO(text, newline=""))
        found, names = list(rows), rows.fieldnames
    except FileNotFoundError:
        return ()
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is no CSV file ({error}); name another, or leave out --resume") from error
    if "\n" not in text and ",".join(columns).startswith(text):  # it broke off in the first line
        return ()
    if tuple(names or ()) != tuple(columns):
        raise InvalidInput(
            f"{path} has other columns than dermfed-diagnose writes; name another file, or leave out --resume"
        )
    return tuple(row for row in found if _is_whole(row) and row["decision"] and not row["error"])


def _is_whole(row: Mapping[str | None, object]) -> bool:
    """Whether a row has a cell in every column, and none besides."""
    return None not in row and None not in row.values()
