"""`dermfed-registry diff`: what changed between two versions."""

from typing import Annotated

import typer

from registry.cli.arguments import AsJson, Model
from registry.cli.diff_text import difference_text
from registry.cli.open import open_registry
from registry.cli.output import answer, as_data

EXAMPLES = ("demo 1 5", "demo 1 5 --json")


def diff(
    context: typer.Context,
    model: Model,
    before: Annotated[int, typer.Argument(metavar="A", help="The number of one version.")],
    after: Annotated[int, typer.Argument(metavar="B", help="The number of the other.")],
    as_json: AsJson = False,
) -> None:
    """Tell what changed from version A to version B.

    What they come from (job, recipe, seed, data, code, parent), what they answer with (labels, picture rule,
    temperature, thresholds, file), and test figures by subgroup with their intervals, the difference, and
    whether the intervals overlap. That they overlap does not prove that the versions are alike.
    """
    with open_registry(context) as registry:
        found = registry.diff(model, before, after)
    answer(as_data(found), difference_text(found), as_json)
