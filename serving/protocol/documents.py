"""The documents that are no diagnosis: what is served, cards, readiness, outcomes, and problems."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from registry.bundle.cases import KNOWN, CaseInput
from registry.bundle.labels import ICD10, Coding
from registry.outcomes.store import ConfirmedBy
from serving.protocol.schemas import Answer


class ServedPattern(Answer):
    """What may be given of a case, and what calibration found for such cases."""

    pattern: Annotated[
        str,
        Field(
            description="which pictures and how many of the facts",
            examples=["close-up+dermoscopic+some context"],
        ),
    ]
    promised: Annotated[bool, Field(description="whether a coverage is promised", examples=[True])]
    set_size: Annotated[
        float | None, Field(description="the mean number of classes that are possible", examples=[1.8])
    ]
    reported: Annotated[float | None, Field(description="the share of cases reported", examples=[0.7])]


class ServedVersion(Answer):
    """One version that is served: whom it is for, by which tones of which scale."""

    version: Annotated[int, Field(description="its number in the registry", examples=[3])]
    subgroup: Annotated[
        str, Field(description="the subgroup that it is for; `global` is the global model", examples=["dark"])
    ]
    scale: Annotated[
        str | None,
        Field(description="of its tones; null for all tones, or several scales", examples=["fitzpatrick"]),
    ]
    skin_tones: Annotated[
        list[str], Field(description="its tones where they are of one scale", examples=[["V", "VI"]])
    ]
    digest: Annotated[str, Field(description="of its bundle", examples=["sha256:" + "0" * 64])]
    tones: Annotated[
        dict[str, list[str]],
        Field(
            default_factory=dict,
            exclude_if=lambda tones: not tones,
            description="the declared tones that are routed to it, by scale: those that its calibration had "
            "patients of; absent of the global version",
            examples=[{"fitzpatrick": ["V", "VI"]}],
        ),
    ]
    case: Annotated[
        CaseInput | None,
        Field(
            exclude_if=lambda case: case is None,
            description="which pictures and facts it takes; not there where it takes single pictures",
            examples=[CaseInput(slots=2, kinds=("close-up", "dermoscopic"), facts=tuple(KNOWN.values()))],
        ),
    ] = None
    patterns: Annotated[
        list[ServedPattern],
        Field(
            default_factory=list,
            exclude_if=lambda patterns: not patterns,
            description="what may be given of a case and was calibrated; not there for single pictures",
        ),
    ]


class ServedCanary(Answer):
    """A release that answers a share of the requests, or of those of one subgroup; each says its version."""

    release: Annotated[int, Field(description="its number in the registry", examples=[8])]
    share: Annotated[float, Field(description="of the requests", examples=[0.05])]
    subgroup: Annotated[str | None, Field(description="whose requests; null for all", examples=[None])]
    versions: Annotated[list[ServedVersion], Field(description="of this release")]


class ServedModel(Answer):
    """One model that is served, with the release that is current."""

    name: Annotated[str, Field(description="in the registry", examples=["skin-lesion"])]
    release: Annotated[int, Field(description="its number in the registry", examples=[7])]
    alias: Annotated[str, Field(description="that points to the release", examples=["production"])]
    labels: Annotated[list[str], Field(description="the codes of its classes", examples=[["MEL", "NV"]])]
    codings: Annotated[
        dict[str, list[Coding]],
        Field(
            description="the codes of each class in other systems: which edition, and whether a "
            "terminologist has to look at the code before it is relied on (`certain` is false)",
            examples=[
                {"MEL": [Coding(system=ICD10, code="C43.9", display="Malignant melanoma of skin")], "NV": []}
            ],
        ),
    ]
    versions: Annotated[list[ServedVersion], Field(description="of the release")]
    canary: Annotated[
        ServedCanary | None,
        Field(
            exclude_if=lambda canary: canary is None,
            description="that answers next to the release; not there where none does",
            examples=[None],
        ),
    ] = None


class Models(Answer):
    """The answer to `GET /v1/models`."""

    models: Annotated[list[ServedModel], Field(description="every model that is served")]


class Readiness(Answer):
    """The answer to `GET /readyz`: what is served, and what could not be."""

    status: Annotated[
        Literal["ready", "degraded"],
        Field(description="`degraded`: a model answers, and something is wrong", examples=["ready"]),
    ]
    models: Annotated[list[str], Field(description="that answer", examples=[["skin-lesion"]])]
    troubles: Annotated[list[str], Field(description="what is wrong, one sentence each", examples=[[]])]


class ProblemDocument(BaseModel):
    """Every error (RFC 9457)."""

    type: Annotated[
        str, Field(description="what kind of problem it is", examples=["urn:dermfed:problem:not-an-image"])
    ]
    title: Annotated[str, Field(description="the same, for people", examples=["Not an image"])]
    status: Annotated[int, Field(description="the HTTP status", examples=[400])]
    detail: Annotated[
        str, Field(description="what was wrong and what to do", examples=["9 bytes that are no picture"])
    ]
    request_id: Annotated[
        str, Field(description="as `X-Request-Id` has it", examples=["6f2b8c1e-4d5a-4f0b-9a57-0c1f7d3e2b90"])
    ]


class Card(Answer):
    """The card of a model: each version's figures, what its confidence promises, and where it comes from."""

    name: Annotated[str, Field(description="the model's", examples=["skin-lesion"])]
    release: Annotated[int, Field(description="its number in the registry", examples=[7])]
    alias: Annotated[str, Field(description="that points to the release", examples=["production"])]
    served: Annotated[
        dict[str, Any],
        Field(
            description="how far apart subgroups are, each with the version that answers for it",
            examples=[{"subgroups": [], "spread": None, "note": "tested on no subgroup"}],
        ),
    ]
    versions: Annotated[
        list[dict[str, Any]],
        Field(description="the figures, calibration and lineage of each", examples=[[{"version": 1}]]),
    ]


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
