"""The columns of a manifest by which a job selects pictures, and those by which no job may.

>>> selecting_columns(DataConfig(manifest="own.csv", where={"clinic": "vienna"}), ())
{'clinic': ('data.where',)}
"""

from collections.abc import Mapping, Sequence

from training.data.intersections import IntersectionConfig
from training.data.settings import ColumnSubgroups, DataConfig
from training.errors import JobError, tell

IDENTIFYING = ("image", "lesion_id", "patient_id", "duplicate_group")
"""The columns that name a picture, a lesion, a patient, or pictures that show the same."""


def selecting_columns(
    data: DataConfig, intersections: Sequence[IntersectionConfig]
) -> Mapping[str, tuple[str, ...]]:
    """The settings of a job that select by a column of the manifest, by column.

    `where` and `train_only` filter; subgroups and intersections by column divide; so does a fact of a case
    whose values the job makes up, since a weight of the model is then trained on one value's pictures alone.

    Args:
        data: the job's `data` block.
        intersections: its `evaluation.intersections`.
    """
    named = [("data.where", column) for column in data.where]
    named += [(f"data.sources.{each.name}.where", column) for each in data.sources for column in each.where]
    named += [("data.train_only", column) for column in data.train_only]
    if isinstance(data.subgroups, ColumnSubgroups):
        named.append(("data.subgroups", data.subgroups.column))
    named += [("evaluation.intersections", each.column) for each in intersections]
    if data.cases is not None:
        own = [fact for fact in data.cases.facts if not isinstance(fact, str)]
        named += [("data.cases.facts", fact.name) for fact in own]
    columns = dict.fromkeys(column for _, column in named)
    return {column: tuple(what for what, of in named if of == column) for column in columns}


def identifying(column: str) -> bool:
    """Whether a column names single pictures, lesions or patients, however it is spelt."""
    return column.strip().casefold().replace("-", "_").replace(" ", "_") in IDENTIFYING


def refuse_identifying(data: DataConfig, intersections: Sequence[IntersectionConfig]) -> None:
    """Refuse a job that selects by a column that names single patients; its own words may be disclosed.

    Raises:
        JobError: naming the settings and the columns.
    """
    named = {
        column: settings
        for column, settings in selecting_columns(data, intersections).items()
        if identifying(column)
    }
    if named:
        asked = "; ".join(f"{', '.join(settings)} by {column}" for column, settings in named.items())
        raise tell(
            JobError(
                f"the job selects pictures by a column that names single pictures, lesions or patients "
                f"({asked}), which no hospital does for a coordinator. Remove it from the job"
            )
        )
