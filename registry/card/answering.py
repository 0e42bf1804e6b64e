"""Who answers whom in a release, and how well: each skin tone with the version that is for it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from registry.card.figures import number_of
from registry.card.tables import cell, tested_on, title
from registry.rendering.table import Row, Table

FIRST: Final = ("malignant_sensitivity", "malignant_specificity", "malignancy_auroc", "auroc")
"""What is asked first of a model, by skin tone; the last where the one before it is not there."""

THEN: Final = ("sensitivity_at_threshold", "specificity_at_threshold")
"""The same at the working point, where it has one."""

AnsweringRow = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""A skin tone, the card of the version that answers for it, and its test figures there."""


def answering(versions: Sequence[Mapping[str, Any]]) -> Iterator[AnsweringRow]:
    """Each skin tone that has test figures, with those of the version that answers for it.

    Args:
        versions: the cards of a release's versions, the one for everybody first.
    """
    everybody = versions[0]
    own = {one["subgroup"]["name"]: one for one in versions[1:]}
    names = dict.fromkeys(
        [*everybody["by_subgroup"], *(name for name, one in own.items() if name in one["by_subgroup"])]
    )
    for name in names:
        version = own.get(name, everybody)
        if name in version["by_subgroup"]:
            yield name, version, version["by_subgroup"][name]


def key_figures(versions: Sequence[Mapping[str, Any]]) -> Table | None:
    """Sensitivity, specificity and AUROC of each skin tone; None where no figure of them is known."""
    rows = list(answering(versions))
    known = [
        name for name in (*FIRST, *THEN) if any(number_of(row.get(name)) is not None for *_, row in rows)
    ]
    columns = [name for name in known if name != "auroc" or "malignancy_auroc" not in known]
    if not columns:
        return None
    return Table(
        "key",
        "How well it answers, by skin tone",
        ("Skin tone", *map(title, columns), "Test pictures"),
        tuple(
            Row(name, (*(cell(row, column) for column in columns), tested_on(row)), named(version))
            for name, version, row in rows
        ),
        "On test pictures, with 95 % intervals; each skin tone with the version that answers for it.",
    )


def named(version: Mapping[str, Any]) -> str:
    """A version as a sentence calls it: by its number, or by its subgroup where it is in no registry."""
    name = version["subgroup"]["name"]
    return (
        f"the bundle for {name}" if version["version"] is None else f"version {version['version']} ({name})"
    )
