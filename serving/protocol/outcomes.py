"""The shape of an outcome as it is given, and of the answer to it."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from registry.outcomes.store import ConfirmedBy


class GivenOutcome(BaseModel):
    """What became of a patient."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    label: Annotated[
        str | None,
        Field(
            max_length=100,
            description="The code of what it was, of the labels of the version that answered; null takes "
            "back what was said before.",
            examples=["MEL"],
        ),
    ]
    confirmed_by: Annotated[ConfirmedBy, Field(description="How that is known.", examples=["histopathology"])]
    date: Annotated[
        str,
        Field(
            max_length=10,
            pattern=r"^\d{4}-\d{2}-\d{2}$",
            description="The day on which it was confirmed.",
            examples=["2026-03-31"],
        ),
    ]
    corrects: Annotated[
        bool, Field(description="Whether it may take the place of another outcome of this answer.")
    ] = False


class OutcomeTaken(BaseModel):
    """What became of an outcome that was given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[
        str, Field(description="Of the diagnosis.", examples=["6f2b8c1e-4d5a-4f0b-9a57-0c1f7d3e2b90"])
    ]
    taken: Annotated[
        Literal["new", "corrected", "withdrawn", "known already"],
        Field(
            description="Whether it is the first, replaces another, takes it back, or is the same.",
            examples=["new"],
        ),
    ]
