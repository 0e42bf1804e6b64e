"""All hostile pictures, made by code: the same bytes each time, nothing of them kept in the repository."""

from tests.serving.hostile.bombs import bombs
from tests.serving.hostile.odd import odd
from tests.serving.hostile.piece import Hostile
from tests.serving.hostile.spoilt import spoilt


def corpus() -> list[Hostile]:
    """Every one of them."""
    return [*spoilt(), *bombs(), *odd()]
