"""What the service answers about one picture, field by field as its JSON has it."""

from collections.abc import Mapping
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, FiniteFloat


class _Part(BaseModel):
    # A newer service may say more; an app that was built earlier goes on working.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Reason(_Part):
    """Why the decision is this one, or why this version answered: a code for programs, a text for people.

    Attributes:
        code: for programs, such as `low-confidence`; a newer service may have new ones.
        text: for people.
    """

    code: str
    text: str


class KindMissed(_Part):
    """How many lesions of one kind of malignancy are ruled out.

    Attributes:
        kind: of malignancy.
        n: how many calibration lesions of it there are.
        missed: how many of them are ruled out.
        high: the upper limit of that share; over `limit` where the kind has too few lesions.
    """

    kind: str
    n: int
    missed: int
    high: FiniteFloat


class Missed(_Part):
    """What may be missed of each kind of malignancy, and what is.

    Attributes:
        limit: the share of each kind of malignancy that may be ruled out.
        kinds: what is missed of each kind; empty where one has too few lesions to be disclosed.
    """

    limit: FiniteFloat
    kinds: tuple[KindMissed, ...]


class FalseAlarms(_Part):
    """How many lesions that are not malignant may be urgent, and how many are.

    Attributes:
        limit: the share of lesions that are not malignant that may be urgent.
        n: how many calibration lesions are not malignant.
        seen: how many of them are urgent.
        high: the upper limit of that share.
    """

    limit: FiniteFloat
    n: int
    seen: int
    high: FiniteFloat


class PredictiveValues(_Part):
    """What triage predicts at the prevalence that was stated for the place, by lower limits.

    Attributes:
        prevalence: the share of lesions that are malignant, as stated.
        negative: of lesions that are ruled out, the share that is not malignant; null where none is.
        positive: of urgent lesions, the share that is malignant; null where none is.
        words: the same as a sentence, with what is assumed.
    """

    prevalence: FiniteFloat
    negative: FiniteFloat | None
    positive: FiniteFloat | None
    words: str


class TriageEvidence(_Part):
    """What was shown of triage in calibration.

    Attributes:
        guarantee: for whom the limits were shown: `subgroup`, those of the declared tone; `global`, all tones
            together; `none`, not for this lesion.
        basis: `split`: on lesions kept for calibration, and exact; `cross-fitted`: on training lesions, each
            scored by a model not trained on it, and nominal for the model that answered.
        confidence: how sure each limit is.
        missed: malignant lesions that are ruled out.
        false_alarms: lesions that are urgent and not malignant.
        predictive: what is predicted; null where no prevalence was stated for the tone; not there where an
            older service answered.
    """

    guarantee: Literal["subgroup", "global", "none"]
    basis: Literal["split", "cross-fitted"]
    confidence: FiniteFloat
    missed: Missed
    false_alarms: FalseAlarms
    predictive: PredictiveValues | None = None


class Conclusion(_Part):
    """What is said of the lesion, at the finest level at which it is sure.

    Attributes:
        level: of the tree of diagnoses: a single one, a group of them, or malignant or not.
        code: of the class, or of the group or side.
        name: its name.
        malignant: whether all of its classes are malignant; else none is.
        probability: of all its classes together, calibrated.
        n: of how many calibration lesions it was concluded.
        wrong: of how many of them wrongly.
        risk_high: the upper limit of that share.
        basis: of which lesions, as in `triage_evidence`.
    """

    level: Literal["diagnosis", "group", "malignancy"]
    code: str
    name: str
    malignant: bool
    probability: FiniteFloat
    n: int
    wrong: int
    risk_high: FiniteFloat
    basis: Literal["split", "cross-fitted"]


class ModelUsed(_Part):
    """The version that answered, and why it was this one.

    Attributes:
        name: the model's name in the registry.
        version: its version there.
        subgroup: whom this version is for; `global` is all patients.
        digest: of its bundle, `sha256:…`.
        route: why this one answered; every route but `declared` means the global model, and no guarantee for
            the subgroup.
    """

    name: str
    version: int
    subgroup: str
    digest: str
    route: Literal["declared", "unknown-tone", "other-scale", "no-model-for-subgroup"]


class Finding(_Part):
    """One class with its probability.

    Attributes:
        code: its short code (`MEL`).
        name: its name (`Melanoma`).
        malignancy: its kind.
        probability: from 0 to 1, calibrated.
        coding: its codes in other systems (`{"icd10": "C43.9"}`).
    """

    code: str
    name: str
    malignancy: Literal["malignant", "premalignant", "benign", "unknown"]
    probability: FiniteFloat
    coding: Mapping[str, str]


class PredictionSet(_Part):
    """The classes that hold the truth as often as `coverage` says, for whom `guarantee` says.

    Attributes:
        codes: of the classes that are possible, most probable first; may be empty.
        coverage: the share of pictures whose set is meant to hold the right class.
        guarantee: for whom that is promised; with `none` the set holds every class and nothing is promised.
        calibration_n: how many lesions the promise rests on.
    """

    codes: tuple[str, ...]
    coverage: FiniteFloat
    guarantee: Literal["subgroup", "global", "none"]
    calibration_n: int


class Malignancy(_Part):
    """The probability that the lesion is malignant; null where no class of the model is.

    Attributes:
        probability: the sum over malignant classes; null where no class of the model is malignant.
        threshold: the working point: from it on a lesion is suspicious; null where the version has none, and
            then all below are; not there where an older service answered.
        above: whether the lesion is suspicious; if so and the first finding is not malignant, the decision is
            `refer`; not there where an older service answered.
        sensitivity: the share of malignant test pictures that were suspicious, in the subgroup that answers;
            not there where an older service answered.
        specificity: the share of other test pictures there that were not; not there where an older service
            answered.
        n: how many malignant test pictures the sensitivity rests on; not there where an older service
            answered.
    """

    probability: FiniteFloat | None
    threshold: FiniteFloat | None = None
    above: bool | None = None
    sensitivity: FiniteFloat | None = None
    specificity: FiniteFloat | None = None
    n: int | None = None


class Quality(_Part):
    """Whether the picture can be judged, and what is wrong with it.

    Attributes:
        acceptable: where it is false, the decision is `retake`.
        issues: what is wrong with the picture, and what to do.
    """

    acceptable: bool
    issues: tuple[str, ...]


class Inputs(_Part):
    """What was used of a case: its pictures and facts, and what is promised for what was given.

    Attributes:
        pictures: the kind of each picture: `close-up`, `dermoscopic`, `overview` or `unknown`.
        facts: the facts that were used, as they were understood.
        pattern: which pictures and how many of the facts were given: the decision is by the rules of such
            cases.
        promised: whether a coverage is promised for such cases; where it is false, the set holds every class.
    """

    pictures: tuple[str, ...]
    facts: Mapping[str, str]
    pattern: str
    promised: bool


class MissingInput(_Part):
    """Something that was not given of a case and would help, by the figures of calibration.

    Attributes:
        missing: one kind of picture, or the facts that are missing.
        fewer_classes: by how many classes the mean prediction set of cases with it was smaller.
        more_reported: by how much the share of reported cases was larger with it.
    """

    missing: tuple[str, ...]
    fewer_classes: FiniteFloat
    more_reported: FiniteFloat


class PictureMap(_Part):
    """Where the model looked in one picture.

    Attributes:
        box: left, upper, right and lower edge of what the model saw of the picture, as shares of its width
            and height as it is looked at, after the turn that EXIF asks for.
        grid: the cells of the box in rows from above, each from 0 to 1, the strongest cell of all pictures.
        png: the same as a transparent PNG in base64, to be laid over the whole picture as it is looked at,
            whatever its size.
    """

    box: tuple[FiniteFloat, ...]
    grid: tuple[tuple[FiniteFloat, ...], ...]
    png: str


class Explanation(_Part):
    """Where the model looked for its first finding; maps where they have proved to show that.

    Attributes:
        code: of the class whose maps they are, the most probable; null without maps.
        maps: of each picture, in the order in which they were sent; empty without maps.
        limits: what the maps do not show, to be displayed with them.
        why_not: why there are no maps; null with maps.
    """

    code: str | None
    maps: tuple[PictureMap, ...]
    limits: tuple[str, ...]
    why_not: str | None


class Diagnosis(_Part):
    """The answer to `POST /v1/diagnoses`.

    Attributes:
        id: of this answer.
        created: when it was given.
        triage: `urgent`: to be seen first; `ruled-out`: below the threshold at which few of each kind of
            malignancy are missed; `routine`: everything else, a clinician looks; null where the version has
            no triage, and with `retake`; not there where an older service answered.
        triage_evidence: what was shown of triage in calibration; null where `triage` is; not there where an
            older service answered.
        conclusion: what is said of the lesion; null where nothing is sure, and with `retake`; not there where
            an older service answered.
        decision: `report`: something is concluded; `refer`: a clinician has to look; `retake`: the picture
            is too bad to say anything.
        reasons: why this decision, and last why this version answered; not there where an older service
            answered.
        model: the version that answered, and why that one.
        findings: the classes, most probable first.
        prediction_set: the classes that are possible.
        malignancy: how probable it is that the lesion is malignant.
        quality: whether the picture is good enough.
        warnings: what a clinician has to know, one sentence each.
        disclaimer: to be shown with every diagnosis.
        inputs: what was used of a case; not there where the model takes single pictures; not there where an
            older service answered.
        would_help: what is missing of a case that would help, best first; not there where nothing is; not
            there where an older service answered.
        explanation: where the model looked; not there without `explain=true`; not there where an older
            service answered.
    """

    id: str
    created: AwareDatetime
    triage: Literal["urgent", "routine", "ruled-out"] | None = None
    triage_evidence: TriageEvidence | None = None
    conclusion: Conclusion | None = None
    decision: Literal["report", "refer", "retake"]
    reasons: tuple[Reason, ...] = ()
    model: ModelUsed
    findings: tuple[Finding, ...]
    prediction_set: PredictionSet
    malignancy: Malignancy
    quality: Quality
    warnings: tuple[str, ...]
    disclaimer: str
    inputs: Inputs | None = None
    would_help: tuple[MissingInput, ...] = ()
    explanation: Explanation | None = None

    @property
    def refer(self) -> bool:
        """Whether a clinician has to look at this picture."""
        return self.decision == "refer"

    @property
    def top(self) -> Finding | None:
        """The most probable finding; None where there are no findings."""
        return self.findings[0] if self.findings else None
