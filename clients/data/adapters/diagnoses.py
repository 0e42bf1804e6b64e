"""Reading diagnoses and skin tones of published tables into our codes and tones."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from clients.data.adapters.published import read_table
from clients.data.errors import AdapterError
from registry.bundle.skin_tone import read_tone
from registry.bundle.text import nearest


def code_of(picture: str, diagnosis: str, codes: Mapping[str, str]) -> str:
    """The code of the diagnosis that a table gives for `picture`; none for an empty cell.

    Raises:
        AdapterError: the data set has no such diagnosis; names the nearest.
    """
    if not diagnosis:
        return ""
    if diagnosis not in codes:
        raise AdapterError(f"{picture} has the diagnosis {diagnosis!r}; {nearest(diagnosis, list(codes))}")
    return codes[diagnosis]


def tone_of(picture: str, tone: str, scale: str) -> str:
    """The skin tone that a table gives for `picture`; none for an empty cell.

    Raises:
        AdapterError: the scale has no such value.
    """
    try:
        return read_tone(tone, scale) if tone else ""
    except ValueError as error:
        raise AdapterError(f"{picture}: {error}") from error


def agreed(values: Iterable[str]) -> str:
    """The one value that all non-empty `values` have; empty where they differ."""
    told = {value for value in values if value}
    return told.pop() if len(told) == 1 else ""


def one_hot(path: Path, key: str) -> dict[str, str]:
    """The diagnosis of each line of a table with a column per diagnosis: the one column that is 1.

    Args:
        path: the table.
        key: the column that names each line; all others are diagnoses.

    Raises:
        AdapterError: a line has no diagnosis, or several, or a cell that is no number.
    """
    labels = {}
    for line in read_table(path, (key,), key=key):
        name = line.pop(key)
        try:
            chosen = [code for code, value in line.items() if value and float(value) == 1]
        except ValueError as error:
            raise AdapterError(f"{path}: {name}: {error}; a cell is 1 or 0") from error
        if len(chosen) != 1:
            raise AdapterError(f"{path}: {name} has {len(chosen)} diagnoses instead of one")
        labels[name] = chosen[0]
    return labels
