"""One line of the records: a diagnosis, or a request that got none."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from serving.routing import Route


class Refused(BaseModel):
    """A request that got no diagnosis: who asked, when, and with which status it was answered.

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
        """As JSON, with its end."""
        return self.model_dump_json(exclude_unset=True).encode() + b"\n"


class Diagnosed(Refused):
    """A diagnosis: which version gave it, why that one, and what it said.

    Attributes:
        model: the model's name.
        version: the number of the version that answered.
        digest: of its bundle.
        subgroup: whom the version is for.
        route: why it was this one.
        decision: report, refer or retake.
        confidence: the highest probability.
        milliseconds: from the first byte of the request to this line.
        picture: the sha256 of the picture as it was sent; there only where it was asked for.
    """

    model: str
    version: int
    digest: str
    subgroup: str
    route: Route
    decision: Literal["report", "refer", "retake"]
    confidence: float
    milliseconds: float = Field(ge=0)
    picture: str | None = None
