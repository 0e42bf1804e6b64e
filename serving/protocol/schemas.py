"""The schema of a diagnosis: what an app may rely on.

A field of a diagnosis is defined only here, with its description and an example. The description
of the interface follows from it, and the component in FHIR and the row on the page where it is marked so.

Triage in sentences: who has to see the lesion, and what that rests on, for the page and FHIR.
"""

from datetime import UTC, datetime
from math import ceil
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from registry.bundle.decision import Level
from registry.bundle.labels import Malignancy
from registry.bundle.manifest import Guarantee
from serving.protocol.fields import Coded, Described
from serving.protocol.parameters import Route

DISCLAIMER = (
    "Research software, not a medical device. This is no medical advice; a clinician has to judge the lesion."
)


class Answer(Described):
    """A part of an answer, which does not change once made."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class KindMissed(Answer):
    """How many lesions of one kind of malignancy are ruled out."""

    kind: str = Field(examples=["melanoma"])
    """of malignancy"""
    n: int = Field(examples=[113])
    """how many calibration lesions of it there are"""
    missed: int = Field(examples=[4])
    """how many of them are ruled out"""
    high: float = Field(examples=[0.08])
    """the upper limit of that share; over `limit` where the kind has too few lesions"""


class Missed(Answer):
    """What may be missed of each kind of malignancy, and what is."""

    limit: float = Field(examples=[0.1])
    """the share of each kind of malignancy that may be ruled out"""
    kinds: list[KindMissed]
    """what is missed of each kind; empty where one has too few lesions to be disclosed"""


class FalseAlarms(Answer):
    """How many lesions that are not malignant may be urgent, and how many are."""

    limit: float = Field(examples=[0.1])
    """the share of lesions that are not malignant that may be urgent"""
    n: int = Field(examples=[512])
    """how many calibration lesions are not malignant"""
    seen: int = Field(examples=[38])
    """how many of them are urgent"""
    high: float = Field(examples=[0.097])
    """the upper limit of that share"""


class PredictiveValues(Answer):
    """What triage predicts at the prevalence that was stated for the place, by lower limits."""

    prevalence: float = Field(examples=[0.08])
    """the share of lesions that are malignant, as stated"""
    negative: float | None = Field(examples=[0.97])
    """of lesions that are ruled out, the share that is not malignant; null where none is"""
    positive: float | None = Field(examples=[0.27])
    """of urgent lesions, the share that is malignant; null where none is"""
    words: str = Field(
        examples=[
            "Where 8 % of lesions are malignant, as was stated for this place, at least 97 % of those "
            "ruled out are not malignant. Lesions of each class are assumed to look as in calibration."
        ]
    )
    """the same as a sentence, with what is assumed"""


class TriageEvidence(Answer):
    """What was shown of triage in calibration."""

    guarantee: Annotated[Guarantee, Coded("triage-guarantee", "For whom the limits of triage were shown")] = (
        Field(examples=["subgroup"])
    )
    """for whom the limits were shown: `subgroup`, those of the declared tone; `global`, all tones together;
    `none`, not for this lesion"""
    basis: Annotated[
        Literal["split", "cross-fitted"],
        Coded("triage-basis", "Which lesions the limits of triage were shown on"),
    ] = Field(examples=["split"])
    """`split`: on lesions kept for calibration, and exact; `cross-fitted`: on training lesions, each scored
    by a model not trained on it, and nominal for the model that answered"""
    confidence: Annotated[float, Coded("triage-confidence", "How sure each limit of triage is")] = Field(
        examples=[0.95]
    )
    """how sure each limit is"""
    missed: Missed
    """malignant lesions that are ruled out"""
    false_alarms: FalseAlarms
    """lesions that are urgent and not malignant"""
    predictive: PredictiveValues | None = None
    """what is predicted; null where no prevalence was stated for the tone"""


class Conclusion(Answer):
    """What is said of the lesion, at the finest level at which it is sure."""

    level: Literal["diagnosis", "group", "malignancy"] = Field(examples=["diagnosis"])
    """of the tree of diagnoses: a single one, a group of them, or malignant or not"""
    code: str = Field(examples=["MEL"])
    """of the class, or of the group or side"""
    name: str = Field(examples=["Melanoma"])
    """its name"""
    malignant: bool = Field(examples=[True])
    """whether all of its classes are malignant; else none is"""
    probability: float = Field(ge=0, le=1, examples=[0.71])
    """of all its classes together, calibrated"""
    n: int = Field(examples=[102])
    """of how many calibration lesions it was concluded"""
    wrong: int = Field(examples=[3])
    """of how many of them wrongly"""
    risk_high: float = Field(examples=[0.074])
    """the upper limit of that share"""
    basis: Literal["split", "cross-fitted"] = Field(examples=["cross-fitted"])
    """of which lesions, as in `triage_evidence`"""


class AnsweringModel(Answer):
    """The version that answered, and why it was this one."""

    name: str = Field(examples=["skin-lesion"])
    """the model's name in the registry"""
    version: int = Field(examples=[3])
    """its version there"""
    subgroup: str = Field(examples=["dark"])
    """the subgroup that this version is for; `global` is the global model"""
    digest: str = Field(examples=["sha256:" + "0" * 64])
    """of its bundle, `sha256:…`"""
    route: Route = Field(examples=["declared"])
    """why this one answered; every route but `declared` means the global model, and no guarantee for the
    subgroup"""


class Finding(Answer):
    """One class with its probability."""

    code: str = Field(examples=["MEL"])
    """its short code (`MEL`)"""
    name: str = Field(examples=["Melanoma"])
    """its name (`Melanoma`)"""
    malignancy: Annotated[Malignancy, Coded("malignancy", "Malignancy of the class")] = Field(
        examples=["malignant"]
    )
    """its kind"""
    probability: float = Field(ge=0, le=1, examples=[0.71])
    """from 0 to 1, calibrated"""
    coding: dict[str, str] = Field(examples=[{"icd10": "C43.9"}])
    """its codes in other systems (`{"icd10": "C43.9"}`)"""


class PredictionSet(Answer):
    """The classes that hold the truth as often as `coverage` says, for whom `guarantee` says."""

    codes: list[str] = Field(examples=[["MEL", "NV"]])
    """of the classes that are possible, most probable first; may be empty"""
    coverage: Annotated[float, Coded("coverage", "Coverage aimed at")] = Field(examples=[0.9])
    """the share of pictures whose set is meant to hold the right class"""
    guarantee: Annotated[Guarantee, Coded("guarantee", "For whom the coverage is promised")] = Field(
        examples=["subgroup"]
    )
    """for whom that is promised; with `none` the set holds every class and nothing is promised"""
    calibration_n: Annotated[int, Coded("calibration-lesions", "Lesions that the promise rests on")] = Field(
        examples=[412]
    )
    """how many lesions the promise rests on"""


class MalignancyRisk(Answer):
    """The probability that the lesion is malignant; null where no class of the model is."""

    probability: float | None = Field(examples=[0.71])
    """the sum over malignant classes; null where no class of the model is malignant"""
    threshold: float | None = Field(None, examples=[0.2])
    """the working point: from it on a lesion is suspicious; null where the version has none, and then all
    below are"""
    above: bool | None = Field(None, examples=[True])
    """whether the lesion is suspicious; it is then never ruled out"""
    sensitivity: Annotated[
        float | None, Coded("sensitivity", "Sensitivity at the working point, on test pictures")
    ] = Field(None, examples=[0.94])
    """the share of malignant test pictures that were suspicious, in the subgroup that answers"""
    specificity: Annotated[
        float | None, Coded("specificity", "Specificity at the working point, on test pictures")
    ] = Field(None, examples=[0.61])
    """the share of other test pictures there that were not"""
    n: Annotated[
        int | None, Coded("malignant-test-pictures", "Malignant test pictures that the sensitivity rests on")
    ] = Field(None, examples=[117])
    """how many malignant test pictures the sensitivity rests on"""


class Quality(Answer):
    """Whether the picture can be judged, and what is wrong with it."""

    acceptable: bool = Field(examples=[True])
    """where it is false, the decision is `retake`"""
    issues: list[str] = Field(examples=[[]])
    """what is wrong with the picture, and what to do"""


class Reason(Answer):
    """Why the decision is this one, or why this version answered: a code for programs, a text for people."""

    code: str = Field(examples=["low-confidence"])
    """for programs, such as `low-confidence`; a newer service may have new ones"""
    text: str = Field(
        examples=[
            "No conclusion is sure enough for this lesion: nothing malignant, and nothing benign where "
            "malignancy is not ruled out."
        ]
    )
    """for people"""


class Inputs(Answer):
    """What was used of a case: its pictures and facts, and what is promised for what was given."""

    pictures: list[str] = Field(examples=[["close-up", "dermoscopic"]])
    """the kind of each picture: `close-up`, `dermoscopic`, `overview` or `unknown`"""
    facts: dict[str, str] = Field(examples=[{"age": "70", "site": "trunk"}])
    """the facts that were used, as they were understood"""
    pattern: Annotated[str, Coded("pattern", "What was given of the case")] = Field(
        examples=["close-up+dermoscopic+some context"]
    )
    """which pictures and how many of the facts were given: the decision is by the rules of such cases"""
    promised: Annotated[bool, Coded("promised", "Whether a coverage is promised for what was given")] = Field(
        examples=[True]
    )
    """whether a coverage is promised for such cases; where it is false, the set holds every class"""


class MissingInput(Answer):
    """Something that was not given of a case and would help, by the figures of calibration."""

    missing: list[str] = Field(examples=[["sex"]])
    """one kind of picture, or the facts that are missing"""
    fewer_classes: float = Field(examples=[0.2])
    """by how many classes the mean prediction set of cases with it was smaller"""
    more_reported: float = Field(examples=[0.1])
    """by how much the share of reported cases was larger with it"""


class PictureMap(Answer):
    """Where the model looked in one picture."""

    box: list[float] = Field(examples=[[0.0, 0.0, 1.0, 1.0]])
    """left, upper, right and lower edge of what the model saw of the picture, as shares of its width and
    height as it is looked at, after the turn that EXIF asks for"""
    grid: list[list[float]] = Field(examples=[[[0.0, 0.1], [0.4, 1.0]]])
    """the cells of the box in rows from above, each from 0 to 1, the strongest cell of all pictures"""
    png: str = Field(examples=["iVBORw0KGgo="])
    """the same as a transparent PNG in base64, to be laid over the whole picture as it is looked at, whatever
    its size"""


class Explanation(Answer):
    """Where the model looked for its first finding; not validated."""

    code: str | None = Field(examples=["MEL"])
    """of the class whose maps they are, the most probable; null without maps"""
    maps: list[PictureMap]
    """of each picture, in the order in which they were sent; empty without maps"""
    limits: list[str] = Field(
        examples=[
            ["Not validated: it is not shown that this model's answers depend on where its maps point."]
        ]
    )
    """what the maps do not say, to be shown with them"""
    why_not: str | None = Field(None, examples=[None])
    """why there are no maps; null with maps"""


class Diagnosis(Answer):
    """The answer to `POST /v1/diagnoses`."""

    id: str = Field(examples=["6f2b8c1e-4d5a-4f0b-9a57-0c1f7d3e2b90"])
    """of this answer"""
    created: datetime = Field(examples=[datetime(2026, 1, 1, tzinfo=UTC)])
    """when it was given"""
    triage: Level | None = Field(examples=["urgent"])
    """`urgent`: to be seen first; `ruled-out`: below the threshold at which few of each kind of malignancy
    are missed; `routine`: everything else, a clinician looks; null where the version has no triage, and with
    `retake`"""
    triage_evidence: TriageEvidence | None
    """what was shown of triage in calibration; null where `triage` is"""
    conclusion: Conclusion | None
    """what is said of the lesion; null where nothing is sure, and with `retake`"""
    decision: Literal["report", "refer", "retake"] = Field(examples=["report"])
    """`report`: something is concluded; `refer`: a clinician has to look; `retake`: the picture is too bad to
    say anything"""
    reasons: list[Reason] = Field(
        examples=[
            [
                {"code": "confident", "text": "Melanoma is concluded: its probability is 0.710."},
                {
                    "code": "declared",
                    "text": "A skin tone 5 (fitzpatrick) was declared.",
                },
            ]
        ]
    )
    """why this decision, and last why this version answered"""
    model: AnsweringModel
    """the version that answered, and why that one"""
    findings: list[Finding]
    """the classes, most probable first"""
    prediction_set: PredictionSet
    """the classes that are possible"""
    malignancy: MalignancyRisk
    """how probable it is that the lesion is malignant"""
    quality: Quality
    """whether the picture is good enough"""
    warnings: list[str] = Field(examples=[[]])
    """what a clinician has to know, one sentence each"""
    disclaimer: str = DISCLAIMER
    """to be shown with every diagnosis"""
    inputs: Inputs | None = Field(None, exclude_if=lambda inputs: inputs is None, examples=[None])
    """what was used of a case; not there where the model takes single pictures"""
    would_help: list[MissingInput] = Field([], exclude_if=lambda missing: not missing, examples=[[]])
    """what is missing of a case that would help, best first; not there where nothing is"""
    explanation: Explanation | None = Field(
        None, exclude_if=lambda explanation: explanation is None, examples=[None]
    )
    """where the model looked; absent unless asked for (`explain=true`)"""


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
