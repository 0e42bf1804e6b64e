"""The schema of a diagnosis: what an app may rely on.

A field of a diagnosis is defined only here, with its description and an example. The description
of the interface follows from it, and by its `Fact` the component in FHIR and the row on the page.

Triage in sentences: who has to see the lesion, and what that rests on, for the page and FHIR.
"""

from datetime import UTC, datetime
from math import ceil
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from registry.bundle.decision import Level
from registry.bundle.labels import Malignancy
from registry.bundle.manifest import Guarantee
from serving.protocol.fields import PROBABILITY, Coded, Fact, Figure
from serving.protocol.parameters import Route

DISCLAIMER = (
    "Research software, not a medical device. This is no medical advice; a clinician has to judge the lesion."
)


class Answer(BaseModel):
    """A part of an answer, which does not change once made."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class KindMissed(Answer):
    """How many lesions of one kind of malignancy are ruled out."""

    kind: Annotated[str, Field(description="of malignancy", examples=["melanoma"])]
    n: Annotated[int, Field(description="how many calibration lesions of it there are", examples=[113])]
    missed: Annotated[int, Field(description="how many of them are ruled out", examples=[4])]
    high: Annotated[
        float,
        Field(
            description="the upper limit of that share; over `limit` where the kind has too few lesions",
            examples=[0.08],
        ),
        Fact(PROBABILITY),
    ]


class Missed(Answer):
    """What may be missed of each kind of malignancy, and what is."""

    limit: Annotated[
        float,
        Field(description="the share of each kind of malignancy that may be ruled out", examples=[0.1]),
        Fact(PROBABILITY),
    ]
    kinds: Annotated[
        list[KindMissed],
        Field(description="what is missed of each kind; empty where one has too few lesions to be disclosed"),
    ]


class FalseAlarms(Answer):
    """How many lesions that are not malignant may be urgent, and how many are."""

    limit: Annotated[
        float,
        Field(description="the share of lesions that are not malignant that may be urgent", examples=[0.1]),
        Fact(PROBABILITY),
    ]
    n: Annotated[int, Field(description="how many calibration lesions are not malignant", examples=[512])]
    seen: Annotated[int, Field(description="how many of them are urgent", examples=[38])]
    high: Annotated[
        float, Field(description="the upper limit of that share", examples=[0.097]), Fact(PROBABILITY)
    ]


class PredictiveValues(Answer):
    """What triage predicts at the prevalence that was stated for the place, by lower limits."""

    prevalence: Annotated[
        float,
        Field(description="the share of lesions that are malignant, as stated", examples=[0.08]),
        Fact(PROBABILITY),
    ]
    negative: Annotated[
        float | None,
        Field(
            description="of lesions that are ruled out, the share that is not malignant; null where none is",
            examples=[0.97],
        ),
        Fact(PROBABILITY),
    ]
    positive: Annotated[
        float | None,
        Field(
            description="of urgent lesions, the share that is malignant; null where none is", examples=[0.27]
        ),
        Fact(PROBABILITY),
    ]
    words: Annotated[
        str,
        Field(
            description="the same as a sentence, with what is assumed",
            examples=[
                "Where 8 % of lesions are malignant, as was stated for this place, at least 97 % of those "
                "ruled out are not malignant. Lesions of each class are assumed to look as in calibration."
            ],
        ),
    ]


class TriageEvidence(Answer):
    """What was shown of triage in calibration."""

    guarantee: Annotated[
        Guarantee,
        Field(
            description="for whom the limits were shown: `subgroup`, those of the declared tone; `global`, "
            "all tones together; `none`, not for this lesion",
            examples=["subgroup"],
        ),
        Fact(fhir=Coded("triage-guarantee", "For whom the limits of triage were shown")),
    ]
    basis: Annotated[
        Literal["split", "cross-fitted"],
        Field(
            description="`split`: on lesions kept for calibration, and exact; `cross-fitted`: on training "
            "lesions, each scored by a model not trained on it, and nominal for the model that answered",
            examples=["split"],
        ),
        Fact(fhir=Coded("triage-basis", "Which lesions the limits of triage were shown on")),
    ]
    confidence: Annotated[
        float,
        Field(description="how sure each limit is", examples=[0.95]),
        Fact(PROBABILITY, fhir=Coded("triage-confidence", "How sure each limit of triage is")),
    ]
    missed: Annotated[Missed, Field(description="malignant lesions that are ruled out")]
    false_alarms: Annotated[FalseAlarms, Field(description="lesions that are urgent and not malignant")]
    predictive: Annotated[
        PredictiveValues | None,
        Field(description="what is predicted; null where no prevalence was stated for the tone"),
        Fact(optional=True),
    ] = None


class Conclusion(Answer):
    """What is said of the lesion, at the finest level at which it is sure."""

    level: Annotated[
        Literal["diagnosis", "group", "malignancy"],
        Field(
            description="of the tree of diagnoses: a single one, a group of them, or malignant or not",
            examples=["diagnosis"],
        ),
    ]
    code: Annotated[str, Field(description="of the class, or of the group or side", examples=["MEL"])]
    name: Annotated[str, Field(description="its name", examples=["Melanoma"])]
    malignant: Annotated[
        bool, Field(description="whether all of its classes are malignant; else none is", examples=[True])
    ]
    probability: Annotated[
        float,
        Field(ge=0, le=1, description="of all its classes together, calibrated", examples=[0.71]),
        Fact(PROBABILITY),
    ]
    n: Annotated[int, Field(description="of how many calibration lesions it was concluded", examples=[102])]
    wrong: Annotated[int, Field(description="of how many of them wrongly", examples=[3])]
    risk_high: Annotated[
        float, Field(description="the upper limit of that share", examples=[0.074]), Fact(PROBABILITY)
    ]
    basis: Annotated[
        Literal["split", "cross-fitted"],
        Field(description="of which lesions, as in `triage_evidence`", examples=["cross-fitted"]),
    ]


class AnsweringModel(Answer):
    """The version that answered, and why it was this one."""

    name: Annotated[str, Field(description="the model's name in the registry", examples=["skin-lesion"])]
    version: Annotated[int, Field(description="its version there", examples=[3])]
    subgroup: Annotated[
        str,
        Field(
            description="the subgroup that this version is for; `global` is the global model",
            examples=["dark"],
        ),
        Fact(fhir=Coded("subgroup", "Subgroup it is for")),
    ]
    digest: Annotated[str, Field(description="of its bundle, `sha256:…`", examples=["sha256:" + "0" * 64])]
    route: Annotated[
        Route,
        Field(
            description="why this one answered; every route but `declared` means the global model, "
            "and no guarantee for the subgroup",
            examples=["declared"],
        ),
    ]


class Finding(Answer):
    """One class with its probability."""

    code: Annotated[str, Field(description="its short code (`MEL`)", examples=["MEL"])]
    name: Annotated[str, Field(description="its name (`Melanoma`)", examples=["Melanoma"])]
    malignancy: Annotated[
        Malignancy,
        Field(description="its kind", examples=["malignant"]),
        Fact(fhir=Coded("malignancy", "Malignancy of the class")),
    ]
    probability: Annotated[
        float, Field(ge=0, le=1, description="from 0 to 1, calibrated", examples=[0.71]), Fact(PROBABILITY)
    ]
    coding: Annotated[
        dict[str, str],
        Field(description='its codes in other systems (`{"icd10": "C43.9"}`)', examples=[{"icd10": "C43.9"}]),
    ]


class PredictionSet(Answer):
    """The classes that hold the truth as often as `coverage` says, for whom `guarantee` says."""

    codes: Annotated[
        list[str],
        Field(
            description="of the classes that are possible, most probable first; may be empty",
            examples=[["MEL", "NV"]],
        ),
    ]
    coverage: Annotated[
        float,
        Field(description="the share of pictures whose set is meant to hold the right class", examples=[0.9]),
        Fact(PROBABILITY, fhir=Coded("coverage", "Coverage aimed at")),
    ]
    guarantee: Annotated[
        Guarantee,
        Field(
            description="for whom that is promised; with `none` the set holds every class and nothing is "
            "promised",
            examples=["subgroup"],
        ),
        Fact(fhir=Coded("guarantee", "For whom the coverage is promised")),
    ]
    calibration_n: Annotated[
        int,
        Field(description="how many lesions the promise rests on", examples=[412]),
        Fact(fhir=Coded("calibration-lesions", "Lesions that the promise rests on")),
    ]


class MalignancyRisk(Answer):
    """The probability that the lesion is malignant; null where no class of the model is."""

    probability: Annotated[
        float | None,
        Field(
            description="the sum over malignant classes; null where no class of the model is malignant",
            examples=[0.71],
        ),
        Fact(PROBABILITY, page=Figure("Malignant", "probability, all malignant classes together")),
    ]
    threshold: Annotated[
        float | None,
        Field(
            description="the working point: from it on a lesion is suspicious; null where the version has "
            "none, and then all below are",
            examples=[0.2],
        ),
        Fact(PROBABILITY, page=Figure("Suspicious", "or more: the working point"), optional=True),
    ] = None
    above: Annotated[
        bool | None,
        Field(description="whether the lesion is suspicious; it is then never ruled out", examples=[True]),
        Fact(optional=True),
    ] = None
    sensitivity: Annotated[
        float | None,
        Field(
            description="the share of malignant test pictures that were suspicious, in the subgroup that "
            "answers",
            examples=[0.94],
        ),
        Fact(
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
        Field(description="the share of other test pictures there that were not", examples=[0.61]),
        Fact(
            PROBABILITY,
            fhir=Coded("specificity", "Specificity at the working point, on test pictures"),
            page=Figure("Others not suspicious", "of the other test pictures, at the working point"),
            optional=True,
        ),
    ] = None
    n: Annotated[
        int | None,
        Field(description="how many malignant test pictures the sensitivity rests on", examples=[117]),
        Fact(
            fhir=Coded("malignant-test-pictures", "Malignant test pictures that the sensitivity rests on"),
            optional=True,
        ),
    ] = None


class Quality(Answer):
    """Whether the picture can be judged, and what is wrong with it."""

    acceptable: Annotated[
        bool, Field(description="where it is false, the decision is `retake`", examples=[True])
    ]
    issues: Annotated[
        list[str], Field(description="what is wrong with the picture, and what to do", examples=[[]])
    ]


class Reason(Answer):
    """Why the decision is this one, or why this version answered: a code for programs, a text for people."""

    code: Annotated[
        str,
        Field(
            description="for programs, such as `low-confidence`; a newer service may have new ones",
            examples=["low-confidence"],
        ),
    ]
    text: Annotated[
        str,
        Field(
            description="for people",
            examples=[
                "No conclusion is sure enough for this lesion: nothing malignant, and nothing benign where "
                "malignancy is not ruled out."
            ],
        ),
    ]


class Inputs(Answer):
    """What was used of a case: its pictures and facts, and what is promised for what was given."""

    pictures: Annotated[
        list[str],
        Field(
            description="the kind of each picture: `close-up`, `dermoscopic`, `overview` or `unknown`",
            examples=[["close-up", "dermoscopic"]],
        ),
    ]
    facts: Annotated[
        dict[str, str],
        Field(
            description="the facts that were used, as they were understood",
            examples=[{"age": "70", "site": "trunk"}],
        ),
    ]
    pattern: Annotated[
        str,
        Field(
            description="which pictures and how many of the facts were given: the decision is by the rules "
            "of such cases",
            examples=["close-up+dermoscopic+some context"],
        ),
        Fact(fhir=Coded("pattern", "What was given of the case")),
    ]
    promised: Annotated[
        bool,
        Field(
            description="whether a coverage is promised for such cases; where it is false, the set holds "
            "every class",
            examples=[True],
        ),
        Fact(fhir=Coded("promised", "Whether a coverage is promised for what was given")),
    ]


class MissingInput(Answer):
    """Something that was not given of a case and would help, by the figures of calibration."""

    missing: Annotated[
        list[str], Field(description="one kind of picture, or the facts that are missing", examples=[["sex"]])
    ]
    fewer_classes: Annotated[
        float,
        Field(
            description="by how many classes the mean prediction set of cases with it was smaller",
            examples=[0.2],
        ),
    ]
    more_reported: Annotated[
        float,
        Field(description="by how much the share of reported cases was larger with it", examples=[0.1]),
        Fact(PROBABILITY),
    ]


class PictureMap(Answer):
    """Where the model looked in one picture."""

    box: Annotated[
        list[float],
        Field(
            description="left, upper, right and lower edge of what the model saw of the picture, as shares "
            "of its width and height as it is looked at, after the turn that EXIF asks for",
            examples=[[0.0, 0.0, 1.0, 1.0]],
        ),
    ]
    grid: Annotated[
        list[list[float]],
        Field(
            description="the cells of the box in rows from above, each from 0 to 1, the strongest cell of "
            "all pictures",
            examples=[[[0.0, 0.1], [0.4, 1.0]]],
        ),
    ]
    png: Annotated[
        str,
        Field(
            description="the same as a transparent PNG in base64, to be laid over the whole picture as it is "
            "looked at, whatever its size",
            examples=["iVBORw0KGgo="],
        ),
    ]


class Explanation(Answer):
    """Where the model looked for its first finding; not validated."""

    code: Annotated[
        str | None,
        Field(
            description="of the class whose maps they are, the most probable; null without maps",
            examples=["MEL"],
        ),
    ]
    maps: Annotated[
        list[PictureMap],
        Field(description="of each picture, in the order in which they were sent; empty without maps"),
    ]
    limits: Annotated[
        list[str],
        Field(
            description="what the maps do not say, to be shown with them",
            examples=[
                ["Not validated: it is not shown that this model's answers depend on where its maps point."]
            ],
        ),
    ]
    why_not: Annotated[
        str | None, Field(description="why there are no maps; null with maps", examples=[None])
    ] = None


class Diagnosis(Answer):
    """The answer to `POST /v1/diagnoses`."""

    id: Annotated[str, Field(description="of this answer", examples=["6f2b8c1e-4d5a-4f0b-9a57-0c1f7d3e2b90"])]
    created: Annotated[
        datetime, Field(description="when it was given", examples=[datetime(2026, 1, 1, tzinfo=UTC)])
    ]
    triage: Annotated[
        Level | None,
        Field(
            description="`urgent`: to be seen first; `ruled-out`: below the threshold at which few of each "
            "kind of malignancy are missed; `routine`: everything else, a clinician looks; null where the "
            "version has no triage, and with `retake`",
            examples=["urgent"],
        ),
        Fact(optional=True),
    ]
    triage_evidence: Annotated[
        TriageEvidence | None,
        Field(description="what was shown of triage in calibration; null where `triage` is"),
        Fact(optional=True),
    ]
    conclusion: Annotated[
        Conclusion | None,
        Field(description="what is said of the lesion; null where nothing is sure, and with `retake`"),
        Fact(optional=True),
    ]
    decision: Annotated[
        Literal["report", "refer", "retake"],
        Field(
            description="`report`: something is concluded; `refer`: a clinician has to look; `retake`: the "
            "picture is too bad to say anything",
            examples=["report"],
        ),
    ]
    reasons: Annotated[
        list[Reason],
        Field(
            description="why this decision, and last why this version answered",
            examples=[
                [
                    {"code": "confident", "text": "Melanoma is concluded: its probability is 0.710."},
                    {
                        "code": "declared",
                        "text": "A skin tone 5 (fitzpatrick) was declared.",
                    },
                ]
            ],
        ),
        Fact(optional=True),
    ]
    model: Annotated[AnsweringModel, Field(description="the version that answered, and why that one")]
    findings: Annotated[list[Finding], Field(description="the classes, most probable first")]
    prediction_set: Annotated[PredictionSet, Field(description="the classes that are possible")]
    malignancy: Annotated[
        MalignancyRisk, Field(description="how probable it is that the lesion is malignant")
    ]
    quality: Annotated[Quality, Field(description="whether the picture is good enough")]
    warnings: Annotated[
        list[str], Field(description="what a clinician has to know, one sentence each", examples=[[]])
    ]
    disclaimer: Annotated[str, Field(description="to be shown with every diagnosis")] = DISCLAIMER
    inputs: Annotated[
        Inputs | None,
        Field(
            exclude_if=lambda inputs: inputs is None,
            description="what was used of a case; not there where the model takes single pictures",
            examples=[None],
        ),
        Fact(optional=True),
    ] = None
    would_help: Annotated[
        list[MissingInput],
        Field(
            exclude_if=lambda missing: not missing,
            description="what is missing of a case that would help, best first; not there where nothing is",
            examples=[[]],
        ),
        Fact(optional=True),
    ] = []
    explanation: Annotated[
        Explanation | None,
        Field(
            exclude_if=lambda explanation: explanation is None,
            description="where the model looked; absent unless asked for (`explain=true`)",
            examples=[None],
        ),
        Fact(optional=True),
    ] = None


HEADLINES: Final[dict[Level, str]] = {
    "urgent": "Urgent: a clinician has to see this lesion before others",
    "routine": "Routine: a clinician looks",
    "ruled-out": "Ruled out: of 100 lesions of each kind of malignancy at most {limit} are missed",
}
_FOR_WHOM: Final = {
    "subgroup": "for people with the declared skin tone",
    "global": "over all skin tones together, not for each of them",
}
_BASES: Final = {
    "split": "on lesions kept for calibration",
    "cross-fitted": (
        "on training lesions, each scored by a model not trained on it; exact for those models, nominal for "
        "the one that answered"
    ),
}

_BY_PREVALENCE: Final = {
    "urgent": "How many urgent lesions are malignant depends on how common malignancy is where this is used.",
    "ruled-out": (
        "How many lesions ruled out are malignant depends on how common malignancy is where this is used."
    ),
}


def headline(diagnosis: Diagnosis) -> str | None:
    """Who has to see the lesion; None without triage."""
    if diagnosis.triage is None or diagnosis.triage_evidence is None:
        return None
    missed = diagnosis.triage_evidence.missed
    worst = max((one.high for one in missed.kinds), default=missed.limit)
    return HEADLINES[diagnosis.triage].format(limit=_of_100(worst))


def shown(diagnosis: Diagnosis) -> list[str]:
    """What was shown of triage by kind, for whom and on what; what decided the level comes first."""
    evidence = diagnosis.triage_evidence
    if evidence is None:
        return []
    if evidence.guarantee == "none":
        return ["Nothing was shown of this triage: the version was not calibrated for such a lesion."]
    urgent, missed = _false_alarms(evidence), _missed(evidence)
    return [
        *(urgent + missed if diagnosis.triage == "urgent" else missed + urgent),
        *_predictive(diagnosis.triage, evidence),
        f"Shown {_FOR_WHOM[evidence.guarantee]}, {_BASES[evidence.basis]}; each limit holds with "
        f"{100 * evidence.confidence:g} % confidence.",
    ]


def _predictive(level: Level | None, evidence: TriageEvidence) -> list[str]:
    """Predictive values where the prevalence was stated, else that they depend on it."""
    if evidence.predictive is not None:
        return [evidence.predictive.words]
    return [said for name, said in _BY_PREVALENCE.items() if name == level]


def _missed(evidence: TriageEvidence) -> list[str]:
    """A sentence for each kind; none where nothing can be ruled out."""
    kinds, limit = evidence.missed.kinds, evidence.missed.limit
    if any(one.high > limit for one in kinds):
        return []
    return [
        f"{one.kind[:1].upper()}{one.kind[1:]}: at most {_of_100(one.high)} of 100 are ruled out "
        f"({one.missed} of {one.n} were)."
        for one in kinds
    ]


def _false_alarms(evidence: TriageEvidence) -> list[str]:
    """A sentence; none where nothing can be urgent."""
    seen = evidence.false_alarms
    if seen.high > seen.limit:
        return []
    return [f"Not malignant: at most {_of_100(seen.high)} of 100 are urgent ({seen.seen} of {seen.n} were)."]


def _of_100(share: float) -> int:
    """An upper limit as a number of 100, never below it."""
    return ceil(round(100 * share, 6))
