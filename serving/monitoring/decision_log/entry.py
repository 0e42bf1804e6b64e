"""The fields of one line of the decision log: of a diagnosis, or of a request that got none."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from registry.bundle.decision import Level
from serving.protocol.parameters import Route


class RefusedEntry(BaseModel):
    """The entry of a request that got no diagnosis: when, by which key, and with which status.

    Attributes:
        time: when it was answered, in UTC.
        request: its id, as in the answer and in the log.
        key: the id of the API key; null where the service has none.
        status: of the answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: datetime
    request: str
    key: str | None
    status: int

    @property
    def line(self) -> bytes:
        """The entry as a line of JSON, its newline too."""
        return self.model_dump_json(exclude_unset=True).encode() + b"\n"


class DiagnosedEntry(RefusedEntry):
    """The entry of a diagnosis: which version gave it, why that one, and what it decided.

    Attributes:
        model: the model's name.
        version: the number of the version that answered.
        digest: of its bundle.
        subgroup: whom the version is for.
        route: why it was this one.
        triage: urgent, routine or ruled-out; null where there is none.
        decision: report, refer or retake.
        confidence: the highest probability.
        milliseconds: from the first byte of the request to this line.
        picture: the sha256 of the picture as it was sent; there only where it was asked for.
        pictures: those of all pictures, where more than one was sent.
    """

    model: str
    version: int
    digest: str
    subgroup: str
    route: Route
    triage: Level | None
    decision: Literal["report", "refer", "retake"]
    confidence: float
    milliseconds: float = Field(ge=0)
    picture: str | None = None
    pictures: tuple[str, ...] | None = None
