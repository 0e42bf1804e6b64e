"""Counts of the field in a file: what a hospital knows of its answers and outcomes, and hands to its node.

Of each version, named by the digest of its bundle since numbers differ from registry to registry, and of each
subgroup: how many were answered in each stratum of the answer, whose outcome is known, whose lesion was
malignant, and whose prediction set held what it was. No id, no day and no patient is in it.
"""

from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from registry.bundle.errors import CountsError
from registry.bundle.frozen import Frozen

DIGEST = r"^sha256:[0-9a-f]{64}$"
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class FieldStratum(Frozen):
    """The answers of one stratum, and what became of those patients.

    Attributes:
        flagged: whether they were called malignant, above the working point.
        answered: everybody.
        confirmed: those whose outcome is known.
        malignant: those of them who had a malignant lesion.
        in_set: those of them whose prediction set held what it was.
    """

    flagged: bool
    answered: Count
    confirmed: Count
    malignant: Count
    in_set: Count

    @model_validator(mode="after")
    def _parts_of_each_other(self) -> "FieldStratum":
        if not self.answered >= self.confirmed >= max(self.malignant, self.in_set):
            raise ValueError("a stratum has more outcomes than answers, or more of a kind than outcomes")
        return self


class FieldCell(Frozen):
    """The answers of one version to one subgroup.

    Attributes:
        version: the digest of its bundle.
        subgroup: by the tone that was declared, or `unknown`.
        strata: in which following up is taken to be alike.
    """

    version: str = Field(pattern=DIGEST)
    subgroup: str = Field(min_length=1)
    strata: tuple[FieldStratum, ...] = Field(min_length=1)

    @property
    def answered(self) -> int:
        """Everybody."""
        return sum(stratum.answered for stratum in self.strata)

    @property
    def confirmed(self) -> int:
        """Those whose outcome is known."""
        return sum(stratum.confirmed for stratum in self.strata)


class FieldFile(Frozen):
    """What a hospital knows of the field.

    Attributes:
        format: of the file.
        model: whose versions.
        until: the day on which it was written.
        cells: one for each version and subgroup.
    """

    format: Literal["dermfed-field-counts/1"] = "dermfed-field-counts/1"
    model: str
    until: date
    cells: tuple[FieldCell, ...]

    @model_validator(mode="after")
    def _each_once(self) -> "FieldFile":
        names = [(cell.version, cell.subgroup) for cell in self.cells]
        if len(set(names)) < len(names):
            raise ValueError("a version and subgroup is there twice")
        return self

    def cell(self, version: str, subgroup: str) -> FieldCell | None:
        """The answers of one version to one subgroup; None where there are none."""
        return next((one for one in self.cells if (one.version, one.subgroup) == (version, subgroup)), None)


def read_field_file(path: Path) -> FieldFile:
    """The counts of a file.

    Raises:
        CountsError: it cannot be read, or holds no such counts.
    """
    try:
        return FieldFile.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else f"{error}"
        raise CountsError(
            f"{path} holds no counts of the field ({why}); `dermfed-registry field MODEL --counts FILE` "
            "makes it"
        ) from error
