"""The shape of a diagnosis and of the lists beside it: what an app may rely on."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from registry.bundle.labels import Coding, Malignancy
from registry.bundle.schema import Guarantee
from serving.routing import Route

DISCLAIMER = (
    "Research software, not a medical device. This is no medical advice; a clinician has to judge the lesion."
)


class Answer(BaseModel):
    """A part of an answer, which does not change once made."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AnsweringModel(Answer):
    """The version that answered, and why it was this one."""

    name: str
    version: int
    subgroup: str
    digest: str
    route: Route


class Finding(Answer):
    """One class with its probability."""

    code: str
    name: str
    malignancy: Malignancy
    probability: float = Field(ge=0, le=1)
    coding: dict[str, str]


class PredictionSet(Answer):
    """The classes that hold the truth as often as `coverage` says, for whom `guarantee` says."""

    codes: list[str]
    coverage: float
    guarantee: Guarantee
    calibration_n: int


class MalignancyRisk(Answer):
    """The probability that the lesion is malignant; null where no class of the model is."""

    probability: float | None


class Confidence(Answer):
    """The highest probability, and the threshold below which the answer is `refer`."""

    value: float
    threshold: float
    calibrated_on_n: int


class Quality(Answer):
    """Whether the picture can be judged, and what is wrong with it."""

    acceptable: bool
    issues: list[str]


class Reason(Answer):
    """Why the decision is this one, or why this version answered: a code for programs, a text for people."""

    code: str
    text: str


class Diagnosis(Answer):
    """The answer to `POST /v1/diagnoses`."""

    id: str
    created: datetime
    decision: Literal["report", "refer", "retake"]
    reasons: list[Reason]
    model: AnsweringModel
    findings: list[Finding]
    prediction_set: PredictionSet
    malignancy: MalignancyRisk
    confidence: Confidence
    quality: Quality
    warnings: list[str]
    disclaimer: str = DISCLAIMER


class ServedVersion(Answer):
    """One version that is served: whom it is for, by which tones of which scale."""

    version: int
    subgroup: str
    scale: str | None
    skin_tones: list[str]
    digest: str


class ServedModel(Answer):
    """One model that is served, with the release that is current.

    `codings` tells, by label, its codes in other systems: whose system, which edition, and whether a
    terminologist has to look at the code before it is relied on (`certain` is false).
    """

    name: str
    release: int
    alias: str
    labels: list[str]
    codings: dict[str, list[Coding]]
    versions: list[ServedVersion]


class Models(Answer):
    """The answer to `GET /v1/models`."""

    models: list[ServedModel]


class Readiness(Answer):
    """The answer to `GET /readyz`: what is served, and what could not be."""

    status: Literal["ready", "degraded"]
    models: list[str]
    troubles: list[str]


class ProblemDocument(BaseModel):
    """Every error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str


class Card(Answer):
    """The card of a model: each version's figures, what its confidence promises, and where it comes from.

    `served` says how far apart subgroups are, each with the version that answers for it.
    """

    name: str
    release: int
    alias: str
    served: dict[str, Any]
    versions: list[dict[str, Any]]
