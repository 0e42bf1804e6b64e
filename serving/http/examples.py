"""Examples for the description of the interface, made with the very schemas and functions of real answers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from registry.bundle.cases import KNOWN, CaseInput
from registry.bundle.conclusions import Conclusions, NodeRule
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.evaluation import Evaluation, GroupCounts
from registry.bundle.labels import ICD10, SNOMED_CT, Coding, Label, short
from registry.bundle.manifest import BundleManifest, Conformal, Lineage, ModelFile
from registry.bundle.pictures.rule import PictureRule
from registry.records import Release, Version
from registry.views.card import Entry, release_card
from serving.protocol.fields import example
from serving.protocol.outcomes import GivenOutcome, OutcomeTaken
from serving.protocol.problems import (
    BodyTooLarge,
    Busy,
    DeadlinePassed,
    Draining,
    InvalidParameter,
    KeyMissing,
    MalformedRequest,
    NoDecoder,
    NotAnImage,
    NothingKept,
    NothingServed,
    OutcomeKnown,
    OutcomesNotTaken,
    PictureTooCostly,
    ProblemResponse,
    ScopeMissing,
    TooManyRequests,
    UnknownDiagnosis,
    UnknownModel,
    WrongMediaType,
    problem_response,
)
from serving.protocol.schemas import (
    Card,
    Diagnosis,
    Finding,
    Inputs,
    MissingInput,
    Models,
    Readiness,
    Reason,
    ServedModel,
    ServedPattern,
    ServedVersion,
)

_DIAGNOSIS: Final = example(Diagnosis)
_DIGEST: Final = _DIAGNOSIS.model.digest
_ICD10: Final = Coding(
    system=ICD10,
    version="2019",
    code="C43.9",
    display="Malignant melanoma of skin, unspecified",
    certain=True,
)
_SNOMED_CT: Final = Coding(
    system=SNOMED_CT,
    version="http://snomed.info/sct/900000000000207008/version/20250201",
    code="93655004",
    display="Malignant melanoma of skin",
)
_MELANOMA: Final = (_ICD10, _SNOMED_CT)
_DECLARED: Final = Reason(
    code="declared",
    text="A skin tone 5 (fitzpatrick) was declared: version 3, which is for skin tones V, VI (fitzpatrick), "
    "answered.",
)
_BLURRED: Final = (
    "The picture is too blurred. Wipe the lens, hold the camera still and let it focus on the lesion."
)

OUTCOME: Final = GivenOutcome(label="MEL", confirmed_by="histopathology", date="2026-03-31")
"""An outcome."""

TAKEN: Final = OutcomeTaken(id=_DIAGNOSIS.id, taken="new")
"""The answer to it."""

PARAMETERS: Final[Mapping[str, Any]] = {
    "skin_tone": "V",
    "skin_tone_scale": "fitzpatrick",
    "model": "skin-lesion",
    "top": 3,
    "image_kind": "close-up",
    "explain": "true",
}
"""One value of each parameter."""

REQUESTS: Final[Mapping[str, str]] = {
    "the picture is the body": "curl --data-binary @lesion.jpg -H 'Content-Type: image/jpeg' "
    "'http://localhost:3000/v1/diagnoses?skin_tone=V'",
    "a photograph in a DICOM file": "curl --data-binary @lesion.dcm -H 'Content-Type: application/dicom' "
    "'http://localhost:3000/v1/diagnoses?skin_tone=V'",
    "a form": "curl -F 'image=@lesion.jpg;type=image/jpeg' -F skin_tone=V http://localhost:3000/v1/diagnoses",
    "a case": "curl -F 'close_up=@close.jpg;type=image/jpeg' -F 'dermoscopic=@derm.jpg;type=image/jpeg' "
    "-F age=70 -F site=trunk http://localhost:3000/v1/diagnoses",
}
"""Whole requests: a document in JSON cannot hold a picture as an example of a body."""

CASE: Final[Mapping[str, str | list[str]]] = {
    "close_up": ["(the bytes of a picture)"],
    "dermoscopic": ["(the bytes of a picture)"],
    "age": "70",
    "site": "trunk",
    "skin_tone": "V",
}
"""A form with a case."""

PROBLEMS: Final[Mapping[str, Sequence[ProblemResponse]]] = {
    "400": (
        NotAnImage("9 bytes that are no picture: JPEG, PNG and WebP are accepted, told by their content"),
        MalformedRequest("the connection ended before the picture did; send it again"),
    ),
    "401": (KeyMissing("send an API key: Authorization: Bearer KEY"),),
    "403": (ScopeMissing("the API key is for read; this needs one for diagnose"),),
    "404": (
        UnknownModel("no model 'skin' is served; did you mean skin-lesion?"),
        UnknownDiagnosis("no answer of this id is kept for whoever gives the outcome; check the id"),
        NothingKept("this service keeps no answers to be judged"),
    ),
    "409": (OutcomeKnown("another outcome of this answer is known (NV, dermatologist, 2026-03-31)"),),
    "413": (
        BodyTooLarge("the picture has more than 20,971,520 bytes; send a smaller copy"),
        PictureTooCostly("decoding the picture would take some 12 seconds of a core; at most 10 are given"),
    ),
    "415": (WrongMediaType("the picture is PNG, but declared as image/jpeg; declare what it is"),),
    "422": (
        InvalidParameter(
            "skin tone '7' is not on the scale fitzpatrick; allowed: 1, 2, 3, 4, 5, 6 (or I to VI), or empty"
        ),
    ),
    "429": (TooManyRequests("the API key has made as many requests as it may; try again in 2 seconds"),),
    "503": (
        NothingServed("no model has been promoted to production"),
        OutcomesNotTaken("the outcome cannot be kept at the moment; send it again later"),
        Busy("as many pictures are waiting as may; try again"),
        NoDecoder("no process can be started to decode the picture in; try again"),
        DeadlinePassed("the answer was not ready in time; try again"),
        Draining("the service is ending; try again"),
    ),
}
"""What each status may be about."""


def diagnoses() -> dict[str, Diagnosis]:
    """A diagnosis of each decision, and one of a case."""
    return {
        "report": _diagnosis(
            "report",
            0.71,
            Reason(
                code="confident",
                text="Melanoma is concluded: its probability is 0.710, and of 102 calibration lesions of "
                "which it was concluded 3 were something else, at most 7.4 %.",
            ),
        ),
        "refer": _diagnosis("refer", 0.52, example(Reason)),
        "retake": _diagnosis("retake", 0.71, Reason(code="blurred", text=_BLURRED)),
        "case": _diagnosis(
            "refer", 0.52, example(Reason), inputs=example(Inputs), would_help=[example(MissingInput)]
        ),
    }


def _diagnosis(decision: str, confidence: float, ground: Reason, **of_case: Any) -> Diagnosis:
    bad = decision == "retake"
    return example(
        Diagnosis,
        **({"triage": None, "triage_evidence": None} if bad else {}),
        **({"conclusion": None} if decision != "report" else {}),
        decision=decision,
        reasons=[ground, _DECLARED],
        findings=[
            example(Finding, probability=confidence, coding=short(_MELANOMA)),
            example(
                Finding,
                code="NV",
                name="Melanocytic nevus",
                malignancy="benign",
                probability=round(1 - confidence, 2),
                coding={"icd10": "D22.9"},
            ),
        ],
        malignancy={"probability": confidence, "threshold": 0.2, "above": True},
        quality={"acceptable": not bad, "issues": [_BLURRED] if bad else []},
        **of_case,
    )


def models() -> Models:
    """A model with a version for everybody and one for dark skin."""
    return Models(
        models=[
            ServedModel(
                name="skin-lesion",
                release=7,
                alias="production",
                labels=["MEL", "NV"],
                codings={"MEL": list(_MELANOMA), "NV": []},
                versions=[
                    ServedVersion(
                        version=1,
                        subgroup="global",
                        scale=None,
                        skin_tones=[],
                        digest=_DIGEST,
                        case=CaseInput(
                            slots=2, kinds=("close-up", "dermoscopic"), facts=tuple(KNOWN.values())
                        ),
                        patterns=[
                            ServedPattern(
                                pattern="close-up+dermoscopic+some context",
                                promised=True,
                                set_size=1.8,
                                reported=0.7,
                            )
                        ],
                    ),
                    ServedVersion(
                        version=3,
                        subgroup="dark",
                        scale="fitzpatrick",
                        skin_tones=["V", "VI"],
                        digest=_DIGEST,
                        tones={"fitzpatrick": ["V", "VI"]},
                    ),
                ],
            )
        ]
    )


def card() -> Card:
    """The card of a version for everybody, as the function that makes cards makes it."""
    subgroups = {
        name: GroupCounts(n=50, right=right, intervals={"accuracy": (right / 50 - 0.12, right / 50 + 0.1)})
        for name, right in (("light", 42), ("dark", 40))
    }
    manifest = BundleManifest(
        model="skin-lesion",
        file=ModelFile.of(b""),
        labels=(
            Label(
                code="MEL",
                name="Melanoma",
                malignancy="malignant",
                codings=_MELANOMA,
            ),
            Label(code="NV", name="Melanocytic nevus", malignancy="benign"),
        ),
        picture=PictureRule(size=224),
        conformal=Conformal(
            alpha=0.1, threshold_bin=int(LOGIT_BINS.bin(np.array(0.2))), n=412, guarantee="global"
        ),
        conclusions=Conclusions(
            nodes=(
                NodeRule(
                    level="diagnosis",
                    code="MEL",
                    threshold_bin=int(LOGIT_BINS.bin(np.array(0.55))),
                    n=102,
                    wrong=3,
                    risk_high=0.074,
                ),
            )
        ),
        evaluation=Evaluation(all=GroupCounts(n=100, right=82), by_subgroup=subgroups),
        lineage=Lineage(job=_DIGEST, recipe="fedauto", seed=0, code_version="0.1.0"),
    )
    version = Version("skin-lesion", 1, _DIGEST, manifest.subgroup, _DIAGNOSIS.created)
    release = Release(7, "skin-lesion", (version,))
    made = release_card([Entry.of(version, manifest)], release=release, alias="production")
    return Card.model_validate(made)


def readiness() -> Readiness:
    """A service that serves one model."""
    return Readiness(status="ready", models=["skin-lesion"], troubles=[])


def problem(one: ProblemResponse) -> dict[str, Any]:
    """The document that a problem is answered with."""
    document: dict[str, Any] = json.loads(bytes(problem_response(one, _DIAGNOSIS.id).body))
    return document
