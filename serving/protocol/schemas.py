"""The shape of a diagnosis and of the lists beside it: what an app may rely on.

A field of a diagnosis is defined here and nowhere else. Its `Fact` says the rest: the table in the docs, the
client's types, the examples, the component in FHIR and the row on the page follow from it.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from registry.bundle.cases import CaseInput
from registry.bundle.decision import Level
from registry.bundle.labels import Coding, Malignancy
from registry.bundle.manifest import Guarantee
from serving.protocol.fields import PROBABILITY, Coded, Fact, Figure
from serving.protocol.routing import Route

DISCLAIMER = (
    "Research software, not a medical device. This is no medical advice; a clinician has to judge the lesion."
)


class Answer(BaseModel):
    """A part of an answer, which does not change once made."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class KindMissed(Answer):
    """How many lesions of one kind of malignancy are ruled out."""

    kind: Annotated[str, Fact("of malignancy", "melanoma")]
    n: Annotated[int, Fact("how many calibration lesions of it there are", 113)]
    missed: Annotated[int, Fact("how many of them are ruled out", 4)]
    high: Annotated[
        float,
        Fact(
            "the upper limit of that share; over `limit` where the kind has too few lesions",
            0.08,
            PROBABILITY,
        ),
    ]


class Missed(Answer):
    """What may be missed of each kind of malignancy, and what is."""

    limit: Annotated[
        float, Fact("the share of each kind of malignancy that may be ruled out", 0.1, PROBABILITY)
    ]
    kinds: Annotated[
        list[KindMissed],
        Fact("what is missed of each kind; empty where one has too few lesions to be disclosed"),
    ]


class FalseAlarms(Answer):
    """How many lesions that are not malignant may be urgent, and how many are."""

    limit: Annotated[
        float, Fact("the share of lesions that are not malignant that may be urgent", 0.1, PROBABILITY)
    ]
    n: Annotated[int, Fact("how many calibration lesions are not malignant", 512)]
    seen: Annotated[int, Fact("how many of them are urgent", 38)]
    high: Annotated[float, Fact("the upper limit of that share", 0.097, PROBABILITY)]


class PredictiveValues(Answer):
    """What triage predicts at the prevalence that was stated for the place, by lower limits."""

    prevalence: Annotated[
        float, Fact("the share of lesions that are malignant, as stated", 0.08, PROBABILITY)
    ]
    negative: Annotated[
        float | None,
        Fact(
            "of lesions that are ruled out, the share that is not malignant; null where none is",
            0.97,
            PROBABILITY,
        ),
    ]
    positive: Annotated[
        float | None,
        Fact("of urgent lesions, the share that is malignant; null where none is", 0.27, PROBABILITY),
    ]
    words: Annotated[
        str,
        Fact(
            "the same as a sentence, with what is assumed",
            "Where 8 % of lesions are malignant, as was stated for this place, at least 97 % of those ruled "
            "out are not malignant. Lesions of each class are assumed to look as in calibration.",
        ),
    ]


class TriageEvidence(Answer):
    """What was shown of triage in calibration."""

    guarantee: Annotated[
        Guarantee,
        Fact(
            "for whom the limits were shown: `subgroup`, those of the declared tone; `global`, all tones "
            "together; `none`, not for this lesion",
            "subgroup",
            fhir=Coded("triage-guarantee", "For whom the limits of triage were shown"),
        ),
    ]
    basis: Annotated[
        Literal["split", "cross-fitted"],
        Fact(
            "`split`: on lesions kept for calibration, and exact; `cross-fitted`: on training lesions, each "
            "scored by a model not trained on it, and nominal for the model that answered",
            "split",
            fhir=Coded("triage-basis", "Which lesions the limits of triage were shown on"),
        ),
    ]
    confidence: Annotated[
        float,
        Fact(
            "how sure each limit is",
            0.95,
            PROBABILITY,
            fhir=Coded("triage-confidence", "How sure each limit of triage is"),
        ),
    ]
    missed: Annotated[Missed, Fact("malignant lesions that are ruled out")]
    false_alarms: Annotated[FalseAlarms, Fact("lesions that are urgent and not malignant")]
    predictive: Annotated[
        PredictiveValues | None,
        Fact("what is predicted; null where no prevalence was stated for the tone", optional=True),
    ] = None


class Conclusion(Answer):
    """What is said of the lesion, at the finest level at which it is sure."""

    level: Annotated[
        Literal["diagnosis", "group", "malignancy"],
        Fact("of the tree of diagnoses: a single one, a group of them, or malignant or not", "group"),
    ]
    code: Annotated[str, Fact("of the class, or of the group or side", "keratinocyte cancer")]
    name: Annotated[str, Fact("its name", "keratinocyte cancer")]
    malignant: Annotated[bool, Fact("whether all of its classes are malignant; else none is", True)]
    probability: Annotated[
        float, Field(ge=0, le=1), Fact("of all its classes together, calibrated", 0.87, PROBABILITY)
    ]
    n: Annotated[int, Fact("of how many calibration lesions it was concluded", 661)]
    wrong: Annotated[int, Fact("of how many of them wrongly", 40)]
    risk_high: Annotated[float, Fact("the upper limit of that share", 0.088, PROBABILITY)]
    basis: Annotated[
        Literal["split", "cross-fitted"], Fact("of which lesions, as in `triage_evidence`", "cross-fitted")
    ]


class AnsweringModel(Answer):
    """The version that answered, and why it was this one."""

    name: Annotated[str, Fact("the model's name in the registry", "skin-lesion")]
    version: Annotated[int, Fact("its version there", 3)]
    subgroup: Annotated[
        str,
        Fact(
            "whom this version is for; `global` is everybody",
            "dark",
            fhir=Coded("subgroup", "Subgroup it is for"),
        ),
    ]
    digest: Annotated[str, Fact("of its bundle, `sha256:…`", "sha256:" + "0" * 64)]
    route: Annotated[
        Route,
        Fact(
            "why this one answered; every route but `declared` means the model for everybody, and no "
            "promise for the subgroup",
            "declared",
        ),
    ]


class Finding(Answer):
    """One class with its probability."""

    code: Annotated[str, Fact("its short code (`MEL`)", "MEL")]
    name: Annotated[str, Fact("its name (`Melanoma`)", "Melanoma")]
    malignancy: Annotated[
        Malignancy, Fact("its kind", "malignant", fhir=Coded("malignancy", "Malignancy of the class"))
    ]
    probability: Annotated[float, Field(ge=0, le=1), Fact("from 0 to 1, calibrated", 0.52, PROBABILITY)]
    coding: Annotated[
        dict[str, str], Fact('its codes in other systems (`{"icd10": "C43.9"}`)', {"icd10": "C43.9"})
    ]


class PredictionSet(Answer):
    """The classes that hold the truth as often as `coverage` says, for whom `guarantee` says."""

    codes: Annotated[
        list[str],
        Fact("of the classes that are possible, most probable first; may be empty", ["MEL", "NV"]),
    ]
    coverage: Annotated[
        float,
        Fact(
            "the share of pictures whose set is meant to hold the right class",
            0.9,
            PROBABILITY,
            fhir=Coded("coverage", "Coverage aimed at"),
        ),
    ]
    guarantee: Annotated[
        Guarantee,
        Fact(
            "for whom that is promised; with `none` the set holds every class and nothing is promised",
            "subgroup",
            fhir=Coded("guarantee", "For whom the coverage is promised"),
        ),
    ]
    calibration_n: Annotated[
        int,
        Fact(
            "how many lesions the promise rests on",
            412,
            fhir=Coded("calibration-lesions", "Lesions that the promise rests on"),
        ),
    ]


class MalignancyRisk(Answer):
    """The probability that the lesion is malignant; null where no class of the model is."""

    probability: Annotated[
        float | None,
        Fact(
            "the sum over malignant classes; null where no class of the model is malignant",
            0.52,
            PROBABILITY,
            page=Figure("Malignant", "probability, all malignant classes together"),
        ),
    ]
    threshold: Annotated[
        float | None,
        Fact(
            "the working point: from it on a lesion is suspicious; null where the version has none, and "
            "then all below are",
            0.2,
            PROBABILITY,
            page=Figure("Suspicious", "or more: the working point"),
            optional=True,
        ),
    ] = None
    above: Annotated[
        bool | None,
        Fact(
            "whether the lesion is suspicious; it is then never ruled out",
            True,
            optional=True,
        ),
    ] = None
    sensitivity: Annotated[
        float | None,
        Fact(
            "the share of malignant test pictures that were suspicious, in the subgroup that answers",
            0.94,
            PROBABILITY,
            fhir=Coded("sensitivity", "Sensitivity at the working point, on test pictures"),
            page=Figure(
                "Malignant ones found",
                "of {n} malignant test pictures, at the working point",
            ),
            optional=True,
        ),
    ] = None
    specificity: Annotated[
        float | None,
        Fact(
            "the share of other test pictures there that were not",
            0.61,
            PROBABILITY,
            fhir=Coded("specificity", "Specificity at the working point, on test pictures"),
            page=Figure("Others not suspicious", "of the other test pictures, at the working point"),
            optional=True,
        ),
    ] = None
    n: Annotated[
        int | None,
        Fact(
            "how many malignant test pictures the sensitivity rests on",
            117,
            fhir=Coded("malignant-test-pictures", "Malignant test pictures that the sensitivity rests on"),
            optional=True,
        ),
    ] = None


class Quality(Answer):
    """Whether the picture can be judged, and what is wrong with it."""

    acceptable: Annotated[bool, Fact("where it is false, the decision is `retake`", True)]
    issues: Annotated[list[str], Fact("what is wrong with the picture, and what to do", [])]


class Reason(Answer):
    """Why the decision is this one, or why this version answered: a code for programs, a text for people."""

    code: Annotated[
        str,
        Fact("for programs, such as `low-confidence`; a newer service may have new ones", "low-confidence"),
    ]
    text: Annotated[
        str,
        Fact(
            "for people",
            "No conclusion is sure enough for this lesion: nothing malignant, and nothing benign where "
            "malignancy is not ruled out.",
        ),
    ]


class Inputs(Answer):
    """What was used of a case: its pictures and facts, and what is promised for what was given."""

    pictures: Annotated[
        list[str],
        Fact(
            "the kind of each picture: `close-up`, `dermoscopic`, `overview` or `unknown`",
            ["close-up", "dermoscopic"],
        ),
    ]
    facts: Annotated[
        dict[str, str],
        Fact("the facts that were used, as they were understood", {"age": "70", "site": "trunk"}),
    ]
    pattern: Annotated[
        str,
        Fact(
            "which pictures and how many of the facts were given: the decision is by the rules of such cases",
            "close-up+dermoscopic+some context",
            fhir=Coded("pattern", "What was given of the case"),
        ),
    ]
    promised: Annotated[
        bool,
        Fact(
            "whether a coverage is promised for such cases; where it is false, the set holds every class",
            True,
            fhir=Coded("promised", "Whether a coverage is promised for what was given"),
        ),
    ]


class MissingInput(Answer):
    """Something that was not given of a case and would help, by the figures of calibration."""

    missing: Annotated[list[str], Fact("one kind of picture, or the facts that are missing", ["sex"])]
    fewer_classes: Annotated[
        float, Fact("by how many classes the mean prediction set of cases with it was smaller", 0.2)
    ]
    more_reported: Annotated[
        float, Fact("by how much the share of reported cases was larger with it", 0.1, PROBABILITY)
    ]


class PictureMap(Answer):
    """Where the model looked in one picture."""

    box: Annotated[
        list[float],
        Fact(
            "left, upper, right and lower edge of what the model saw of the picture, as shares of its width "
            "and height as it is looked at, after the turn that EXIF asks for",
            [0.0, 0.0, 1.0, 1.0],
        ),
    ]
    grid: Annotated[
        list[list[float]],
        Fact(
            "the cells of the box in rows from above, each from 0 to 1, the strongest cell of all pictures",
            [[0.0, 0.1], [0.4, 1.0]],
        ),
    ]
    png: Annotated[
        str,
        Fact(
            "the same as a transparent PNG in base64, to be laid over the whole picture as it is looked at, "
            "whatever its size",
            "iVBORw0KGgo=",
        ),
    ]


class Explanation(Answer):
    """Where the model looked for its first finding; not validated."""

    code: Annotated[
        str | None, Fact("of the class whose maps they are, the most probable; null without maps", "MEL")
    ]
    maps: Annotated[
        list[PictureMap], Fact("of each picture, in the order in which they were sent; empty without maps")
    ]
    limits: Annotated[
        list[str],
        Fact(
            "what the maps do not say, to be shown beside them",
            ["Not validated: it is not shown that this model's answers depend on where its maps point."],
        ),
    ]
    why_not: Annotated[str | None, Fact("why there are no maps; null with maps", None)] = None


class Diagnosis(Answer):
    """The answer to `POST /v1/diagnoses`."""

    id: Annotated[str, Fact("of this answer", "6f2b8c1e-4d5a-4f0b-9a57-0c1f7d3e2b90")]
    created: Annotated[datetime, Fact("when it was given", datetime(2026, 1, 1, tzinfo=UTC))]
    triage: Annotated[
        Level | None,
        Fact(
            "`urgent`: to be seen first; `ruled-out`: below the threshold at which few of each kind "
            "of malignancy are missed; `routine`: everything else, a clinician looks; null where the version "
            "has no triage, and with `retake`",
            "urgent",
            optional=True,
        ),
    ]
    triage_evidence: Annotated[
        TriageEvidence | None,
        Fact("what was shown of triage in calibration; null where `triage` is", optional=True),
    ]
    conclusion: Annotated[
        Conclusion | None,
        Fact("what is said of the lesion; null where nothing is sure, and with `retake`", optional=True),
    ]
    decision: Annotated[
        Literal["report", "refer", "retake"],
        Fact(
            "`report`: something is concluded; `refer`: a clinician has to look; `retake`: the picture "
            "is too bad to say anything",
            "refer",
        ),
    ]
    reasons: Annotated[
        list[Reason], Fact("why this decision, and last why this version answered", optional=True)
    ]
    model: Annotated[AnsweringModel, Fact("the version that answered, and why that one")]
    findings: Annotated[list[Finding], Fact("the classes, most probable first")]
    prediction_set: Annotated[PredictionSet, Fact("the classes that are possible")]
    malignancy: Annotated[MalignancyRisk, Fact("how probable it is that the lesion is malignant")]
    quality: Annotated[Quality, Fact("whether the picture is good enough")]
    warnings: Annotated[list[str], Fact("what a clinician has to know, one sentence each", [])]
    disclaimer: Annotated[str, Fact("to be shown with every diagnosis")] = DISCLAIMER
    inputs: Annotated[
        Inputs | None,
        Field(exclude_if=lambda inputs: inputs is None),
        Fact("what was used of a case; not there where the model takes single pictures", None, optional=True),
    ] = None
    would_help: Annotated[
        list[MissingInput],
        Field(exclude_if=lambda missing: not missing),
        Fact(
            "what is missing of a case that would help, best first; not there where nothing is",
            [],
            optional=True,
        ),
    ] = []
    explanation: Annotated[
        Explanation | None,
        Field(exclude_if=lambda explanation: explanation is None),
        Fact("where the model looked; not there where nobody asked (`explain=true`)", None, optional=True),
    ] = None


class ServedPattern(Answer):
    """What may be given of a case, and what calibration found for such cases.

    `set_size` is the mean number of classes that are possible, `reported` the share of cases reported.
    """

    pattern: str
    promised: bool
    set_size: float | None
    reported: float | None


class ServedVersion(Answer):
    """One version that is served: whom it is for, by which tones of which scale.

    `tones` are the declared tones that are routed to it, by scale: those that its calibration had patients
    of. They are not there where it is for everybody. `scale` and `skin_tones` say the same of a version of
    one scale, and are empty where there are several. `case` says which pictures and facts it takes,
    `patterns` which of these were calibrated; they are not there where it takes single pictures.
    """

    version: int
    subgroup: str
    scale: str | None
    skin_tones: list[str]
    digest: str
    tones: Annotated[dict[str, list[str]], Field(exclude_if=lambda tones: not tones)] = {}
    case: Annotated[CaseInput | None, Field(exclude_if=lambda case: case is None)] = None
    patterns: Annotated[list[ServedPattern], Field(exclude_if=lambda patterns: not patterns)] = []


class ServedCanary(Answer):
    """A release that answers a share of the requests beside the current one, or of those of one subgroup.

    Which requests, nobody is told: every answer says its version.
    """

    release: int
    share: float
    subgroup: str | None
    versions: list[ServedVersion]


class ServedModel(Answer):
    """One model that is served, with the release that is current.

    `codings` tells, by label, its codes in other systems: whose system, which edition, and whether a
    terminologist has to look at the code before it is relied on (`certain` is false). `canary` is there while
    one answers.
    """

    name: str
    release: int
    alias: str
    labels: list[str]
    codings: dict[str, list[Coding]]
    versions: list[ServedVersion]
    canary: Annotated[ServedCanary | None, Field(exclude_if=lambda canary: canary is None)] = None


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
