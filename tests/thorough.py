"""Parameters of which a few are tried in each run, and the others where long tests run."""

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_long(every: Iterable[Any], *now: Any) -> list[Any]:
    """All of `every`; those that are not among `now` are long.

    Raises:
        AssertionError: one of `now` is none of them.
    """
    found = list(every)
    assert all(one in found for one in now), f"{now} are not all in {found}"
    return [
        one
        if one in now
        else pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.long)
        for one in found
    ]
