"""The documents that are no diagnosis: what is served, cards, readiness, outcomes, and problems."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from registry.bundle.cases import KNOWN, CaseInput
from registry.bundle.labels import ICD10, Coding
from registry.outcomes.store import ConfirmedBy
from serving.protocol.fields import Described
from serving.protocol.schemas import Answer


class ServedPattern(Answer):
    """What may be given of a case, and what calibration found for such cases."""

    pattern: str = Field(examples=["close-up+dermoscopic+some context"])
    """which pictures and how many of the facts"""
    promised: bool = Field(examples=[True])
    """whether a coverage is promised"""
    set_size: float | None = Field(examples=[1.8])
    """the mean number of classes that are possible"""
    reported: float | None = Field(examples=[0.7])
    """the share of cases reported"""


class ServedVersion(Answer):
    """One version that is served: whom it is for, by which tones of which scale."""

    version: int = Field(examples=[3])
    """its number in the registry"""
    subgroup: str = Field(examples=["dark"])
    """the subgroup that it is for; `global` is the global model"""
    scale: str | None = Field(examples=["fitzpatrick"])
    """of its tones; null for all tones, or several scales"""
    skin_tones: list[str] = Field(examples=[["V", "VI"]])
    """its tones where they are of one scale"""
    digest: str = Field(examples=["sha256:" + "0" * 64])
    """of its bundle"""
    tones: dict[str, list[str]] = Field(
        default_factory=dict, exclude_if=lambda tones: not tones, examples=[{"fitzpatrick": ["V", "VI"]}]
    )
    """the declared tones that are routed to it, by scale: those that its calibration had patients of; absent
    of the global version"""
    case: CaseInput | None = Field(
        None,
        exclude_if=lambda case: case is None,
        examples=[CaseInput(slots=2, kinds=("close-up", "dermoscopic"), facts=tuple(KNOWN.values()))],
    )
    """which pictures and facts it takes; not there where it takes single pictures"""
    patterns: list[ServedPattern] = Field(default_factory=list, exclude_if=lambda patterns: not patterns)
    """what may be given of a case and was calibrated; not there for single pictures"""


class ServedCanary(Answer):
    """A release that answers a share of the requests, or of those of one subgroup; each says its version."""

    release: int = Field(examples=[8])
    """its number in the registry"""
    share: float = Field(examples=[0.05])
    """of the requests"""
    subgroup: str | None = Field(examples=[None])
    """whose requests; null for all"""
    versions: list[ServedVersion]
    """of this release"""


class ServedModel(Answer):
    """One model that is served, with the release that is current."""

    name: str = Field(examples=["skin-lesion"])
    """in the registry"""
    release: int = Field(examples=[7])
    """its number in the registry"""
    alias: str = Field(examples=["production"])
    """that points to the release"""
    labels: list[str] = Field(examples=[["MEL", "NV"]])
    """the codes of its classes"""
    codings: dict[str, list[Coding]] = Field(
        examples=[
            {"MEL": [Coding(system=ICD10, code="C43.9", display="Malignant melanoma of skin")], "NV": []}
        ]
    )
    """the codes of each class in other systems: which edition, and whether a terminologist has to look at the
    code before it is relied on (`certain` is false)"""
    versions: list[ServedVersion]
    """of the release"""
    canary: ServedCanary | None = Field(None, exclude_if=lambda canary: canary is None, examples=[None])
    """that answers next to the release; not there where none does"""


class Models(Answer):
    """The answer to `GET /v1/models`."""

    models: list[ServedModel]
    """every model that is served"""


class Readiness(Answer):
    """The answer to `GET /readyz`: what is served, and what could not be."""

    status: Literal["ready", "degraded"] = Field(examples=["ready"])
    """`degraded`: a model answers, and something is wrong"""
    models: list[str] = Field(examples=[["skin-lesion"]])
    """that answer"""
    troubles: list[str] = Field(examples=[[]])
    """what is wrong, one sentence each"""


class ProblemDocument(Described):
    """Every error (RFC 9457)."""

    type: str = Field(examples=["urn:dermfed:problem:not-an-image"])
    """what kind of problem it is"""
    title: str = Field(examples=["Not an image"])
    """the same, for people"""
    status: int = Field(examples=[400])
    """the HTTP status"""
    detail: str = Field(examples=["9 bytes that are no picture"])
    """what was wrong and what to do"""
    request_id: str = Field(examples=["6f2b8c1e-4d5a-4f0b-9a57-0c1f7d3e2b90"])
    """as `X-Request-Id` has it"""


class Card(Answer):
    """The card of a model: each version's figures, what its confidence promises, and where it comes from."""

    name: str = Field(examples=["skin-lesion"])
    """the model's"""
    release: int = Field(examples=[7])
    """its number in the registry"""
    alias: str = Field(examples=["production"])
    """that points to the release"""
    served: dict[str, Any] = Field(
        examples=[{"subgroups": [], "spread": None, "note": "tested on no subgroup"}]
    )
    """how far apart subgroups are, each with the version that answers for it"""
    versions: list[dict[str, Any]] = Field(examples=[[{"version": 1}]])
    """the figures, calibration and lineage of each"""


class GivenOutcome(Described):
    """What became of a patient."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    label: str | None = Field(max_length=100, examples=["MEL"])
    """The code of what it was, of the labels of the version that answered; null takes back what was said
    before."""
    confirmed_by: ConfirmedBy = Field(examples=["histopathology"])
    """How that is known."""
    date: str = Field(max_length=10, pattern=r"^\d{4}-\d{2}-\d{2}$", examples=["2026-03-31"])
    """The day on which it was confirmed."""
    corrects: bool = False
    """Whether it may take the place of another outcome of this answer."""


class OutcomeTaken(Described):
    """What became of an outcome that was given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(examples=["6f2b8c1e-4d5a-4f0b-9a57-0c1f7d3e2b90"])
    """Of the diagnosis."""
    taken: Literal["new", "corrected", "withdrawn", "known already"] = Field(examples=["new"])
    """Whether it is the first, replaces another, takes it back, or is the same."""
