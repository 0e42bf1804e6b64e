"""The block `about` of a job file; `--recipes` reads it alone."""

from typing import Literal

from pydantic import Field

from training.config import FrozenConfig


class About(FrozenConfig):
    """What a recipe is: shown by `--recipes`, of no effect on a run.

    Attributes:
        system: what is trained.
        paper: where it comes from.
        note: which table it is of, and where it departs.
        group: whether it is for use, a paper's system in its form, or a job for a data set; for the list.
    """

    system: str
    paper: str
    note: str = ""
    group: Literal["use", "system", "data set"] = Field("system", exclude=True)
