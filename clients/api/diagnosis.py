"""What the service answers about one picture, field by field as its JSON has it."""

from collections.abc import Mapping
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, FiniteFloat


class _Part(BaseModel):
    # A newer service may say more; an app that was built earlier goes on working.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Reason(_Part):
    """Why an answer is what it is.

    Attributes:
        code: for programs, such as `low-confidence`; a newer service may have new ones.
        text: for people.
    """

    code: str
    text: str


class ModelUsed(_Part):
    """Which model answered.

    Attributes:
        name: the model's name in the registry.
        version: its version there.
        subgroup: whom this version is for; `global` is everybody.
        digest: of its bundle, `sha256:…`.
        route: why this one answered. Every route but `declared` means: the model for everybody, and no
            promise for the subgroup.
    """

    name: str
    version: int
    subgroup: str
    digest: str
    route: Literal["declared", "unknown-tone", "other-scale", "no-model-for-subgroup"]


class Finding(_Part):
    """One diagnosis that the model knows.

    Attributes:
        code: its short code (`MEL`).
        name: its name (`Melanoma`).
        malignancy: its kind.
        probability: in [0, 1], calibrated.
        coding: its codes in other systems (`{"icd10": "C43.9"}`).
    """

    code: str
    name: str
    malignancy: Literal["malignant", "premalignant", "benign", "unknown"]
    probability: FiniteFloat
    coding: Mapping[str, str]


class PredictionSet(_Part):
    """The diagnoses that cannot be ruled out.

    Attributes:
        codes: of the diagnoses, most probable first; may be empty.
        coverage: the share of pictures whose set is meant to hold the right diagnosis.
        guarantee: for whom that is promised; with `none` the set holds every diagnosis.
        calibration_n: how many lesions the promise rests on.
    """

    codes: tuple[str, ...]
    coverage: FiniteFloat
    guarantee: Literal["subgroup", "global", "none"]
    calibration_n: int


class Malignancy(_Part):
    """How probable it is that the lesion is malignant.

    Attributes:
        probability: the sum over malignant diagnoses; None where the model knows no malignant one.
    """

    probability: FiniteFloat | None


class Confidence(_Part):
    """What was compared to decide between `report` and `refer`.

    Attributes:
        value: the highest probability.
        threshold: what it had to reach.
        calibrated_on_n: how many pictures the threshold rests on.
    """

    value: FiniteFloat
    threshold: FiniteFloat
    calibrated_on_n: int


class Quality(_Part):
    """Whether the picture is good enough.

    Attributes:
        acceptable: False means `retake`.
        issues: what is wrong with it.
    """

    acceptable: bool
    issues: tuple[str, ...]


class Diagnosis(_Part):
    """The answer about one picture.

    Attributes:
        id: of this answer.
        created: when it was given.
        decision: `report`: the findings may be shown; `refer`: a clinician has to look; `retake`: the picture
            is too bad to say anything.
        reasons: why this decision, and last why this model; empty where an older service answered.
        model: which model answered, and why that one.
        findings: most probable first.
        prediction_set: the diagnoses that cannot be ruled out.
        malignancy: how probable it is that the lesion is malignant.
        confidence: what was compared to decide.
        quality: whether the picture is good enough.
        warnings: what a clinician has to know, one sentence each.
        disclaimer: to be shown with every diagnosis.
    """

    id: str
    created: AwareDatetime
    decision: Literal["report", "refer", "retake"]
    reasons: tuple[Reason, ...] = ()
    model: ModelUsed
    findings: tuple[Finding, ...]
    prediction_set: PredictionSet
    malignancy: Malignancy
    confidence: Confidence
    quality: Quality
    warnings: tuple[str, ...]
    disclaimer: str

    @property
    def refer(self) -> bool:
        """Whether a clinician has to look at this picture."""
        return self.decision == "refer"

    @property
    def top(self) -> Finding | None:
        """The most probable finding; None where there are no findings."""
        return self.findings[0] if self.findings else None
